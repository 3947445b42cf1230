"""Two to eight runs or configurations side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlmodel import Session

from app.core.errors import BadInput
from app.core.i18n import _, enumerated, joined
from app.core.samples import Workload
from app.db.configs import snapshot_of
from app.metrics import (
    HEADLINE_METRICS,
    further_metrics,
    metrics,
    preferred,
)
from app.metrics.base import SOURCES, Source
from app.metrics.summary import summarise
from app.results.compare.differences import differences, differing_settings, unknown_settings
from app.results.compare.eligibility import refusal_reason_lengths, refusal_reason_pair, refusal_reason_point
from app.results.compare.gaps_and_ceilings import gap_distribution, subject_ceilings
from app.results.compare.names import model_names_of, name_subjects
from app.results.compare.observations import NO_FIGURES, Figures, SubjectData, load_subjects, resolve
from app.results.compare.result import (
    LETTERS,
    Cell,
    Comparison,
    MetricRow,
    Pair,
    PointRows,
    Subject,
)
from app.results.compare.scatter import MainVerdict, Scatters, conclude, same_within
from app.results.compare.soundness import distinct_reasons
from app.results.compare.words import verdict_words
from app.stats.verdict import Ratio, Result, Verdict


def compare(
    session: Session,
    names: Sequence[str],
    engine_titles: Mapping[str, str],
    keys: Sequence[str] = (),
    limit: float | None = None,
) -> Comparison:
    """Compares the subjects that `names` name, in the form that `compare_refs.resolve` reads. `keys` are the metrics to
    compare. Without any, verdicts use the headline metrics, and all others are in extra rows where at least two
    subjects have them. An interval within `limit` of 1 counts as the same; the default is the setting.

    Raises BadInput for too few or too many names or an unknown metric, and NotFound.
    """
    unknown = next((key for key in keys if key not in metrics()), None)
    if unknown is not None:
        raise BadInput(
            _("There is no metric {metric!r}; choose from {metrics}.", metric=unknown, metrics=", ".join(metrics()))
        )
    keys, extra_keys = (keys, []) if keys else (HEADLINE_METRICS, further_metrics())
    subjects = load_subjects(session, resolve(session, names), (*keys, *extra_keys))
    _refuse_twins(subjects)
    sides = [subject.run for subject in subjects]
    differing = differences(sides, engine_titles)
    reasons = _reasons_not_comparable(subjects)
    main = _main(subjects, reasons)
    limit = same_within(session) if limit is None else limit
    tables = _Tables(session, subjects, reasons, main, limit)
    points = tuple(tables.at(point, keys, extra_keys) for point in _points(subjects))
    main_table = next((table for table in points if table.point == main), None)
    models = model_names_of(subjects)
    naming = name_subjects(subjects, models, engine_titles)
    return Comparison(
        subjects=tuple(
            _subject(letter, subject, _title(subject, model), name)
            for letter, subject, model, name in zip(LETTERS, subjects, models, naming.names, strict=False)
        ),
        shared=naming.shared,
        shared_settings=naming.shared_settings,
        differences=differing,
        pairs=tuple(
            Pair(
                place,
                reasons[place] or ("" if tables.verdict(place) else _why_no_verdict(main_table, place)),
                differing_settings(differing, 0, place),
                unknown_settings(sides[0], sides[place]),
                tables.verdict(place),
                verdict_words(tables.main_ratios(place)),
                tables.unsound(place),
            )
            for place in range(1, len(subjects))
        ),
        points=points,
        main=main,
        distributions=tuple(gap_distribution(subject, main) for subject in subjects),
        ceilings=subject_ceilings(session, subjects, main),
        same_within=limit,
    )


def _refuse_twins(subjects: Sequence[SubjectData]) -> None:
    """Raises BadInput when two of the runs name one configuration."""
    first_by_runs: dict[tuple[str, ...], str] = {}
    for subject in subjects:
        first = first_by_runs.setdefault(subject.runs, subject.reference.key)
        if first != subject.reference.key:
            raise BadInput(
                _(
                    "{first} and {key} are the same: a comparison needs different ones.",
                    first=first,
                    key=subject.reference.key,
                )
            )


def _reasons_not_comparable(subjects: Sequence[SubjectData]) -> list[str]:
    base, *candidates = subjects
    return [
        "",
        *(
            base.reason_not_comparable
            or candidate.reason_not_comparable
            or refusal_reason_pair(base.run, candidate.run)
            for candidate in candidates
        ),
    ]


def _title(subject: SubjectData, model_name: str) -> str:
    """Returns model and quantization of a subject."""
    config, model = subject.run.config, subject.run.model
    if config is None or model is None:
        return _("Run {public_id}", public_id=subject.run.public_id)
    return replace(snapshot_of(config, model), model=model_name).model_title


def _subject(letter: str, subject: SubjectData, title: str, name: str) -> Subject:
    run, config, model = subject.run, subject.run.config, subject.run.model
    return Subject(
        letter=letter,
        key=subject.reference.key,
        public_id=run.public_id,
        title=title,
        name=name,
        unit=subject.unit,
        data_source=subject.data_source,
        runs=subject.runs,
        machine=run.machine.name,
        server=run.server.name,
        engine=config.engine if config else None,
        engine_version=config.engine_version if config else None,
        model=model.name if model else None,
        quantization=(model.quantization or None) if model else None,
        settings=dict(config.settings) if config else {},
        labels=tuple(config.labels) if config else (),
        fingerprint=config.fingerprint if config else None,
        suite_key=run.suite_key,
        started_at=run.started_at.isoformat() if run.started_at else None,
        reason_not_comparable=subject.reason_not_comparable,
        unsound=subject.unsound,
    )


# --- points and metrics ----------------------------------------------------------------------------------------------


def _points(subjects: Sequence[SubjectData]) -> list[Workload]:
    """Returns the points of the first subject in its order, then those that only others have."""
    return list(dict.fromkeys(point for subject in subjects for point in subject.points))


def _main(subjects: Sequence[SubjectData], reasons: Sequence[str]) -> Workload | None:
    comparable = [subject for subject, reason in zip(subjects, reasons, strict=True) if not reason]
    points = _points(subjects)
    common = [point for point in points if all(point in subject.points for subject in comparable)]
    usual = subjects[0].run.main_point_key
    return next((point for point in common if point.key == usual), next(iter([*common, *points]), None))


def _why_no_verdict(main: PointRows | None, place: int) -> str:
    reasons = dict.fromkeys(row.cells[place].reason_not_comparable for row in main.rows) if main else {}
    return joined(*reasons) or _("They have nothing in common that could be compared.")


class _Tables:
    """The values of all points with their ratios to the first subject; those of the main point are judged together."""

    def __init__(
        self,
        session: Session,
        subjects: Sequence[SubjectData],
        reasons: Sequence[str],
        main: Workload | None,
        limit: float,
    ) -> None:
        self._subjects, self._reasons, self._main, self._limit = subjects, reasons, main, limit
        subjects_with = Counter(key for subject in subjects for key in subject.metrics_with_value)
        keys = [key for key in metrics() if subjects_with[key] > 1]  # the others have no ratio
        points = {point.key for subject in subjects for point in subject.points}
        self._scatters = Scatters(session, {subject.scope for subject in subjects}, tuple(keys), points)
        self._verdicts: dict[int, MainVerdict] = {}

    def verdict(self, place: int) -> Verdict | None:
        """Returns the verdict on a subject against the first; None before its main point was read, and when nothing is
        comparable."""
        return self._verdicts[place].verdict if place in self._verdicts else None

    def main_ratios(self, place: int) -> Mapping[str, Ratio]:
        """Returns the ratios by metric that the verdict rests on."""
        return self._verdicts[place].ratios if place in self._verdicts else {}

    def unsound(self, place: int) -> tuple[str, ...]:
        return distinct_reasons([*self._subjects[0].unsound, *self._subjects[place].unsound])

    def at(self, point: Workload, keys: Sequence[str], extra_keys: Sequence[str]) -> PointRows:
        why = self._why_not(point)
        rows, extra_rows = ([self._row(point, key, why) for key in group] for group in (keys, extra_keys))
        extra = self._judged(extra_rows, together=False)
        return PointRows(
            point,
            self._judged(rows, together=point == self._main),
            tuple(row for row in extra if sum(cell.value is not None for cell in row.cells) > 1),
        )

    def _judged(self, rows: Sequence["_Results"], *, together: bool) -> tuple[MetricRow, ...]:
        judged = [results.row for results in rows]
        for place in range(1, len(self._subjects)):
            pairs = {results.row.metric: results.pairs[place] for results in rows if place in results.pairs}
            groups = [pairs] if together else [{key: pair} for key, pair in pairs.items()]
            verdicts = [conclude(group, self.unsound(place), self._limit) for group in groups]
            ratios = {key: ratio for verdict in verdicts for key, ratio in verdict.ratios.items()}
            judged = [_with_ratio(row, place, ratios.get(row.metric)) for row in judged]
            if together:
                self._verdicts[place] = verdicts[0]
        return tuple(judged)

    def _why_not(self, point: Workload) -> list[str]:
        """Returns for each subject why it has no ratio here; empty when it may have one."""
        base_length = self._subjects[0].answer_lengths.get(point.key)
        return [
            reason
            or refusal_reason_point(point, self._subjects[0].points)
            or refusal_reason_point(point, subject.points)
            or refusal_reason_lengths(base_length, subject.answer_lengths.get(point.key))
            for subject, reason in zip(self._subjects, self._reasons, strict=True)
        ]

    def _row(self, point: Workload, key: str, why: Sequence[str]) -> "_Results":
        metric = metrics()[key]
        figures = [subject.figures.get((point, key), NO_FIGURES) for subject in self._subjects]
        source = _source(key, figures, why)
        cells = [
            _cell(
                subject,
                of_subject,
                source,
                subject.reason_not_comparable or refusal_reason_point(point, subject.points),
            )
            for subject, of_subject in zip(self._subjects, figures, strict=True)
        ]
        pairs: dict[int, tuple[Result, Result]] = {}
        for place in range(1, len(cells)) if source is not None else ():
            assert source is not None
            reason = why[place] or _why_no_ratio(cells[0], cells[place])
            if reason:
                cells[place] = replace(cells[place], reason_not_comparable=reason)
                continue
            pairs[place] = base, candidate = self._results(point, key, source, figures, place)
            cells[0] = replace(cells[0], scatter=base.scatter)
            cells[place] = replace(cells[place], scatter=candidate.scatter)
        return _Results(MetricRow(key, metric.title, metric.unit, metric.better, source, tuple(cells)), pairs)

    def _results(
        self, point: Workload, key: str, source: Source, figures: Sequence[Figures], place: int
    ) -> tuple[Result, Result]:
        sides = [
            {figure.run_id: figure.median for figure in of_subject.by_source[source]}
            for of_subject in (figures[0], figures[place])
        ]
        base, candidate = (
            Result(list(runs.values()), self._scatters.of(subject.scope, point, key, source, sides))
            for subject, runs in zip((self._subjects[0], self._subjects[place]), sides, strict=True)
        )
        return base, candidate


class _Results(NamedTuple):
    row: MetricRow
    """The row, still without ratios."""
    pairs: Mapping[int, tuple[Result, Result]]
    """The results of the first subject and of another one, by the other's index, where they may be compared."""


def _with_ratio(row: MetricRow, place: int, ratio: Ratio | None) -> MetricRow:
    if ratio is None:
        return row
    cells = [*row.cells]
    cells[place] = replace(cells[place], ratio=ratio)
    return replace(row, cells=tuple(cells))


def _why_no_ratio(base: Cell, candidate: Cell) -> str:
    if candidate.value is None:
        return candidate.reason
    if base.value is None:
        return _("The first one has no value: {reason}", reason=base.reason)
    if min(base.value, candidate.value) <= 0:
        return _("A ratio needs positive values, and {value:g} is not.", value=min(base.value, candidate.value))
    return ""


def _source(key: str, figures: Sequence[Figures], why: Sequence[str]) -> Source | None:
    """Returns the source to compare: the preferred one that all comparable subjects have; else one that the first has;
    else any."""
    comparable = [of_subject for of_subject, reason in zip(figures, why, strict=True) if not reason]
    with_values = [of_subject for of_subject in figures if of_subject.by_source]
    for group in ([of_comparable for of_comparable in comparable if of_comparable.by_source], figures[:1], with_values):
        for source in preferred(key):
            if group and all(of_subject.by_source.get(source) for of_subject in group):
                return source
    return next((source for of_subject in figures for source in of_subject.by_source), None)


def _cell(subject: SubjectData, figures: Figures, source: Source | None, absence: str) -> Cell:
    runs = figures.by_source.get(source, ()) if source else ()
    if not runs:
        return Cell(None, left_out=figures.left_out, reason=absence or _why_no_value(figures, source))
    if len(subject.runs) == 1:
        measured = runs[0].measured
        return Cell(
            value=measured.value,
            low=measured.low,
            high=measured.high,
            standard_deviation=measured.standard_deviation,
            count=runs[0].repetitions,
            left_out=figures.left_out,
        )
    summary = summarise([run.measured.value for run in runs if run.measured.value is not None])
    return Cell(
        value=summary.median,
        low=summary.low,
        high=summary.high,
        standard_deviation=summary.standard_deviation,
        count=summary.count,
        left_out=figures.left_out,
    )


def _why_no_value(figures: Figures, source: Source | None) -> str:
    if figures.by_source and source:
        return _(
            "Its only source is “{only_source}”, the others have “{source}”.",
            only_source=enumerated(_(SOURCES[own]) for own in figures.by_source),
            source=_(SOURCES[source]),
        )
    return _(figures.reason) if figures.reason else _("There is no value.")
