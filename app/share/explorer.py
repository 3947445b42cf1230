"""The share of an explorer view: the same data points, with neutral names for everything."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlmodel import Session

from app import engines
from app.charts import explore as charts
from app.charts.explore import summary
from app.core.errors import BadInput
from app.core.i18n import _, joined, lower_first, without_code
from app.core.units import plural
from app.db import machines
from app.results import explore as explorer
from app.results.explore import ExploreResult
from app.results.explore.observations import GroupKey, Inventory
from app.results.explore.words import has_lines, line_title, y_number
from app.results.fields.configuration import SETTING_PREFIX
from app.results.fields.field import Disclosure, Field, FieldValue, RunContext, format_value
from app.share import anonymize
from app.share.circumstances import anonymous_snapshot
from app.share.figures import public_figure
from app.share.options import Option, OptionalField, Withheld
from app.share.snapshot import Cell, Chart, Column, DataTable, Fact, Snapshot, Tile

KIND = "explorer"
_ONE_POINT = ("at", "among", "raw")
"""Parameters that limit a view to the runs of one data point: a share is of the whole."""


def snapshot(session: Session, parameters: Mapping[str, str], options: frozenset[Option] = frozenset()) -> Snapshot:
    """Makes the snapshot from the parameters of an explorer's address. Raises BadInput for what makes no sense there,
    and Withheld for a view of which nothing is public unless it is ticked."""
    result = _explore(session, parameters, options).result
    figure = charts.figure(result, lambda _data_point: "")
    if figure is None:
        if withheld := [offer for offer in offers(session, parameters) if offer.option not in options]:
            raise Withheld(withheld)
        raise BadInput(_("There is nothing in this view that could be shared."))
    title = _("{y} against {x}", y=result.y.title, x=lower_first(result.x.title))
    days = [day for day in (result.view.where.since, result.view.where.until) if day]
    period = " to ".join(f"{day:%Y-%m-%d}" for day in days)
    return Snapshot(
        kind=KIND,
        title=f"{title}, by {lower_first(result.series.title)}" if result.series else str(title),
        description=explorer.verdict(result) or summary(result),
        subtitle=joined(plural(result.observations, result.noun), period, by=" · "),
        tiles=tuple(_tiles(result)),
        facts=tuple(_facts(result)),
        figures=(_table(result),),
        charts=(Chart(title, public_figure(figure), charts.chart_class(figure)),),
        remarks=(
            *(omission.text for omission in explorer.left_out(result)),
            *_explanations(result),
            *map(without_code, explorer.notes(result)),
        ),
    )


def offers(session: Session, parameters: Mapping[str, str]) -> list[OptionalField]:
    """Returns what a person may add: only fields that the view shows."""
    exploration = _explore(session, parameters, frozenset())
    inventory, fields = exploration.inventory, _used_fields(exploration.result)
    disclosures = {field.disclosure for field in fields}
    if "machine" in exploration.result.parts:
        disclosures.add(Disclosure.MACHINE)
    settings = sorted(field.key.removeprefix(SETTING_PREFIX) for field in fields if _is_setting(field))
    texts = {
        Option.MACHINE: ", ".join(machine.name for machine in inventory.machines.values())
        if Disclosure.MACHINE in disclosures
        else "",
        Option.LABELS: ", ".join(inventory.labels) if Disclosure.LABELS in disclosures else "",
        Option.FLAGS: ", ".join(settings),
    }
    return [OptionalField(option, text) for option, text in texts.items() if text]


def _explore(session: Session, parameters: Mapping[str, str], options: frozenset[Option]) -> explorer.Exploration:
    whole = {name: value for name, value in parameters.items() if name not in _ONE_POINT}
    exploration = explorer.explore(session, whole, engines.titles(), _Anonymizer(session, options))
    if exploration.problems:
        raise BadInput(exploration.problems[0])
    if any(_is_withheld(field, options) for field in _used_fields(exploration.result)):
        exploration = exploration._replace(result=replace(exploration.result, data_points=()))
    return exploration


def _used_fields(result: ExploreResult) -> list[Field]:
    return [field for field in (result.x, result.y, result.series) if field]


def _is_setting(field: Field) -> bool:
    return field.disclosure in (Disclosure.SETTING, Disclosure.OWN_SETTING)


def _is_withheld(field: Field, options: frozenset[Option]) -> bool:
    if field.disclosure is Disclosure.OWN_SETTING:
        return Option.FLAGS not in options
    return field.disclosure is Disclosure.NEVER


class _Anonymizer:
    """Gives each context its neutral names; one thing has the same name everywhere."""

    def __init__(self, session: Session, options: frozenset[Option]) -> None:
        self._session = session
        self._options = options
        self._machines: dict[int, str] = {}
        self._servers: dict[str, str] = {}
        self._configurations: dict[int, str] = {}
        self._models: dict[str, str] = {}
        self._hardware: dict[str, str] = {}
        self._own: dict[str, str] = {}

    def __call__(self, inventory: Inventory, group_key: GroupKey, context: RunContext) -> RunContext:
        """Returns the anonymous context. Every part is listed here, so that a part that is added later stays empty, and
        so private."""
        snapshot = anonymous_snapshot(context.snapshot, has_own_settings=Option.FLAGS in self._options)
        has_machine = Option.MACHINE in self._options
        if Option.FLAGS not in self._options:  # so that configurations that differ in what is withheld stay apart
            withheld = _own_words(context)
            number = _numbered(self._own, withheld, "1", first="1").removeprefix("1 #") if withheld else "0"
            snapshot = replace(snapshot, settings={**snapshot.settings, _("own settings"): number})
        server = inventory.configs[group_key.config_id].server
        return RunContext(
            snapshot=snapshot,
            engine=anonymize.engine_title(snapshot.engine),
            machine=context.machine if has_machine else self._machine(inventory, group_key.machine_id),
            server=_numbered(self._servers, server, "Server", first="Server 1"),
            suite=anonymize.suite(group_key.suite_key),
            labels=context.labels if Option.LABELS in self._options else (),
            workload=context.workload,
            config_title=_numbered(self._configurations, group_key.config_id, snapshot.model_title),
            model_name=_numbered(self._models, context.model_name, snapshot.model),
            hardware=context.hardware and _numbered(self._hardware, context.hardware, _("hardware"), _("hardware 1")),
            geometry=context.geometry,
            reported_parameters=context.reported_parameters,
            decode_ceiling=context.decode_ceiling,
        )

    def _machine(self, inventory: Inventory, machine_id: int) -> str:
        if machine_id not in self._machines:
            devices = machines.devices(self._session, inventory.machines[machine_id])
            _numbered(self._machines, machine_id, anonymize.accelerators(devices) or "a machine")
        return self._machines[machine_id]


def _own_words(context: RunContext) -> str:
    """Returns what a person set in their own words, and the labels of a configuration."""
    own = anonymize.own_settings(context.snapshot.settings)
    return joined(own, *sorted(context.snapshot.labels), by="; ")


def _numbered(names: dict[Any, str], key: Hashable, title: str, first: str = "") -> str:
    """Returns the name of a key; a title that another key has already gets a number."""
    if key not in names:
        same = sum(name == (first or title) or name.startswith(f"{title} #") for name in names.values())
        names[key] = f"{title} #{same + 1}" if same else first or title
    return names[key]


# --- in words --------------------------------------------------------------------------------------------------------


def _tiles(result: ExploreResult) -> Iterator[Tile]:
    """Returns the lowest and the highest value of the view."""
    if result.y.kind != "number":
        return
    ordered = sorted(result.data_points, key=y_number)
    ends = {_("Lowest"): ordered[0], _("Highest"): ordered[-1]} if len(ordered) > 1 else {"": ordered[0]}
    for which, data_point in ends.items():
        series = [line_title(result, data_point)] if has_lines(result) else []
        x_text = f"{format_value(data_point.x)} {result.x.unit}".strip()
        title = joined(which, result.y.title, by=" · ")
        observations = plural(data_point.observations, result.noun)
        source = joined(*series, result.x.title, x_text, observations, by=" · ")
        yield Tile(title, y_number(data_point), result.y.unit, source=source)


def _facts(result: ExploreResult) -> Iterator[Fact]:
    for title, field in ((_("Shown"), result.y), (_("Against"), result.x), (_("Series"), result.series)):
        if field is not None:
            yield Fact(title, field.label)
    if result.view.source:
        yield Fact(_("Source"), result.view.source)


def _explanations(result: ExploreResult) -> Iterator[str]:
    for field in (result.y, result.x, result.series):
        if field is not None and field.explanation:
            yield joined(field.title, field.explanation, by=" · ")


def _table(result: ExploreResult) -> DataTable:
    series_column = Column(result.series.title if result.series else _("Series"), "", is_text=True)
    columns = [
        *([series_column] if has_lines(result) else []),
        *(Column(field.title, field.unit, is_text=field.kind != "number") for field in (result.x, result.y)),
    ]
    ends = (
        Column(_("Lowest"), result.y.unit),
        Column(_("Highest"), result.y.unit),
        Column(_(f"{result.noun.capitalize()}s")),
    )
    rows = []
    for data_point in result.data_points:
        series = [line_title(result, data_point)] if has_lines(result) else []
        ranges = (data_point.low, data_point.high, data_point.observations)
        rows.append((*series, _cell(data_point.x), _cell(data_point.y), *ranges))
    return DataTable(_("All marks"), (*columns, *ends), tuple(rows), is_brief=len(rows) <= 40)


def _cell(value: FieldValue | None) -> Cell:
    return format_value(value) if isinstance(value, datetime) else value
