"""Every field there is, in one registry: the explorer, histories, comparisons, shares and searches read it."""

from collections.abc import Iterable
from dataclasses import replace

from app.core.i18n import _
from app.db.tables import Config
from app.results.fields.configuration import CONFIGURATION_FIELDS, setting_fields
from app.results.fields.field import Field, SearchColumn
from app.results.fields.measured import DERIVED_FIELDS, metric_fields
from app.results.fields.run import RUN_FIELDS, WORKLOAD_FIELDS

GROUPS = ("Metrics", "Derived", "Configuration", "Settings", "Point", "Run")


def all_fields(configs: Iterable[Config] = ()) -> list[Field]:
    """Every field, in the order of GROUPS; `configs` add the settings that people have made up."""
    return [
        *metric_fields(),
        *DERIVED_FIELDS,
        *CONFIGURATION_FIELDS,
        *setting_fields(configs),
        *WORKLOAD_FIELDS,
        *RUN_FIELDS,
    ]


def context_fields(configs: Iterable[Config] = ()) -> list[Field]:
    """The fields that are read from a RunContext alone: no metrics."""
    return [*CONFIGURATION_FIELDS, *setting_fields(configs), *WORKLOAD_FIELDS, *RUN_FIELDS]


def explorer_fields(configs: Iterable[Config]) -> dict[str, Field]:
    """The fields of the explorer by key, in the reader's language."""
    return {field.key: _localized(field) for field in all_fields(configs) if field.in_explorer}


def _localized(field: Field) -> Field:
    """Names of a person's own settings stay as they are."""
    return replace(
        field,
        title=field.title if field.is_own_setting else _(field.title),
        group=_(field.group),
        explanation=_(field.explanation) if field.explanation else "",
        missing=_(field.missing),
    )


def grouped(fields: Iterable[Field]) -> list[tuple[str, list[Field]]]:
    """Localized fields by the title of their group, as a person chooses among them."""
    choices = list(fields)
    return [(group, [field for field in choices if field.group == group]) for group in map(_, GROUPS)]


def search_columns() -> list[SearchColumn]:
    """Where a search for words looks, each column once."""
    fields = [*CONFIGURATION_FIELDS, *setting_fields(), *RUN_FIELDS]
    return list(dict.fromkeys(column for field in fields for column in field.search))
