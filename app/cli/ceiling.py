from dataclasses import replace
from pathlib import Path

from app import units
from app.ceiling.decode import Device, Drafting, usual_range
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
        raise BadInput("Give the draft statistics: --drafting 4 2.5 means that 2.5 of 4 drafted tokens are accepted.")
    device, source, peaks = _device(device_name, bandwidth, teraflops)
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
        found = replace(found, assumptions=(*found.assumptions, *peaks, words))
    if as_json:
        print_json(found.to_json())
    else:
        say(text(found))


def _device(name: str | None, bandwidth: str | None, teraflops: float | None) -> tuple[Device, str, list[str]]:
    """And where its figures come from, with its compute peaks where they are two. What is typed stands before what is
    known. Raises BadInput."""
    stated = None if bandwidth is None else bandwidth_bytes_per_s(bandwidth)
    peak = None if teraflops is None else teraflops * TERA
    if name is None:
        if stated is None:
            raise BadInput("Name a device (--device 'RTX 3090') or a bandwidth in GB/s (--bandwidth 936).")
        return Device("device", stated, peak), "", []
    with open_database(Settings()).read() as session:
        found = known_devices(session).find(name)
    device = replace(
        found.device,
        bandwidth_bytes_per_s=found.device.bandwidth_bytes_per_s if stated is None else stated,
        peak_flops=found.device.peak_flops if peak is None else peak,
    )
    source = found.source if device == found.device else f"{found.source}, corrected as typed"
    slow, fast = found.compute_flops_per_s, device.peak_flops
    if peak is not None or not slow or not fast or slow == fast:
        return device, source, []
    peaks = f"prefill uses the fastest path of {device.name}, {number(fast / TERA)} TFLOP/s"
    return device, source, [f"{peaks}; FP16 with FP32 accumulate reaches {number(slow / TERA)}"]


def text(found: Report) -> str:
    geometry, step, decode, prefill = found.geometry, found.step, found.decode, found.prefill
    lines = [f"{geometry.architecture or 'model'}, by {geometry.source}"]
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
        lines.append(f"  decode      at most {decode.words}, with {found.context:,} tokens in the cache ({found.kv})")
        lines.append(f"              good results reach {number(low)} to {number(high)} tok/s")
    if prefill:
        lines.append(f"  prefill     at most {prefill.words}")
        lines.append(f"  TTFT        at least {number(prefill.ttft_floor_ms)} ms")
    return "\n".join([*lines, *(f"  - {sentence}" for sentence in found.assumptions)])
