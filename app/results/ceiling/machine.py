"""What each device of a machine can do for the models measured there, and how much of it was reached."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from app.ceiling.decode import DecodeCeiling, Device, Split
from app.ceiling.efficiency import judge, mbu
from app.core.i18n import _, joined
from app.core.samples import Workload
from app.db.devices import load_catalogue
from app.db.machines import BandwidthValue, device_title, devices
from app.db.tables import Machine
from app.hardware.catalogue import Catalogue
from app.results.ceiling.configs import Decode, fastest_decodes
from app.results.ceiling.placement import Placement, decode_peers, resolve_placement
from app.results.ceiling.points import decode_of, step_of


@dataclass(frozen=True)
class ModelUse:
    """The run of a model that came closest to its own ceiling."""

    model: str
    quantization: str
    public_id: str
    point: Workload
    tokens_per_s: float
    """The speed of all streams together."""
    ceiling: DecodeCeiling
    mbu: float
    """The share of the ceiling (1 is all of it), never clamped."""
    verdict: str
    """The comparison with published results of its kind; empty when there are too few."""


@dataclass(frozen=True)
class DeviceUse:
    """A device, or several that held models together."""

    name: str
    device: Device | None
    """None when its bandwidth is unknown, or the devices are unlike."""
    stated: Sequence[BandwidthValue]
    """The bandwidth of each device and its source."""
    models: Sequence[ModelUse] = ()
    """The best use first."""


def machine_uses(session: Session, machine: Machine) -> list[DeviceUse]:
    """Returns the machine's devices as they are known today, then any other device that held a model in some run."""
    assert machine.id is not None
    catalogue = load_catalogue(session)
    uses: dict[str, DeviceUse] = {}
    for machine_device in devices(session, machine):
        device = machine_device.bandwidth_bytes_per_s and Device(
            machine_device.name, machine_device.bandwidth_bytes_per_s, machine_device.peak_flops
        )
        uses.setdefault(
            machine_device.name, DeviceUse(machine_device.name, device or None, machine_device.bandwidths[:1])
        )
    best: dict[tuple[str, str, str], ModelUse] = {}
    for decode in fastest_decodes(session, machine.id):
        placement = resolve_placement(
            decode.hardware.devices, decode.config, decode.known_geometry, gpu_share=decode.gpu_share
        )
        if not isinstance(placement, Placement):
            continue
        name = _name(placement)
        uses.setdefault(
            name, DeviceUse(name, placement.device, [device_share.stated for device_share in placement.device_shares])
        )
        use, key = _use(placement, decode, catalogue), (name, decode.model.name, decode.model.quantization)
        if key not in best or best[key].mbu < use.mbu:
            best[key] = use
    return [
        DeviceUse(
            machine_device.name,
            machine_device.device,
            machine_device.stated,
            _sorted(use for (device_name, *_), use in best.items() if device_name == name),
        )
        for name, machine_device in uses.items()
    ]


def _use(placement: Placement, decode: Decode, catalogue: Catalogue) -> ModelUse:
    decode_step = step_of(placement, decode.point, decode.counts)
    ceiling = decode_of(placement, decode_step, decode.drafts)
    share = mbu(decode.tokens_per_s, ceiling.tokens_per_s)
    return ModelUse(
        model=decode.model.name,
        quantization=decode.model.quantization,
        public_id=decode.public_id,
        point=decode.point,
        tokens_per_s=decode.tokens_per_s,
        ceiling=ceiling,
        mbu=share,
        verdict=judge(share, decode_peers(placement, catalogue)),
    )


def _name(placement: Placement) -> str:
    """Returns the devices in words: `RTX 3090`, `2 × RTX 3090, tensor parallel`, `RTX 3090 + Memory`."""
    counts: dict[str, int] = {}
    for device_share in placement.device_shares:
        counts[device_share.device.name] = counts.get(device_share.device.name, 0) + 1
    names = " + ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())
    if len(placement.device_shares) == 1:
        return names
    split = _("tensor parallel") if placement.split is Split.TENSOR else _("in series")
    return joined(device_title(names), split, by=", ")


def _sorted(uses: Iterable[ModelUse]) -> list[ModelUse]:
    return sorted(uses, key=lambda use: use.mbu, reverse=True)
