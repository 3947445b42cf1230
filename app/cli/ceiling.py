"""`roofmark ceiling`: what hardware allows a model, without a run."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from app.ceiling.bytes_per_step import expected_expert_share
from app.ceiling.decode import Device, Drafting, usual_range
from app.ceiling.geometry import Certainty
from app.ceiling.number_formats import KvTypes
from app.ceiling.offload import ALL_LAYERS, Offload
from app.ceiling.report import Report, report
from app.ceiling.sources import from_path
from app.cli.output import Json, print_json, say
from app.cli.startup import open_database
from app.core import units
from app.core.errors import BadInput
from app.core.i18n import _
from app.core.settings import Settings
from app.core.units import GIGA, TERA, format_billions, format_bytes, format_number, format_quantity, read_number
from app.db.devices import KnownDevice, known_devices

_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"(\d.*?)\s*([kmgt]?)(i?)b", re.IGNORECASE)

DeviceName = Annotated[
    str | None, typer.Option("--device", help="A device of the catalogue or of a machine, such as 'RTX 3090'.")
]
Bandwidth = Annotated[str | None, typer.Option(help="Memory bandwidth in GB/s; replaces the device's.")]
Teraflops = Annotated[float | None, typer.Option("--tflops", help="Peak dense compute in TFLOP/s; needed for prefill.")]
Context = Annotated[int, typer.Option(help="Tokens in the KV cache, and prompt length for prefill.")]
DraftingOption = Annotated[
    tuple[int, float] | None,
    typer.Option(
        "--drafting",
        metavar="DRAFTED ACCEPTED",
        help="Speculative decoding: tokens drafted per step, and how many of them are accepted on average.",
    ),
]
DraftFile = Annotated[
    Path | None, typer.Option("--draft", metavar="FILE", help="The draft model; without it, its reads are not counted.")
]
GpuLayers = Annotated[
    int | None,
    typer.Option("-ngl", "--gpu-layers", help="Layers on the device; the rest is in system memory.", min=0),
]
CpuMoeLayers = Annotated[
    int | None,
    typer.Option("--n-cpu-moe", help="Keep the routed experts of the first N layers in system memory.", min=0),
]
OverrideTensor = Annotated[
    str,
    typer.Option(
        "-ot",
        "--override-tensor",
        metavar="PATTERN=BUFFER",
        help="Tensor placement as in llama.cpp, such as 'exps=CPU'.",
    ),
]
RamBandwidth = Annotated[
    str | None,
    typer.Option("--ram-bandwidth", help="System memory bandwidth in GB/s, for what is not on the device."),
]

commands = typer.Typer()


@commands.command("ceiling")
def print_ceiling(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A GGUF file (any shard) or a config.json.")],
    device_name: DeviceName = None,
    bandwidth: Bandwidth = None,
    teraflops: Teraflops = None,
    context: Context = 0,
    kv: Annotated[str, typer.Option(help="KV cache type, such as q8_0, or K/V as q8_0/f16.")] = "f16",
    batch: Annotated[int, typer.Option(help="Number of concurrent sequences.")] = 1,
    bits: Annotated[float | None, typer.Option(help="Bits per weight, for a config.json.")] = None,
    drafting: DraftingOption = None,
    draft: DraftFile = None,
    gpu_layers: GpuLayers = None,
    n_cpu_moe: CpuMoeLayers = None,
    cpu_moe: Annotated[bool, typer.Option("--cpu-moe", help="Keep all routed experts in system memory.")] = False,
    override_tensor: OverrideTensor = "",
    ram_bandwidth: RamBandwidth = None,
    as_json: Json = False,
) -> None:
    """Compute the fastest decode, prefill and TTFT that hardware allows a model."""
    if draft and not drafting:
        raise BadInput("--draft needs --drafting: `--drafting 4 2.5` means that 2.5 of 4 drafted tokens are accepted.")
    known_device = _device(device_name, bandwidth, teraflops)
    ram = None if ram_bandwidth is None else Device("system memory", parse_bandwidth(ram_bandwidth))
    offload = Offload(gpu_layers, ALL_LAYERS if cpu_moe else n_cpu_moe, override_tensor)
    ceiling_report = report(
        from_path(file, bits),
        known_device.device,
        context,
        KvTypes.parse(kv),
        batch,
        Drafting(*drafting) if drafting else None,
        from_path(draft, bits) if draft else None,
        known_device.layout(ram, offload),
    )
    device_assumptions = _device_assumptions(known_device, is_peak_typed=teraflops is not None)
    ceiling_report = replace(ceiling_report, assumptions=(*ceiling_report.assumptions, *device_assumptions))
    if as_json:
        print_json(ceiling_report.to_json())
    else:
        say(ceiling_text(ceiling_report))


def _device(name: str | None, bandwidth: str | None, teraflops: float | None) -> KnownDevice:
    """Returns the named device, with the typed bandwidth (GB/s) and peak in place of its own. Raises BadInput."""
    typed_bandwidth = None if bandwidth is None else parse_bandwidth(bandwidth)
    peak = None if teraflops is None else teraflops * TERA
    if name is None:
        if typed_bandwidth is None:
            raise BadInput("Name a device (--device 'RTX 3090') or a bandwidth in GB/s (--bandwidth 936).")
        return KnownDevice(Device("device", typed_bandwidth, peak), "", None)
    with open_database(Settings()).read() as session:
        known_device = known_devices(session).find(name)
    device = replace(
        known_device.device,
        bandwidth_bytes_per_s=known_device.device.bandwidth_bytes_per_s if typed_bandwidth is None else typed_bandwidth,
        peak_flops=known_device.device.peak_flops if peak is None else peak,
    )
    source = known_device.source if device == known_device.device else f"{known_device.source}, corrected as typed"
    return replace(known_device, device=device, source=source)


def _device_assumptions(known_device: KnownDevice, is_peak_typed: bool) -> list[str]:
    """Says where the bandwidth is from and, if the device has two compute peaks, which of them counts."""
    device = known_device.device
    if not known_device.source:
        return []
    sentences = [f"{device.name}: {units.format_bandwidth(device.bandwidth_bytes_per_s)}, {known_device.source}"]
    slow, fast = known_device.compute_flops_per_s, device.peak_flops
    if slow and fast and slow != fast and not is_peak_typed:
        peaks = f"prefill uses the fastest path of {device.name}, {format_number(fast / TERA)} TFLOP/s"
        sentences.insert(0, f"{peaks}; FP16 with FP32 accumulate reaches {format_number(slow / TERA)}")
    return sentences


def ceiling_text(ceiling_report: Report) -> str:
    """Formats a report as lines for a terminal."""
    geometry, step = ceiling_report.geometry, ceiling_report.step
    decode, prefill = ceiling_report.decode, ceiling_report.prefill
    lines = [f"{geometry.architecture or 'model'}, by {geometry.source}"]
    is_bound = geometry.certainty is Certainty.BOUND
    if weights := geometry.weights:
        active = f", {format_billions(geometry.params_active)} active" if weights.routed.parameters else ""
        lines.append(
            f"  parameters  {format_billions(geometry.params_total)}{active}; "
            f"{format_bytes(weights.total.n_bytes)} at {format_number(weights.bits_per_weight)} bits per weight"
        )
    if weights and weights.routed.parameters:
        share = format_number(expected_expert_share(geometry, 1) * 100)
        lines.append(f"  experts     {geometry.experts_used} of {geometry.experts_total} for each token ({share} %)")
    if step:
        lines.append(f"  bytes       {step.words}")
    if decode:
        low, high = usual_range(decode.tokens_per_s)
        limit = "at most" if is_bound else "about"
        cache = f"{ceiling_report.context:,} tokens in the cache ({ceiling_report.kv})"
        lines.append(f"  decode      {limit} {decode.words}, with {cache}")
        lines.append(f"              good results reach {format_number(low)} to {format_number(high)} tok/s")
    elif step:
        lines.append("  decode      unknown")
    if prefill:
        lines.append(f"  prefill     {'at most' if is_bound else 'about'} {prefill.words}")
        floor = format_quantity(prefill.ttft_floor_ms, "ms")
        lines.append(f"  TTFT        {'at least' if is_bound else 'about'} {floor}")
    if step:
        lines.append(f"  certainty   {'a bound' if is_bound else geometry.doubt}")
    assumptions = (sentence for sentence in ceiling_report.assumptions if sentence != geometry.doubt)
    return "\n".join([*lines, *(f"  - {sentence}" for sentence in assumptions)])


def parse_size(text: str) -> float:
    """Reads a size as people write it, in bytes: GB is 1e9, GiB is 2^30. Raises BadInput.

    >>> parse_size("13.34 GiB"), parse_size("448 GB")
    (14323715932.16, 448000000000.0)
    """
    match = _SIZE.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError(text)
        value, prefix, binary = match.groups()
        return read_number(value) * float((1024 if binary else 1000) ** _PREFIXES[prefix.lower()])
    except ValueError as error:
        raise BadInput(_("{text!r} is no size; write it like 13.3 GiB or 14.3 GB.", text=text[:40])) from error


def parse_bandwidth(text: str) -> float:
    """Reads a bandwidth in bytes per second; a bare number is GB/s. Raises BadInput.

    >>> parse_bandwidth("448 GB/s"), parse_bandwidth("89.6")
    (448000000000.0, 89600000000.0)
    """
    stripped = text.strip()
    try:
        return read_number(stripped) * GIGA
    except ValueError:  # perhaps with its unit
        pass
    amount, slash, second = stripped.partition("/")
    if not slash or second.strip().lower() not in ("s", "sec"):
        raise BadInput(_("{text!r} is no bandwidth; write it in GB/s, like 448.", text=text[:40]))
    return parse_size(amount)
