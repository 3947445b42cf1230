"""Fields of a run: where, when and with which workload it was measured, and a person's words; and fields of series."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from app.core.config_settings import SETTINGS, Setting, format_setting, ordered_setting_keys, setting_title
from app.core.i18n import _
from app.core.samples import Workload
from app.db.configs import ConfigDescription
from app.db.tables import Config, Machine, Run, Server
from app.results.fields.configuration import CONFIGURATION_FIELDS, setting_field
from app.results.fields.field import Disclosure, Field, RunContext, SearchColumn, SearchScope


def _workload_field(key: str, title: str, explanation: str, of_workload: Callable[[Workload], float]) -> Field:
    return Field(
        key, title, "Point", "number", explanation=explanation, of_workload=of_workload,
        read=lambda context: of_workload(context.workload), disclosure=Disclosure.ALWAYS,
    )  # fmt: skip


WORKLOAD_FIELDS = [
    _workload_field(
        "prompt_tokens", "Prompt tokens", "As many as the suite asks for.", lambda workload: workload.prompt_tokens
    ),
    _workload_field(
        "output_tokens", "Output tokens", "As many as the suite asks for.", lambda workload: workload.output_tokens
    ),
    _workload_field(
        "concurrency", "Concurrency", "How many requests run at once.", lambda workload: workload.concurrency
    ),
    _workload_field("depth", "Depth", "Tokens in the cache before the prompt.", lambda workload: workload.depth),
    _workload_field(
        "context_tokens",
        "Context tokens",
        "As the suite asks for: depth, prompt and half of the output.",
        Workload.mean_context,
    ),
]


def _planned(key: str) -> Callable[[RunContext], str | None]:
    return lambda context: format_setting(context.plan[key]) if key in context.plan else None


RUN_FIELDS = [
    Field(
        "machine", "Machine", "Run", read=lambda context: context.machine or None,
        series_key="machine", difference="setting", disclosure=Disclosure.MACHINE, filter="machine",
        search=(SearchColumn(SearchScope.MACHINE, Machine.name),),
    ),
    Field(
        "hardware", "Hardware", "Run", in_explorer=False, read=lambda context: context.hardware or None,
        difference="setting", is_always_set=True, disclosure=Disclosure.ALWAYS, is_share_fact=True,
    ),
    Field(
        "server", "Server", "Run", read=lambda context: context.server or None,
        series_key="server", difference="procedure", disclosure=Disclosure.ALWAYS, filter="server",
        search=(SearchColumn(SearchScope.SERVER, Server.name),),
    ),
    Field(
        "suite", "Suite", "Run", read=lambda context: context.suite or None,
        difference="procedure", disclosure=Disclosure.ALWAYS, filter="suite",
    ),
    Field("repetitions", "Repetitions", "Run", in_explorer=False, read=_planned("repetitions"), difference="procedure"),
    Field("warmups", "Warm-ups", "Run", in_explorer=False, read=_planned("warmups"), difference="procedure"),
    Field(
        "started_at", "Day", "Run", "time", "UTC", "When the run started.",
        disclosure=Disclosure.ALWAYS, filter="since",
    ),
    Field(
        "run", "Run", "Run", in_explorer=False,
        search=(SearchColumn(SearchScope.RUN, Run.public_id),),
    ),
    Field("status", "State", "Run", in_explorer=False, filter="status"),
    Field(
        "note", "Note", "Run", in_explorer=False,
        search=(SearchColumn(SearchScope.RUN, Run.note), SearchColumn(SearchScope.CONFIG, Config.note)),
    ),
    Field(
        "hidden", "Hidden", "Run", in_explorer=False, filter="hidden",
        search=(SearchColumn(SearchScope.RUN, Run.hidden_reason),),
    ),
]  # fmt: skip


def series_titles(configs: Iterable[ConfigDescription]) -> dict[str, str]:
    """Returns the title of each field that series can be made by, by series key, in the reader's language.

    Settings are those that one of `configs` states.
    """
    fixed = {key: _(field.title) for key, field in _fixed_fields().items()}
    keys = {key for config in configs for key in config.snapshot.settings}
    return fixed | {key: setting_title(key) for key in ordered_setting_keys(keys - fixed.keys())}


def filtered_series_keys() -> set[str]:
    """Returns the series keys of the fields that RunFilter has a parameter for."""
    return {key for key, field in _fixed_fields().items() if field.filter}


def series_context(
    config: ConfigDescription, engine_titles: Mapping[str, str], run_labels: Iterable[str] = ()
) -> RunContext:
    """Returns the context that fields of series are read from; labels are those of the configuration and of the run."""
    snapshot = config.snapshot
    return RunContext(
        snapshot,
        engine=engine_titles.get(snapshot.engine, snapshot.engine),
        machine=config.machine,
        server=config.server,
        labels=tuple({*snapshot.labels, *run_labels}),
    )


def series_text(key: str, context: RunContext) -> str:
    """Returns the series that a configuration belongs to by one field, in the reader's language."""
    field = _fixed_fields().get(key) or _setting_field(key, SETTINGS.get(key))
    return field.text("series", context) or _(field.absent)


def series_name(key: str, text: str) -> str:
    """Returns the name of a series. The value of a setting needs the setting's title to be understood."""
    return text if key in _fixed_fields() else _("{title} {value}", title=setting_title(key), value=text)


def _fixed_fields() -> dict[str, Field]:
    """Returns the fields that every configuration has, by series key."""
    return _by_series_key(*CONFIGURATION_FIELDS, *RUN_FIELDS)


@cache
def _by_series_key(*fields: Field) -> dict[str, Field]:
    """Returns fields by series key; labels, which are a person's own words, come last."""
    ordered = sorted(fields, key=lambda field: field.key == "labels")
    return {field.series_key: field for field in ordered if field.series_key}


@cache
def _setting_field(key: str, _setting: Setting | None) -> Field:
    """Returns the field of a setting; `_setting` is its entry of SETTINGS and part of the cache key."""
    return setting_field(key)
