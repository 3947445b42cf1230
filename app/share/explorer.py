"""A view of the explorer: the same marks, seen over a notebook in which everything has a neutral name."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlmodel import Session

from app.charts import explore as charts
from app.charts.explore.table import series_words, summary, words
from app.core.configuration import SETTINGS
from app.core.errors import BadInput
from app.core.i18n import _, joined, lower_first, without_code
from app.core.units import plural
from app.db import machines
from app.db.tables import Config, Model
from app.results import explore as explorer
from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.explore.field import Field, GroupContext, Value
from app.results.explore.observations import Known, Place
from app.share import anonymize
from app.share.figures import public
from app.share.options import Option, OptionalField, Withheld
from app.share.snapshot import Cell, Chart, Column, DataTable, Fact, Snapshot, Tile

KIND = "explorer"
_SETTING = "setting."
_ONE_POINT = ("at", "among", "raw")
"""Of a view that looks at the runs of one mark: a share is of the whole."""


def snapshot(session: Session, given: Mapping[str, str], options: frozenset[Option] = frozenset()) -> Snapshot:
    """`given`: the parameters of the explorer's address. Raises BadInput for what makes no sense there, and Withheld
    for a view of which nothing is public unless it is ticked."""
    sheet = _explored(session, given, options).sheet
    figure = charts.figure(sheet, lambda _mark: "")
    if figure is None:
        if withheld := [offer for offer in offers(session, given) if offer.option not in options]:
            raise Withheld(withheld)
        raise BadInput(_("There is nothing in this view that could be shared."))
    against = _("{y} against {x}", y=sheet.y.title, x=lower_first(sheet.x.title))
    days = [day for day in (sheet.view.where.since, sheet.view.where.until) if day]
    period = " to ".join(f"{day:%Y-%m-%d}" for day in days)
    return Snapshot(
        kind=KIND,
        title=f"{against}, by {lower_first(sheet.series.title)}" if sheet.series else str(against),
        description=summary(sheet),
        subtitle=joined(plural(sheet.observations, sheet.noun), period, by=" · "),
        tiles=tuple(_tiles(sheet)),
        facts=tuple(_facts(sheet)),
        figures=(_table(sheet),),
        charts=(Chart(against, public(figure), charts.chart_class(figure)),),
        remarks=(*_meanings(sheet), *map(without_code, charts.notes(sheet))),
    )


def offers(session: Session, given: Mapping[str, str]) -> list[OptionalField]:
    """Only what the view shows."""
    found = _explored(session, given, frozenset())
    used = {field.name for field in (found.sheet.x, found.sheet.y, found.sheet.series) if field}
    known = found.known
    settings = sorted(name.removeprefix(_SETTING) for name in used if name.startswith(_SETTING))
    texts = {
        Option.MACHINE: ", ".join(machine.name for machine in known.machines.values()) if "machine" in used else "",
        Option.LABELS: ", ".join(known.labels) if "labels" in used else "",
        Option.FLAGS: ", ".join(settings),
    }
    return [OptionalField(option, text) for option, text in texts.items() if text]


def _explored(session: Session, given: Mapping[str, str], options: frozenset[Option]) -> explorer.Exploration:
    from app import engines  # loads every engine: not at start

    whole = {name: value for name, value in given.items() if name not in _ONE_POINT}
    found = explorer.explore(session, whole, engines.titles(), _Neutral(session, options))
    if found.problems:
        raise BadInput(found.problems[0])
    own = [field for field in (found.sheet.x, found.sheet.y, found.sheet.series) if field and _is_own(field)]
    if own and Option.FLAGS not in options:
        found = found._replace(sheet=replace(found.sheet, marks=()))
    return found


def _is_own(field: Field) -> bool:
    """A setting that a person made up: even its name is theirs."""
    return field.name.startswith(_SETTING) and field.name.removeprefix(_SETTING) not in SETTINGS


class _Neutral:
    """Gives each place its neutral names; the same thing has the same name everywhere."""

    def __init__(self, session: Session, options: frozenset[Option]) -> None:
        self._session = session
        self._options = options
        self._machines: dict[int, str] = {}
        self._servers: dict[str, str] = {}
        self._configurations: dict[int, str] = {}

    def __call__(self, known: Known, place: Place, spot: GroupContext) -> GroupContext:
        frozen = known.configs[place.config_id]
        has_settings = Option.FLAGS in self._options
        config = Config(
            server_id=0,
            model_id=0,
            engine=spot.config.engine,
            engine_version=anonymize.safe_token(spot.config.engine_version) or None,
            settings=dict(spot.config.settings) if has_settings else anonymize.known_settings(spot.config.settings),
            fingerprint="",
        )
        model = Model(
            name=anonymize.model_name(spot.model.name),
            quantization=anonymize.safe_token(spot.model.quantization),
            geometry=spot.model.geometry,
            geometry_sha256="",
        )
        title = anonymize.model_title(spot.model)
        return GroupContext(
            config=config,
            model=model,
            told=spot.told,
            title=_numbered(self._configurations, place.config_id, title),
            machine=spot.machine if Option.MACHINE in self._options else self._machine(known, place.machine_id),
            server=_numbered(self._servers, frozen.server, "Server", first="Server 1"),
            engine=anonymize.engine_title(spot.config.engine),
            suite=anonymize.suite(place.suite_key),
            point=spot.point,
            labels=spot.labels if Option.LABELS in self._options else (),
            decode_ceiling=spot.decode_ceiling,
        )

    def _machine(self, known: Known, machine_id: int) -> str:
        if machine_id not in self._machines:
            held = machines.devices(self._session, known.machines[machine_id])
            _numbered(self._machines, machine_id, anonymize.hardware(held) or "a machine")
        return self._machines[machine_id]


def _numbered(names: dict[Any, str], key: Hashable, title: str, first: str = "") -> str:
    """The name of a key; a title that another one has already gets a number."""
    if key not in names:
        same = sum(name == (first or title) or name.startswith(f"{title} #") for name in names.values())
        names[key] = f"{title} #{same + 1}" if same else first or title
    return names[key]


# --- in words --------------------------------------------------------------------------------------------------------


def _tiles(sheet: ExploreResult) -> Iterator[Tile]:
    """The ends of what is shown."""
    if sheet.y.kind != "number":
        return
    marks = sorted(sheet.marks, key=_height)
    ends = {_("Lowest"): marks[0], _("Highest"): marks[-1]} if len(marks) > 1 else {"": marks[0]}
    for which, mark in ends.items():
        where = [series_words(sheet, mark.series)] if sheet.series else []
        at = f"{words(mark.x)} {sheet.x.unit}".strip()
        title = joined(which, sheet.y.title, by=" · ")
        source = joined(*where, sheet.x.title, at, plural(mark.observations, sheet.noun), by=" · ")
        yield Tile(title, _height(mark), sheet.y.unit, source=source)


def _height(mark: DataPoint) -> float:
    assert isinstance(mark.y, int | float)
    return mark.y


def _facts(sheet: ExploreResult) -> Iterator[Fact]:
    for title, field in ((_("Shown"), sheet.y), (_("Against"), sheet.x), (_("Series"), sheet.series)):
        if field is not None:
            yield Fact(title, field.label)
    if sheet.view.source:
        yield Fact(_("Source"), sheet.view.source)


def _meanings(sheet: ExploreResult) -> Iterator[str]:
    for field in (sheet.y, sheet.x, sheet.series):
        if field is not None and field.explanation:
            yield joined(field.title, field.explanation, by=" · ")


def _table(sheet: ExploreResult) -> DataTable:
    fields = [*([sheet.series] if sheet.series else []), sheet.x, sheet.y]
    columns = [Column(field.title, field.unit, is_text=field.kind != "number") for field in fields]
    ends = (
        Column(_("Lowest"), sheet.y.unit),
        Column(_("Highest"), sheet.y.unit),
        Column(_(f"{sheet.noun.capitalize()}s")),
    )
    rows = []
    for mark in sheet.marks:
        series = [_cell(mark.series)] if sheet.series else []
        rows.append((*series, _cell(mark.x), _cell(mark.y), mark.low, mark.high, mark.observations))
    return DataTable(_("All marks"), (*columns, *ends), tuple(rows), is_brief=len(rows) <= 40)


def _cell(value: Value | None) -> Cell:
    return words(value) if isinstance(value, datetime) else value
