"""What series of a history are made by: the fields that every configuration has, and the settings in use."""

from collections.abc import Iterable, Mapping
from functools import cache

from app.core.config_settings import SETTINGS, Setting, ordered_setting_keys, setting_title
from app.core.i18n import _
from app.db.configs import ConfigDescription
from app.results.fields.configuration import CONFIGURATION_FIELDS, setting_field
from app.results.fields.field import Field, RunContext
from app.results.fields.run import RUN_FIELDS


def series_titles(configs: Iterable[ConfigDescription]) -> dict[str, str]:
    """The title of each field that series can be made by, by series key, in the reader's language.

    Settings are those that one of `configs` states.
    """
    fixed = {key: _(field.title) for key, field in _fixed_fields().items()}
    keys = {key for config in configs for key in config.snapshot.settings}
    return fixed | {key: setting_title(key) for key in ordered_setting_keys(keys - fixed.keys())}


def filtered_series_keys() -> set[str]:
    """The series keys of fields that RunFilter has a parameter for."""
    return {key for key, field in _fixed_fields().items() if field.filter}


def series_context(
    config: ConfigDescription, engine_titles: Mapping[str, str], run_labels: Iterable[str] = ()
) -> RunContext:
    """What the fields of series are read from; labels are those of the configuration and of the run."""
    snapshot = config.snapshot
    return RunContext(
        snapshot,
        engine=engine_titles.get(snapshot.engine, snapshot.engine),
        machine=config.machine,
        server=config.server,
        labels=tuple({*snapshot.labels, *run_labels}),
    )


def series_text(key: str, context: RunContext) -> str:
    """The series that a configuration belongs to by one field, in the reader's language."""
    field = _fixed_fields().get(key) or _setting_field(key, SETTINGS.get(key))
    return field.text("series", context) or _(field.absent)


def series_name(key: str, text: str) -> str:
    """The name of a series: a value of a setting says nothing without its setting's title."""
    return text if key in _fixed_fields() else _("{title} {value}", title=setting_title(key), value=text)


def _fixed_fields() -> dict[str, Field]:
    """The fields that every configuration has, by series key."""
    return _by_series_key(*CONFIGURATION_FIELDS, *RUN_FIELDS)


@cache
def _by_series_key(*fields: Field) -> dict[str, Field]:
    """Labels, which are a person's own words, come last."""
    ordered = sorted(fields, key=lambda field: field.key == "labels")
    return {field.series_key: field for field in ordered if field.series_key}


@cache
def _setting_field(key: str, _setting: Setting | None) -> Field:
    """`_setting` is what SETTINGS has for the key."""
    return setting_field(key)
