"""A comparison without private names: its figures stay, and every word of it is a neutral one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmodel import Session

from app import engines
from app.core.configuration import distinguishing_weights, model_names
from app.core.errors import BadInput
from app.core.i18n import N_, _, enumerated, joined, lower_first
from app.db.configs import snapshot_of
from app.db.runs import runs_by_id
from app.db.samples import samples_by_run
from app.db.tables import Config, Machine, Model, Run
from app.metrics import NULL_REASONS
from app.results import hardware
from app.results.compare import Comparison, compare
from app.results.compare.differences import unknown_settings
from app.results.compare.names import Fact as NamedFact
from app.results.compare.names import name_by_difference
from app.results.compare.result import Ceiling, Cell, Distribution, MetricRow, PointRows, Subject
from app.results.compare.words import incomparable_words
from app.share import anonymize, circumstances
from app.share.options import Option
from app.suites import Case

NO_VERDICT = N_("no verdict")


@dataclass(frozen=True)
class Side:
    """One subject with all of its public facts."""

    letter: str
    run: Run
    machine: Machine
    config: Config
    model: Model
    facts: Mapping[str, str]
    words: Mapping[Option, str]

    @property
    def title(self) -> str:
        return anonymize.model_title(self.model)


@dataclass(frozen=True)
class Compared:
    comparison: Comparison
    """The comparison with neutral titles and without any word that is not the code's own."""
    sides: Sequence[Side]
    warnings: Sequence[str]
    """What forbids to compare them, what disturbed a run, and what the flags of its samples mean."""
    prompts: Sequence[Case]
    """The prompts of the first subject's suite."""


def neutral_comparison(session: Session, names: Sequence[str]) -> Compared:
    compared = compare(session, names, engines.titles())
    by_id = runs_by_id(session, {subject.public_id for subject in compared.subjects})
    sides = []
    for subject in compared.subjects:
        run = by_id[subject.public_id]
        machine, config, model = run.machine, run.config, run.model
        if config is None or model is None:
            raise BadInput(_("A run that ended before its configuration was known cannot be shared."))
        facts = {
            fact.title: fact.value
            for fact in circumstances.facts(config, model, hardware.hardware_of(session, run).devices)
        }
        facts[_("Suite")] = anonymize.suite(run.suite_key)
        words = circumstances.optional_texts(run, machine, config, ())
        sides.append(Side(subject.letter, run, machine, config, model, facts, words))
    if _are_namesakes(sides):
        sides = [replace(side, facts={**side.facts, "Model": f"{side.facts['Model']} {side.letter}"}) for side in sides]
    naming = name_by_difference(
        [list(_facts_for_names(side)) for side in sides], [_last_resort(side) for side in sides]
    )
    return Compared(
        comparison=Comparison(
            subjects=tuple(
                _subject(subject, side.title, name)
                for subject, side, name in zip(compared.subjects, sides, naming.names, strict=True)
            ),
            shared=naming.shared,
            shared_settings=naming.shared_settings,
            differences=(),
            pairs=tuple(
                replace(
                    pair,
                    reason_not_comparable=_(NO_VERDICT) if pair.reason_not_comparable else "",
                    differing_settings=(),
                    unknown_settings=unknown_settings(sides[0].run, sides[pair.place].run, has_values=False),
                )
                for pair in compared.pairs
            ),
            points=tuple(map(_point, compared.points)),
            main=compared.main,
            distributions=tuple(
                Distribution(distribution.quantiles_ms, distribution.gaps, distribution.is_chunks)
                for distribution in compared.distributions
            ),
            ceilings=tuple(
                Ceiling(ceiling.decode_tokens_per_s, "", ceiling.mbu, ceiling.prefill_tokens_per_s, "", ceiling.mfu)
                for ceiling in compared.ceilings
            ),
            same_within=compared.same_within,
        ),
        sides=sides,
        warnings=tuple(_warnings(session, compared, sides, naming.names)),
        prompts=circumstances.suite_cases(session, sides[0].run),
    )


_GROUPS = {"Model": "model", "Quantization": "model", "Hardware": "hardware"}
"""The facts that a name states alone, by their titles."""


def _facts_for_names(side: Side) -> Iterator[NamedFact]:
    for title, text in side.facts.items():
        if title == "Engine":
            yield NamedFact("engine", title, anonymize.engine_title(side.config.engine), "engine")
            version = anonymize.safe_token(side.config.engine_version)
            yield NamedFact("version", title, "" if "unknown" in version else version, "engine")
            continue
        group = _GROUPS.get(title, "")
        words = text if group else joined(lower_first(title), text)
        yield NamedFact(title, title, words, group, is_setting=not group and title != _("Suite"))


def _last_resort(side: Side) -> tuple[str, str]:
    """Returns what tells results apart whose facts are all the same: the day, else the letter."""
    return f"{side.run.started_at:%Y-%m-%d}" if side.run.started_at else side.letter, side.letter


def _warnings(session: Session, compared: Comparison, sides: Sequence[Side], names: Sequence[str]) -> Iterator[str]:
    yield from incomparable_words(compared, is_named=False)
    run_ids = {side.run.id for side in sides if side.run.id is not None}
    samples = samples_by_run(session, run_ids)
    by_sentence: dict[str, list[str]] = {}
    for side, name, subject in zip(sides, names, compared.subjects, strict=True):
        if subject.unsound:
            yield _("No verdict can rest on {name}: {reasons}.", name=name, reasons=enumerated(subject.unsound))
        for sentence in circumstances.flag_words(samples.get(side.run.id or 0, ())):
            by_sentence.setdefault(sentence, []).append(name)
    for sentence, named in by_sentence.items():
        yield joined(enumerated(named), sentence, by=": ")


def _are_namesakes(sides: Sequence[Side]) -> bool:
    """Whether one name stands for different models, whose whole ids stay private."""
    snapshots = [snapshot_of(side.config, side.model) for side in sides]
    if len({side.title for side in sides}) > 1:
        return False
    return len(set(model_names(snapshots))) > 1 or bool(distinguishing_weights(snapshots, is_one_server=False))


def differing(sides: Sequence[Side]) -> list[str]:
    """Returns the titles of the facts that are not the same everywhere."""
    return [title for title in fact_titles(sides) if len({side.facts.get(title) for side in sides}) > 1]


def fact_titles(sides: Sequence[Side]) -> list[str]:
    return list(dict.fromkeys(title for side in sides for title in side.facts))


def _subject(subject: Subject, title: str, name: str) -> Subject:
    """Returns the subject with the fields that tables and figures read; all other fields are empty."""
    return Subject(
        letter=subject.letter,
        key="",
        public_id="",
        title=title,
        name=name,
        unit=subject.unit,
        data_source="",
        runs=(),
        machine="",
        server="",
        engine=None,
        engine_version=None,
        model=None,
        quantization=None,
        settings={},
        labels=(),
        fingerprint=None,
        suite_key="",
        started_at=None,
        reason_not_comparable="",
        unsound=subject.unsound,
    )


def _point(point: PointRows) -> PointRows:
    return PointRows(point.point, _rows(point.rows), _rows(point.extra_rows))


def _rows(rows: Sequence[MetricRow]) -> tuple[MetricRow, ...]:
    return tuple(replace(row, cells=tuple(map(_cell, row.cells))) for row in rows)


def _cell(cell: Cell) -> Cell:
    """Returns a cell with fixed reasons only: others may name runs and suites."""
    return replace(
        cell,
        reason=cell.reason if cell.reason in NULL_REASONS.values() else "",
        reason_not_comparable=_(NO_VERDICT) if cell.reason_not_comparable else "",
    )
