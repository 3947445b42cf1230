from dataclasses import replace
from pathlib import Path

from app import units
from app.ceiling.decode import Device, Drafting, usual_range
from app.ceiling.geometry import Certainty
from app.ceiling.quantities import bandwidth_bytes_per_s
from app.ceiling.report import Report, report
from app.ceiling.sources import from_path
from app.ceiling.traffic import expected_expert_share
from app.ceiling.types import KvTypes
from app.cli.common import open_database, print_json, say
from app.errors import BadInput
from app.settings import Settings
from app.store.devices import known_devices
from app.units import TERA, billions, number, size


def ceiling(
    file: Path,
    device_name: str | None,
    bandwidth: str | None,
    teraflops: float | None,
    context: int,
    kv: str,
    batch: int,
    bits: float | None,
    drafting: tuple[int, float] | None,
    draft: Path | None,
    as_json: bool,
) -> None:
    """`drafting`: drafted and accepted tokens. Raises BadInput."""
    if draft and not drafting:
        raise BadInput("Say how well the draft model drafts: --drafting 4 2.5 for 2.5 of 4 tokens accepted.")
    device, source = _device(device_name, bandwidth, teraflops)
    found = report(
        from_path(file, bits),
        device,
        context,
        KvTypes.parse(kv),
        batch,
        Drafting(*drafting) if drafting else None,
        from_path(draft, bits) if draft else None,
    )
    if source:
        words = f"{device.name}: {units.bandwidth(device.bandwidth_bytes_per_s)}, {source}"
        found = replace(found, assumptions=(*found.assumptions, words))
    if as_json:
        print_json(found.to_json())
    else:
        say(text(found))


def _device(name: str | None, bandwidth: str | None, teraflops: float | None) -> tuple[Device, str]:
    """And where its figures come from. What is typed stands before what is known. Raises BadInput."""
    stated = None if bandwidth is None else bandwidth_bytes_per_s(bandwidth)
    peak = None if teraflops is None else teraflops * TERA
    if name is None:
        if stated is None:
            raise BadInput("Say what to compute with: --device 'RTX 3090', or --bandwidth in GB/s.")
        return Device("device", stated, peak), ""
    with open_database(Settings()).read() as session:
        found = known_devices(session).find(name)
    device = replace(
        found.device,
        bandwidth_bytes_per_s=found.device.bandwidth_bytes_per_s if stated is None else stated,
        peak_flops=found.device.peak_flops if peak is None else peak,
    )
    return device, found.source if device == found.device else f"{found.source}, corrected as typed"


def text(found: Report) -> str:
    geometry, step, decode, prefill = found.geometry, found.step, found.decode, found.prefill
    lines = [f"{geometry.architecture or 'model'}, by {geometry.source}"]
    is_bound = geometry.certainty is Certainty.BOUND
    if weights := geometry.weights:
        active = f", {billions(geometry.params_active)} active" if weights.routed.parameters else ""
        lines.append(
            f"  parameters  {billions(geometry.params_total)}{active}; "
            f"{size(weights.total.n_bytes)} at {number(weights.bits_per_weight)} bits per weight"
        )
    if weights and weights.routed.parameters:
        share = number(expected_expert_share(geometry, 1) * 100)
        lines.append(f"  experts     {geometry.experts_used} of {geometry.experts_total} for each token ({share} %)")
    if step:
        lines.append(f"  bytes       {step.words}")
    if decode:
        low, high = usual_range(decode.tokens_per_s)
        limit = "at most" if is_bound else "about"
        lines.append(f"  decode      {limit} {decode.words}, with {found.context:,} tokens in the cache ({found.kv})")
        lines.append(f"              good results reach {number(low)} to {number(high)} tok/s")
    if prefill:
        lines.append(f"  prefill     {'at most' if is_bound else 'about'} {prefill.words}")
        lines.append(f"  TTFT        {'at least' if is_bound else 'about'} {number(prefill.ttft_floor_ms)} ms")
    lines.append(f"  certainty   {'a bound' if is_bound else geometry.doubt}")
    return "\n".join([*lines, *(f"  - {sentence}" for sentence in found.assumptions if sentence != geometry.doubt)])
