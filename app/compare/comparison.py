"""Two to eight runs or configurations side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from sqlmodel import Session

from app.compare.comparable import about, differences, why_not, why_not_at, why_not_of_lengths
from app.compare.result import (
    LETTERS,
    Ceiling,
    Cell,
    Comparison,
    Distribution,
    Pair,
    PointRows,
    Row,
    Subject,
    overall,
    verdicts_at,
)
from app.compare.statistics import ratio
from app.compare.taken import Taken, Values, take
from app.errors import BadInput
from app.i18n import _, enumerated
from app.metrics import TRIPLE, Measured, belongs, clock, is_usable, metrics, preferred, values_of
from app.metrics.base import SOURCES, Source
from app.metrics.summary import percentiles, summarise
from app.metrics.token_counts import token_counts_of
from app.models import StatedGeometry
from app.roof import Placement, resolve_placement, roofs
from app.samples import Point, Sample
from app.store.hardware import Hardware, as_known, gpu_share_of
from app.store.machines import MachineDevice, devices
from app.store.models import all_stated, best
from app.store.subjects import resolve


def compare(
    session: Session,
    names: Sequence[str],
    engine_titles: Mapping[str, str],
    keys: Sequence[str] = TRIPLE,
    beside: Sequence[str] = (),
) -> Comparison:
    """`names` as `store.subjects.resolve` reads them; `keys` are the metrics to compare, `beside` those that stand
    beside them where two have them, and count in no verdict.

    Raises BadInput for too few or too many names, or an unknown metric, and NotFound.
    """
    unknown = next((key for key in keys if key not in metrics()), None)
    if unknown is not None:
        raise BadInput(
            _("There is no metric {unknown!r}: known are {known}.", unknown=unknown, known=", ".join(metrics()))
        )
    taken = take(session, resolve(session, names), (*keys, *beside))
    _refuse_twins(taken)
    sides = [each.circumstances for each in taken]
    differing = differences(sides, engine_titles)
    base, *others = taken
    refusals = ["", *(base.refusal or each.refusal or why_not(sides[0], each.circumstances) for each in others)]
    main = _main(taken, refusals)
    points = tuple(_at(point, taken, refusals, keys, beside) for point in _points(taken))
    pairs = []
    for place in range(1, len(taken)):
        verdict = overall(verdicts_at(points, place))
        refusal = refusals[place] or ("" if verdict else _why_no_verdict(points, place))
        pairs.append(Pair(place, refusal, about(differing, 0, place), verdict))
    return Comparison(
        subjects=tuple(_subject(letter, each) for letter, each in zip(LETTERS, taken, strict=False)),
        differences=differing,
        pairs=tuple(pairs),
        points=points,
        main=main,
        distributions=tuple(_distribution(each, main) for each in taken),
        ceilings=_ceilings(session, taken, main),
    )


def _refuse_twins(taken: Sequence[Taken]) -> None:
    """Two runs may name one configuration."""
    seen: dict[tuple[str, ...], str] = {}
    for each in taken:
        first = seen.setdefault(each.runs, each.reference.key)
        if first != each.reference.key:
            raise BadInput(
                _(
                    "{first} and {key} are the same: a comparison needs different ones.",
                    first=first,
                    key=each.reference.key,
                )
            )


def _subject(letter: str, taken: Taken) -> Subject:
    run, machine, server, config, model = taken.circumstances
    return Subject(
        letter=letter,
        key=taken.reference.key,
        public_id=run.public_id,
        title=model.title if model else _("Run {public_id}", public_id=run.public_id),
        unit=taken.unit,
        basis=taken.basis,
        runs=taken.runs,
        machine=machine.name,
        server=server.name,
        engine=config.engine if config else None,
        engine_version=config.engine_version if config else None,
        model=model.name if model else None,
        quantization=(model.quantization or None) if model else None,
        settings=dict(config.settings) if config else {},
        labels=tuple(config.labels) if config else (),
        fingerprint=config.fingerprint if config else None,
        suite_key=run.suite_key,
        started_at=run.started_at.isoformat() if run.started_at else None,
        refusal=taken.refusal,
    )


# --- points and metrics ----------------------------------------------------------------------------------------------


def _points(taken: Sequence[Taken]) -> list[Point]:
    """Of the first subject in its order, then what only others have."""
    return list(dict.fromkeys(point for each in taken for point in each.points))


def _main(taken: Sequence[Taken], refusals: Sequence[str]) -> Point | None:
    able = [each for each, refusal in zip(taken, refusals, strict=True) if not refusal]
    points = _points(taken)
    common = [point for point in points if all(point in each.points for each in able)]
    usual = taken[0].circumstances.run.main_point_key
    return next((point for point in common if point.key == usual), next(iter([*common, *points]), None))


def _why_no_verdict(points: Sequence[PointRows], place: int) -> str:
    cells = [row.cells[place] for each in points for row in each.rows]
    said = dict.fromkeys(cell.refusal or (cell.ratio.remark if cell.ratio else "") for cell in cells)
    return " ".join(filter(None, said)) or _("They have nothing in common that could be compared.")


def _at(
    point: Point, taken: Sequence[Taken], refusals: Sequence[str], keys: Sequence[str], beside: Sequence[str]
) -> PointRows:
    lengths = [each.output_tokens(point) for each in taken]
    why = [
        refusal
        or why_not_at(point, taken[0].points)
        or why_not_at(point, each.points)
        or why_not_of_lengths(lengths[0], length)
        for each, refusal, length in zip(taken, refusals, lengths, strict=True)
    ]
    rows, others = ([_row(point, key, taken, why) for key in group] for group in (keys, beside))
    both = [row for row in others if sum(cell.value is not None for cell in row.cells) > 1]
    return PointRows(point, tuple(rows), tuple(both))


def _row(point: Point, key: str, taken: Sequence[Taken], why: Sequence[str]) -> Row:
    """`why`: for each subject, why there is no verdict; empty where there may be one."""
    metric = metrics()[key]
    here = [each.values.get((point, key), Values({})) for each in taken]
    source = _source(key, here, why)
    cells = [
        _cell(values, source, each.refusal or why_not_at(point, each.points))
        for each, values in zip(taken, here, strict=True)
    ]
    if source is not None:
        base = here[0].by_source.get(source, ())
        for place in range(1, len(cells)):
            other = here[place].by_source.get(source, ())
            refusal = why[place] or (not (base and other) and _why_no_value(cells[0], cells[place]))
            if refusal:
                cells[place] = replace(cells[place], refusal=refusal)
            else:
                cells[place] = replace(cells[place], ratio=ratio(base, other, metric.better, taken[0].unit))
    return Row(key, metric.title, metric.unit, metric.better, source, tuple(cells))


def _why_no_value(base: Cell, other: Cell) -> str:
    return other.reason or _("The first one has no value: {reason}", reason=base.reason)


def _source(key: str, here: Sequence[Values], why: Sequence[str]) -> Source | None:
    """The preferred one that all who may be compared have; else one that the first has; else any."""
    able = [values for values, refusal in zip(here, why, strict=True) if not refusal and values.by_source]
    for group in (able, here[:1], [each for each in here if each.by_source]):
        for source in preferred(key):
            if group and all(each.by_source.get(source) for each in group):
                return source
    return next((source for each in here for source in each.by_source), None)


def _cell(values: Values, source: Source | None, absence: str) -> Cell:
    found = values.by_source.get(source, ()) if source else ()
    if not found:
        elsewhere = enumerated(_(SOURCES[each]) for each in values.by_source) if values.by_source else ""
        said = (
            _(
                "Its only source is “{elsewhere}”, the others have “{source}”.",
                elsewhere=elsewhere,
                source=_(SOURCES[source]),
            )
            if elsewhere and source
            else values.reason
        )
        return Cell(None, left_out=values.left_out, reason=absence or said or _("There is no value."))
    summary = summarise(found)
    return Cell(
        value=summary.median,
        low=summary.low,
        high=summary.high,
        standard_deviation=summary.standard_deviation,
        count=summary.count,
        left_out=values.left_out,
    )


# --- around the triple -----------------------------------------------------------------------------------------------


def _distribution(taken: Taken, point: Point | None) -> Distribution:
    samples = [sample for sample in taken.at(point) if is_usable(sample) and not sample.reuses_cache] if point else []
    streamed = [sample for sample in samples if not clock.arrives_in_bursts(sample.trace)]
    gaps = [gap for sample in streamed for gap in clock.gaps_ms(sample.trace)]
    if not gaps:
        said = _("Its tokens arrived in bursts.") if samples else _("It has no usable sample at this point.")
        return Distribution((), 0, False, taken.refusal or said)
    quantiles = tuple(round(value, 4) for value in (min(gaps), *percentiles(gaps), max(gaps)))
    return Distribution(quantiles, len(gaps), any("bundled" in sample.flags for sample in streamed))


def _ceilings(session: Session, taken: Sequence[Taken], point: Point | None) -> tuple[Ceiling, ...]:
    held: dict[int, Sequence[MachineDevice]] = {}
    stated = all_stated(session)
    for each in taken:
        machine = each.circumstances.machine
        assert machine.id is not None
        if machine.id not in held:
            held[machine.id] = devices(session, machine)
    known = [as_known(each.circumstances.run.hardware, held[each.circumstances.run.machine_id]) for each in taken]
    return tuple(_ceiling(hardware, stated, each, point) for hardware, each in zip(known, taken, strict=True))


def _ceiling(
    hardware: Hardware, stated: Mapping[tuple[str, str], StatedGeometry], taken: Taken, point: Point | None
) -> Ceiling:
    config, model = taken.circumstances.config, taken.circumstances.model
    at_point = (taken.at(point) if point else []) or taken.at(taken.main_point)
    if config is None or model is None or not at_point:
        return Ceiling(None, "", None, None, "", None, taken.refusal or _("It did not measure this point."))
    told = best(model, stated.get((model.name, model.quantization)))
    gpu_share = gpu_share_of(taken.circumstances.run.evidence)
    found = resolve_placement(hardware.devices, config, told, hardware.said, gpu_share)
    if not isinstance(found, Placement):
        return Ceiling(None, "", None, None, "", None, f"{found.reason} {found.remedy}")
    counts = {at_point[0].point: token_counts_of(at_point)}
    (roof,) = roofs(found, [_shown(at_point, key) for key in TRIPLE], counts=counts)
    return Ceiling(
        decode_tokens_per_s=roof.decode.tokens_per_s,
        decode_words=roof.decode.words,
        mbu=roof.mbu,
        prefill_tokens_per_s=roof.prefill.tokens_per_s if roof.prefill else None,
        prefill_words=roof.prefill.words if roof.prefill else roof.why_no_prefill,
        mfu=roof.mfu,
    )


def _shown(samples: Sequence[Sample], key: str) -> Measured:
    """Of the samples of one point, without warm-ups: only what a ceiling is set beside."""
    metric = metrics()[key]
    by_source = values_of(metric, [sample for sample in samples if belongs(sample, metric)]).by_source
    sources = [source for source in preferred(key) if by_source.get(source)]
    value = median(by_source[sources[0]]) if sources else None
    return Measured(samples[0].point, key, (*sources, "client")[0], metric.unit, value, is_shown=True)
