"""A ceiling of the calculator: what some hardware allows some model. Computed, so it has no samples and no spread."""

from collections.abc import Iterator, Sequence

from app import charts
from app.ceiling.curve import CurvePoint
from app.ceiling.decode import usual_range
from app.ceiling.geometry import Certainty
from app.ceiling.report import Report
from app.core.i18n import _, joined
from app.core.units import GIGA, TERA, format_bandwidth, format_billions, format_bytes, format_number
from app.share import anonymize
from app.share.figures import public_figure
from app.share.snapshot import Chart, Column, DataTable, Fact, Snapshot, Tile

KIND = "ceiling"
SHOWN_CONTEXT = 8_192
"""At which the second number stands, beside the empty cache."""


def snapshot(reports: Sequence[Report], curve: Sequence[CurvePoint]) -> Snapshot:
    """`reports`: of one model on one device, one for each context, the empty cache first."""
    first = reports[0]
    model, device = _model(first), anonymize.calculated_device(first.device.name)
    tiles = tuple(_tiles(reports))
    figure = charts.against_context(curve)
    return Snapshot(
        kind=KIND,
        title=f"Ceiling: {model} on {_article(device)}",
        description=f"{', '.join(f'{tile.title}: {format_number(tile.value)} {tile.unit}' for tile in tiles)} at most.",
        subtitle=_(
            "What {bandwidth} allow at most, computed", bandwidth=format_bandwidth(first.device.bandwidth_bytes_per_s)
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
            _(
                "Whatever is uncertain is left out of the bytes. Most good results reach 60 to 85 % of a decode "
                "ceiling."
            ),
        ),
    )


def _model(found: Report) -> str:
    """By its size: names are not asked for, and a config.json may hold anything."""
    weights, total = found.geometry.weights, found.geometry.params_total
    assert weights is not None, "without weights there is no ceiling"
    active = found.geometry.params_active
    size_words = f"{format_billions(total)} parameters"
    if active and total and weights.routed.parameters:
        size_words += f" with {format_billions(active)} active"
    return f"{size_words} at {format_number(weights.bits_per_weight)} bits"


def _article(device: str) -> str:
    return f"an {device}" if device == anonymize.ACCELERATOR else device


def _tiles(reports: Sequence[Report]) -> Iterator[Tile]:
    first = reports[0]
    for found in (first, *(each for each in reports if each.context == SHOWN_CONTEXT)):
        assert found.step is not None, "the calculator refuses a model without weights"
        where = _("{n:,} tokens", n=found.context) if found.context else _("empty cache")
        title = joined(_("Decode"), where, by=" · ")
        if found.decode is None:
            yield Tile(title, None, "tok/s", reason=_("The model does not fit the device."))
            continue
        source = found.decode.words if not found.context else found.step.words
        yield Tile(title, found.decode.tokens_per_s, "tok/s", source=source)
    title = joined(_("Prefill"), _("{n:,} tokens", n=first.prompt_tokens), by=" · ")
    if first.prefill:
        yield Tile(title, first.prefill.tokens_per_s, "tok/s", source=first.prefill.words)
    else:
        yield Tile(title, None, "tok/s", reason=_("The device's peak TFLOP/s are unknown."))


def _facts(found: Report, device: str) -> Iterator[Fact]:
    geometry = found.geometry
    yield Fact(_("Device"), device)
    yield Fact(_("Memory bandwidth"), format_bandwidth(found.device.bandwidth_bytes_per_s))
    if found.device.peak_flops:
        yield Fact(_("Compute"), f"{format_number(found.device.peak_flops / TERA)} TFLOP/s")
    yield Fact(_("Parameters"), format_billions(geometry.params_total))
    yield Fact(_("Active for a token"), format_billions(geometry.params_active))
    if geometry.weights is not None:
        yield Fact(_("Bits per weight"), format_number(geometry.weights.bits_per_weight))
        yield Fact(_("Weights"), format_bytes(geometry.weights.total.n_bytes))
    is_bound = geometry.certainty is Certainty.BOUND
    yield Fact(_("Certainty"), _("a bound") if is_bound else _("an estimate, no bound"))
    yield Fact(_("KV cache"), str(found.kv))
    if found.step is not None and found.step.batch > 1:
        yield Fact(_("Batch"), str(found.step.batch))


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
    return DataTable(_("Ceilings for each context"), columns, tuple(_row(each) for each in reports), is_brief=True)


def _row(found: Report) -> tuple[int | float | None, ...]:
    decode = found.decode.tokens_per_s if found.decode else None
    usual = usual_range(decode) if decode is not None else (None, None)
    whole = found.prefill if found.context else None  # an empty prompt has no prefill
    n_bytes = found.step.n_bytes / GIGA if found.step else None
    return (found.context, n_bytes, decode, *usual, whole and whole.tokens_per_s, whole and whole.ttft_floor_ms)
