"""What each device of a machine can do for the models that were measured there, and how much of that was reached."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from app.ceiling.decode import DecodeCeiling, Device, Split
from app.ceiling.efficiency import judge, mbu
from app.core.i18n import _, separator
from app.core.samples import Workload
from app.db.devices import load_catalogue
from app.db.machines import BandwidthValue, device_title, devices
from app.db.tables import Machine
from app.hardware.catalogue import Catalogue
from app.results.ceiling.peers import decode_peers
from app.results.ceiling.placement import Placement, resolve_placement
from app.results.ceiling.points import decode_of, step_of
from app.results.decode_speeds import Decode, fastest_decodes


@dataclass(frozen=True)
class ModelUse:
    """The run of a model that came nearest to its own ceiling."""

    model: str
    quantization: str
    public_id: str
    point: Workload
    tokens_per_s: float
    """All streams together."""
    ceiling: DecodeCeiling
    mbu: float
    """As a share of 1, never clamped."""
    verdict: str
    """Beside published results of its kind; empty where there are too few."""


@dataclass(frozen=True)
class DeviceUse:
    """A device, or several that held models together."""

    name: str
    device: Device | None
    """None: its bandwidth is unknown, or there are several unlike ones."""
    stated: Sequence[BandwidthValue]
    """Where the bandwidth of each comes from."""
    models: Sequence[ModelUse] = ()
    """The best use first."""


def machine_uses(session: Session, machine: Machine) -> list[DeviceUse]:
    """The machine's devices as they are known today, then what else held a model in some run."""
    assert machine.id is not None
    catalogue = load_catalogue(session)
    uses: dict[str, DeviceUse] = {}
    for each in devices(session, machine):
        known = each.bandwidth_bytes_per_s and Device(each.name, each.bandwidth_bytes_per_s, each.peak_flops)
        uses.setdefault(each.name, DeviceUse(each.name, known or None, each.bandwidths[:1]))
    best: dict[tuple[str, str, str], ModelUse] = {}
    for one in fastest_decodes(session, machine.id):
        found = resolve_placement(one.hardware.devices, one.config, one.told, gpu_share=one.gpu_share)
        if not isinstance(found, Placement):
            continue
        name = _name(found)
        uses.setdefault(
            name, DeviceUse(name, found.device, [device_share.stated for device_share in found.device_shares])
        )
        use, key = _use(found, one, catalogue), (name, one.model.name, one.model.quantization)
        if key not in best or best[key].mbu < use.mbu:
            best[key] = use
    return [
        DeviceUse(each.name, each.device, each.stated, _sorted(use for (at, *_), use in best.items() if at == name))
        for name, each in uses.items()
    ]


def _use(found: Placement, one: Decode, catalogue: Catalogue) -> ModelUse:
    read = step_of(found, one.point, one.counts)
    ceiling = decode_of(found, read, one.drafts)
    share = mbu(one.tokens_per_s, ceiling.tokens_per_s)
    return ModelUse(
        model=one.model.name,
        quantization=one.model.quantization,
        public_id=one.public_id,
        point=one.point,
        tokens_per_s=one.tokens_per_s,
        ceiling=ceiling,
        mbu=share,
        verdict=judge(share, decode_peers(found, catalogue)),
    )


def _name(found: Placement) -> str:
    """`RTX 3090`, `2 × RTX 3090, tensor parallel`, `RTX 3090 + Memory`"""
    counts: dict[str, int] = {}
    for device_share in found.device_shares:
        counts[device_share.device.name] = counts.get(device_share.device.name, 0) + 1
    together = " + ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())
    if len(found.device_shares) == 1:
        return together
    return separator(", ").join(
        (device_title(together), _("tensor parallel") if found.split is Split.TENSOR else _("in series"))
    )


def _sorted(uses: Iterable[ModelUse]) -> list[ModelUse]:
    return sorted(uses, key=lambda use: use.mbu, reverse=True)
