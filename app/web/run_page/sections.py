"""The view models of a run's page: one dataclass for each partial, which names its template."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from app import charts
from app.core.i18n import N_, _
from app.db.annotations import REASONS
from app.db.runs import MAX_QUEUED_AT_ONCE
from app.db.tables import Config, Machine, Model, Run, Server
from app.metrics import FLAGS
from app.metrics.token_times import token_counts_of
from app.results.ceiling import context_of
from app.results.compare import Standing
from app.results.compare.scatter import MainVerdict
from app.results.load_run import LeftOut, RunResult
from app.results.previous import Previous
from app.results.wrong_runs import WrongRun
from app.web.progress import Progress
from app.web.rerun import rerun_fields
from app.web.restart_form import RestartQuestion
from app.web.run_page.metric_values import PointResult, SampleLine, sample_lines


class Section:
    template: ClassVar[str]
    """The template, which reads its section as `view`."""
    contents: ClassVar[tuple[str, str] | None] = None
    """The anchor and the title in the list of sections; None for a section that is too short to be listed."""


@dataclass(frozen=True)
class Head:
    """Name and circumstances of the run, and what can be done with it."""

    run: Run
    machine: Machine
    server: Server
    model: Model | None
    is_running: bool
    is_frozen: bool
    """Whether its configuration is known."""
    can_share: bool
    can_be_pinned: bool
    is_baseline: bool
    previous_id: str | None
    """The run that one click compares it with."""
    again: Mapping[str, str] | None
    """The fields of the form that measures the same again; None while that is impossible."""
    most_runs: int = MAX_QUEUED_AT_ONCE

    @property
    def name(self) -> str:
        return self.model.name if self.model else self.server.name


def head(result: RunResult, *, is_running: bool, has_result: bool) -> Head:
    run, server, standing, previous = result.run, result.server, result.verdicts.standing, result.previous
    can_run_again = not is_running and not server.archived_at
    return Head(
        run=run,
        machine=result.machine,
        server=server,
        model=result.model,
        is_running=is_running,
        is_frozen=result.config is not None,
        can_share=has_result,
        can_be_pinned=run.status == "done" and result.config is not None,
        is_baseline=standing is not None and standing.is_baseline,
        previous_id=previous.public_id if previous else None,
        again=rerun_fields(run, server, result.config) if can_run_again else None,
    )


@dataclass(frozen=True)
class Hidden(Section):
    template = "_run_hidden.html"

    run: Run


@dataclass(frozen=True)
class State(Section):
    """The progress of the run, or how it ended when it did not end well."""

    template = "_run_state.html"

    run: Run
    progress: Progress | None
    """None for a run that has ended."""
    has_samples: bool


@dataclass(frozen=True)
class Wrong(Section):
    """How the run stands off from the other runs of its configuration."""

    template = "_run_wrong.html"

    wrong: WrongRun
    can_run: bool


@dataclass(frozen=True)
class Warnings(Section):
    template = "_run_warnings.html"

    unsound: Sequence[str]
    """What disturbed the run."""
    warnings: Sequence[str]
    left_out: Sequence[LeftOut]


@dataclass(frozen=True)
class Restart(Section):
    """The question what was changed when the server was restarted before this run."""

    template = "_run_restart.html"

    question: RestartQuestion


# --- numbers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result(Section):
    """The headline metrics at the main workload."""

    template = "_run_result.html"
    contents = ("result-title", N_("Result"))

    main: PointResult
    is_only: bool
    is_like_llama_bench: bool


@dataclass(frozen=True)
class Workloads(Section):
    """The headline metrics at each of several workloads."""

    template = "_run_points.html"
    contents = ("points-title", N_("Workloads"))

    points: Sequence[PointResult]
    left_out: Sequence[LeftOut]


@dataclass(frozen=True)
class Depth(Section):
    """Decode against context, of a run without a ceiling."""

    template = "_run_depth.html"

    figure: charts.Figure


def depth(result: RunResult) -> Depth | None:
    if result.known_ceiling is not None:
        return None
    speeds = {
        point: metric.value
        for point in result.points
        if point.concurrency == 1
        and (metric := result.shown_metric(point, "decode_tokens_per_s")) is not None
        and metric.is_shown
        and metric.value is not None
    }
    figure = charts.without_ceiling(
        [
            charts.MeasuredSpeed(context_of(point, token_counts_of(result.samples_at(point))), speed)
            for point, speed in speeds.items()
        ]
    )
    return Depth(figure) if figure else None


@dataclass(frozen=True)
class Further(Section):
    """All other metrics."""

    template = "_run_further.html"
    contents = ("further-title", N_("Further metrics"))

    points: Sequence[PointResult]
    """The workloads that have any."""
    main: PointResult
    is_only: bool
    """Whether the run has only one workload."""
    has_llama_bench: bool
    """Whether to say how llama-bench measures the same."""


@dataclass(frozen=True)
class Samples(Section):
    template = "_run_samples.html"
    contents = ("samples-title", N_("Samples"))

    lines: Sequence[SampleLine]
    has_points: bool

    @property
    def has_flags(self) -> bool:
        """Whether any has a flag or an error."""
        return any(line.sample.flags or line.sample.trace.error for line in self.lines)


def samples(result: RunResult) -> Samples | None:
    return Samples(sample_lines(result.samples), len(result.points) > 1) if result.samples else None


class FlagLine(NamedTuple):
    key: str
    sentence: str
    advice: str
    samples: int
    """The number of samples."""


@dataclass(frozen=True)
class Flags(Section):
    template = "_run_flags.html"

    lines: Sequence[FlagLine]
    sample_count: int


def flags(result: RunResult) -> Flags | None:
    counts = Counter(flag for sample in result.samples for flag in sample.flags)
    lines = [FlagLine(key, _(flag.sentence), _(flag.advice), counts[key]) for key, flag in FLAGS.items() if counts[key]]
    return Flags(lines, len(result.samples)) if lines else None


@dataclass(frozen=True)
class Checks(Section):
    """What was checked before and after measuring."""

    template = "_run_evidence.html"

    sentences: Sequence[str]


# --- beside other runs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PinnedBaseline(Section):
    """The note that the run is a baseline itself."""

    template = "_run_pinned.html"

    run: Run


@dataclass(frozen=True)
class AgainstBaseline(Section):
    template = "_run_baseline.html"
    contents = ("baseline-title", N_("Baseline"))

    run: Run
    standing: Standing


@dataclass(frozen=True)
class Changes(Section):
    """What changed since the nearest earlier configuration."""

    template = "_run_changes.html"

    previous: Previous | None
    verdict: MainVerdict | None


# --- what was measured -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Configuration(Section):
    template = "_run_config.html"
    contents = ("config-title", N_("Configuration"))

    run: Run
    server: Server
    config: Config | None
    model: Model | None
    is_running: bool


@dataclass(frozen=True)
class Note(Section):
    """What a person says about the run: note, labels, and whether it counts."""

    template = "_run_note.html"
    contents = ("note", N_("Note and labels"))

    run: Run
    is_running: bool
    reasons: Sequence[str]
    """Suggested reasons to hide it."""


def note(result: RunResult, *, is_running: bool) -> Note:
    suggested = [result.wrong.sentence] if result.wrong else []
    return Note(result.run, is_running, [*suggested, *(_(reason) for reason in REASONS)])
