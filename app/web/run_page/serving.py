"""The section of a run with several streams: its figure, under the limits that the reader chose in the address."""

from dataclasses import dataclass

from starlette.datastructures import QueryParams

from app import charts
from app.core.errors import BadInput
from app.core.i18n import N_, _
from app.core.units import format_number, read_number
from app.metrics.throughput import USUAL_SLO, Slo
from app.results.load_run import RunResult
from app.web.forms import format_input
from app.web.run_page.sections import Section

LARGEST_MS = 1e7


@dataclass(frozen=True)
class Serving(Section):
    template = "_run_serving.html"
    contents = ("serving-title", N_("Streams"))

    public_id: str
    figure: charts.Figure
    ttft_ms: str
    """The limits as they stand in the form."""
    tpot_ms: str


def serving_section(result: RunResult, query: QueryParams) -> Serving | None:
    """None for a run without several streams. Raises BadInput for limits that are none."""
    slo = Slo(
        ttft_ms=_limit(query.get("slo_ttft_ms", ""), "TTFT", USUAL_SLO.ttft_ms),
        tpot_ms=_limit(query.get("slo_tpot_ms", ""), "TPOT", USUAL_SLO.tpot_ms),
    )
    figure = charts.serving_figure(result.serving(slo), slo)
    if figure is None:
        return None
    return Serving(result.run.public_id, figure, format_input(slo.ttft_ms, 1), format_input(slo.tpot_ms, 1))


def _limit(text: str, name: str, usual: float) -> float:
    if not text.strip():
        return usual
    try:
        value = read_number(text)
    except ValueError as error:
        raise BadInput(
            _("The limit of {name} must be a number of milliseconds, not {text!r}.", name=name, text=text[:40])
        ) from error
    if not 0 < value <= LARGEST_MS:
        raise BadInput(
            _(
                "The limit of {name} must be above 0 and at most {largest_ms} ms.",
                name=name,
                largest_ms=format_number(LARGEST_MS),
            )
        )
    return value
