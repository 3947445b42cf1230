from pathlib import Path

import typer

from app.ceiling.decode import TERA, Device, usual_range
from app.ceiling.quantities import bandwidth_bytes_per_s
from app.ceiling.report import Report, report
from app.ceiling.sources import from_path
from app.ceiling.traffic import expected_expert_share
from app.ceiling.types import KvTypes
from app.cli.common import print_json
from app.units import number, size


def ceiling(
    file: Path,
    bandwidth: str,
    teraflops: float | None,
    context: int,
    kv: str,
    batch: int,
    bits: float | None,
    as_json: bool,
) -> None:
    peak = None if teraflops is None else teraflops * TERA
    device = Device("device", bandwidth_bytes_per_s(bandwidth), peak)
    found = report(from_path(file, bits), device, context, KvTypes.parse(kv), batch)
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(text(found))


def text(found: Report) -> str:
    geometry, step, decode, prefill = found.geometry, found.step, found.decode, found.prefill
    lines = [f"{geometry.architecture or 'model'}, by {geometry.source}"]
    if weights := geometry.weights:
        active = f", {_billions(geometry.params_active)} active" if weights.routed.parameters else ""
        lines.append(
            f"  parameters  {_billions(geometry.params_total)}{active}; "
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


def _billions(count: int | None) -> str:
    return f"{number(count and count / 1e9)} B"
