"""The share of a ceiling from the calculator: what some hardware allows some model. It is computed, so it has no
samples and no spread."""

from collections.abc import Iterator, Sequence

from app import charts
from app.ceiling.decode import CurvePoint, usual_range
from app.ceiling.geometry import Certainty
from app.ceiling.report import Report
from app.core.i18n import _, joined
from app.core.units import GIGA, TERA, format_bandwidth, format_billions, format_bytes, format_number
from app.share import anonymize
from app.share.figures import public_figure
from app.share.snapshot import Chart, Column, DataTable, Fact, Snapshot, Tile

KIND = "ceiling"
SHOWN_CONTEXT = 8_192
"""The tokens in the cache for the second tile; the first is for an empty cache."""


def snapshot(reports: Sequence[Report], curve: Sequence[CurvePoint]) -> Snapshot:
    """Makes the public snapshot of a model on a device: a report for each context, the empty cache first."""
    first = reports[0]
    model, device = _model(first), anonymize.calculated_device(first.device.name)
    tiles = tuple(_tiles(reports))
    figure = charts.against_context(curve)
    return Snapshot(
        kind=KIND,
        title=f"Ceiling: {model} on {_article(device)}",
        description=f"{', '.join(f'{tile.title}: {format_number(tile.value)} {tile.unit}' for tile in tiles)} at most.",
        subtitle=_(
            "The most that {bandwidth} allow, computed", bandwidth=format_bandwidth(first.device.bandwidth_bytes_per_s)
        ),
        tiles=tiles,
        facts=tuple(_facts(first, device)),
        figures=(_contexts(reports),),
        charts=(Chart(_("Decode against context"), public_figure(figure)),) if figure else (),
        remarks=(
            _(
                "Nothing here was measured: a ceiling is the speed that hardware cannot beat, because each token reads "
                "the model's weights and the KV cache from memory."
            ),
            _("Uncertain bytes are left out. Most good results reach 60 to 85 % of a decode ceiling."),
        ),
    )


def _model(report: Report) -> str:
    """Returns the model's size as its name: the form asks for no name, and a config.json may contain anything."""
    weights, total = report.geometry.weights, report.geometry.params_total
    assert weights is not None, "without weights there is no ceiling"
    active = report.geometry.params_active
    size_words = f"{format_billions(total)} parameters"
    if active and total and weights.routed.parameters:
        size_words += f" with {format_billions(active)} active"
    return f"{size_words} at {format_number(weights.bits_per_weight)} bits"


def _article(device: str) -> str:
    return f"an {device}" if device == anonymize.ACCELERATOR else device


def _tiles(reports: Sequence[Report]) -> Iterator[Tile]:
    first = reports[0]
    for report in (first, *(report for report in reports if report.context == SHOWN_CONTEXT)):
        assert report.step is not None, "the calculator refuses a model without weights"
        cache_text = _("{n:,} tokens", n=report.context) if report.context else _("empty cache")
        title = joined(_("Decode"), cache_text, by=" · ")
        if report.decode is None:
            yield Tile(title, None, "tok/s", reason=_("The model does not fit the device."))
            continue
        source = report.decode.words if not report.context else report.step.words
        yield Tile(title, report.decode.tokens_per_s, "tok/s", source=source)
    title = joined(_("Prefill"), _("{n:,} tokens", n=first.prompt_tokens), by=" · ")
    if first.prefill:
        yield Tile(title, first.prefill.tokens_per_s, "tok/s", source=first.prefill.words)
    else:
        yield Tile(title, None, "tok/s", reason=_("The device's peak TFLOP/s are unknown."))


def _facts(report: Report, device: str) -> Iterator[Fact]:
    geometry = report.geometry
    yield Fact(_("Device"), device)
    yield Fact(_("Memory bandwidth"), format_bandwidth(report.device.bandwidth_bytes_per_s))
    if report.device.peak_flops:
        yield Fact(_("Compute"), f"{format_number(report.device.peak_flops / TERA)} TFLOP/s")
    yield Fact(_("Parameters"), format_billions(geometry.params_total))
    yield Fact(_("Active for a token"), format_billions(geometry.params_active))
    if geometry.weights is not None:
        yield Fact(_("Bits per weight"), format_number(geometry.weights.bits_per_weight))
        yield Fact(_("Weights"), format_bytes(geometry.weights.total.n_bytes))
    is_bound = geometry.certainty is Certainty.BOUND
    yield Fact(_("Certainty"), _("a bound") if is_bound else _("an estimate, not a bound"))
    yield Fact(_("KV cache"), str(report.kv))
    if report.step is not None and report.step.batch > 1:
        yield Fact(_("Batch"), str(report.step.batch))


def _contexts(reports: Sequence[Report]) -> DataTable:
    columns = (
        Column(_("Context")),
        Column(_("Bytes read"), "GB"),
        Column(_("Decode ceiling"), "tok/s"),
        Column(_("Good results, low"), "tok/s"),
        Column(_("high"), "tok/s"),
        Column(_("Prefill ceiling"), "tok/s"),
        Column(_("TTFT floor"), "ms"),
    )
    return DataTable(_("Ceilings for each context"), columns, tuple(_row(report) for report in reports), is_brief=True)


def _row(report: Report) -> tuple[int | float | None, ...]:
    decode = report.decode.tokens_per_s if report.decode else None
    usual = usual_range(decode) if decode is not None else (None, None)
    prefill = report.prefill if report.context else None  # an empty prompt has no prefill
    n_bytes = report.step.n_bytes / GIGA if report.step else None
    return (
        report.context,
        n_bytes,
        decode,
        *usual,
        prefill and prefill.tokens_per_s,
        prefill and prefill.ttft_floor_ms,
    )
