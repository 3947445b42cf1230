"""The page of a run: one view model for each section, in their order; each is drawn by its own partial.

sections           what the partials read
hardware_sections  of these, what is about hardware and time
metric_values      metrics and samples as text
serving            several streams, under the reader's limits
server_metrics     the server's own metrics beside the client's
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from app.core.errors import BadInput
from app.core.i18n import _
from app.core.samples import Workload
from app.db.tables import ENDED_STATES
from app.results.load_run import RunResult
from app.web import restart_form
from app.web.progress import progress_of
from app.web.run_page import hardware_sections, sections
from app.web.run_page.metric_values import PointResult, point_results
from app.web.run_page.sections import Head, Section
from app.web.run_page.server_metrics import server_metrics_section, serving_section

LLAMA_BENCH_SUITE = "bench512"
"""The suite that measures what llama-bench does."""


@dataclass(frozen=True)
class RunPage:
    head: Head
    sections: Sequence[Section]
    has_contents: bool
    """Whether the page is long enough for a list of its sections."""

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Anchor and title of each section that has one."""
        listed = [section.contents for section in self.sections if section.contents] if self.has_contents else []
        return [(anchor, _(title)) for anchor, title in listed]


def run_page(result: RunResult, point_key: str | None, query: QueryParams) -> RunPage:
    """Builds the page. `point_key` selects the workload whose charts are shown, the main one by default; `query` holds
    the limits of the section of several streams. Raises BadInput for a workload that the run does not have, and for
    invalid limits."""
    progress = None if result.run.status in ENDED_STATES else progress_of(result.session, result.run)
    points = point_results(result.metrics, result.samples)
    is_running = progress is not None
    has_result = bool(points) and not is_running and (result.run.status == "done" or result.has_value)
    question = restart_form.of_run(result.run)
    shown, serving = _chosen(point_key, result), serving_section(result, query)
    return RunPage(
        head=sections.head(result, is_running=is_running, has_result=has_result),
        sections=[
            *([sections.Hidden(result.run)] if result.run.hidden_at else []),
            sections.State(result.run, progress, has_samples=bool(result.samples)),
            *([sections.Wrong(result.wrong, not result.server.archived_at)] if result.wrong else []),
            sections.Warnings(result.verdicts.unsound if has_result else (), result.warnings, result.left_out),
            *([sections.Restart(question)] if question is not None else []),
            *(_result_sections(result, points) if has_result else ()),
            *([serving] if serving and not is_running else []),
            *(_verdict_sections(result) if has_result else ()),
            sections.Configuration(result.run, result.server, result.config, result.model, is_running),
            sections.note(result, is_running=is_running),
            *(_hardware_sections(result, shown) if has_result and shown else ()),
            *(() if is_running else _detail_sections(result, points, shown, has_result=has_result)),
            *([sections.Checks(result.checks)] if result.checks else []),
        ],
        has_contents=has_result,
    )


def _chosen(key: str | None, result: RunResult) -> Workload | None:
    if key is None:
        return result.main_point
    point = next((point for point in result.points if point.key == key), None)
    if point is None:
        raise BadInput(_("This run has no point {point!r}.", point=key))
    return point


def _main(result: RunResult, points: Sequence[PointResult]) -> PointResult:
    return next(point for point in points if point.point == result.main_point)


def _result_sections(result: RunResult, points: Sequence[PointResult]) -> Iterator[Section]:
    main, is_only = _main(result, points), len(points) == 1
    yield sections.Result(main, is_only, result.run.suite_key == LLAMA_BENCH_SUITE)
    if not is_only:
        yield sections.Workloads(points, result.left_out)
    if depth := sections.depth(result):
        yield depth


def _verdict_sections(result: RunResult) -> Iterator[Section]:
    verdicts = result.verdicts
    if verdicts.standing:
        is_own = verdicts.standing.is_baseline
        yield sections.PinnedBaseline(result.run) if is_own else sections.AgainstBaseline(result.run, verdicts.standing)
    if result.config:
        yield sections.Changes(result.previous, verdicts.previous)


def _hardware_sections(result: RunResult, point: Workload) -> Iterator[Section]:
    yield from filter(None, (hardware_sections.limits(result, point), hardware_sections.ceiling(result, point)))


def _detail_sections(
    result: RunResult, points: Sequence[PointResult], shown: Workload | None, *, has_result: bool
) -> Iterator[Section]:
    if tokens := hardware_sections.tokens(result, shown):
        yield tokens
    if has_result and (further := _further(result, points)):
        yield further
    yield from filter(None, (sections.samples(result), sections.flags(result), server_metrics_section(result)))


def _further(result: RunResult, points: Sequence[PointResult]) -> sections.Further | None:
    with_further = [point for point in points if point.further]
    if not with_further:
        return None
    main = _main(result, points)
    is_llama_cpp = result.engine == "llama.cpp" and result.run.suite_key != LLAMA_BENCH_SUITE
    return sections.Further(with_further, main, len(points) == 1, is_llama_cpp and main.point.concurrency == 1)
