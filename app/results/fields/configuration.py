"""Fields of a configuration, its model and its settings."""

import json
import math
from collections.abc import Collection, Iterable
from typing import Any

from app.ceiling.number_formats import bits_of_label, kv_bits
from app.core.config_settings import (
    DEFAULT,
    IDENTITY_SETTINGS,
    SETTINGS,
    format_setting,
    ordered_setting_keys,
)
from app.core.i18n import N_, _
from app.core.unknown_settings import is_version_known
from app.db.json_columns import any_item_has, any_value_has
from app.db.tables import Config, Model, Run, Server
from app.results.fields.field import (
    Disclosure,
    Field,
    FieldValue,
    RunContext,
    SearchColumn,
    SearchScope,
    natural_key,
)

SETTING_PREFIX = "setting."
"""The prefix of the keys of settings, so that no setting has the key of another field."""


def _quantization_rank(label: str) -> tuple[float]:
    bits = bits_of_label(label)
    return (math.inf if bits is None else bits,)


def _variant_rank(text: str) -> tuple[Any, ...]:
    model, _, label = text.rpartition(" ")
    return natural_key(model), *_quantization_rank(label)


def _variant(context: RunContext) -> str:
    return f"{context.model_name or context.snapshot.model} {context.snapshot.quantization or ''}".strip()


def _bits_per_weight(context: RunContext) -> float | None:
    """Reads the bits per weight of the model's file when it is known, else the usual ones for the label."""
    weights = context.geometry and context.geometry.geometry.weights
    if weights:
        return round(weights.bits_per_weight, 3)
    return bits_of_label(context.snapshot.quantization or "")


def _parameters(context: RunContext) -> float | None:
    total = context.geometry and context.geometry.geometry.params_total
    return _billions(total or context.reported_parameters)


def _active_parameters(context: RunContext) -> float | None:
    return _billions(context.geometry.geometry.params_active) if context.geometry else None


def _billions(count: Any) -> float | None:
    return round(count / 1e9, 4) if isinstance(count, int | float) and count > 0 else None


def _engine_version(context: RunContext) -> str | None:
    version = context.snapshot.engine_version
    return version and _("{engine} {version}", engine=context.engine, version=version)


def _known_version(context: RunContext) -> str | None:
    version = context.snapshot.engine_version
    return version if is_version_known(version) else None


def _engine_and_build(context: RunContext) -> str | None:
    """Reads engine and build. llama.cpp built without git calls its build b0-unknown: then the engine alone."""
    version = context.snapshot.engine_version
    return _engine_version(context) if is_version_known(version) else context.engine or None


CONFIGURATION_FIELDS = [
    Field(
        "model", "Model", "Configuration",
        read=lambda context: context.model_name or context.snapshot.model or None,
        texts={"difference": lambda context: context.model_name or None},
        series_key="model", difference="setting", disclosure=Disclosure.ALWAYS, is_share_fact=True, filter="model",
        search=(SearchColumn(SearchScope.CONFIG, Model.name),),
    ),
    Field(
        "quantization", "Quantization", "Configuration",
        explanation="Sorted by bits per weight.", missing="The server does not report it.",
        read=lambda context: context.snapshot.quantization or None, rank=_quantization_rank,
        series_key="quantization", difference="setting", is_always_set=True, disclosure=Disclosure.ALWAYS,
        is_share_fact=True,
        search=(SearchColumn(SearchScope.CONFIG, Model.quantization),),
    ),
    Field(
        "variant", "Model and quantization", "Configuration",
        read=_variant, rank=_variant_rank, disclosure=Disclosure.ALWAYS,
    ),
    Field(
        "configuration", "Configuration", "Configuration",
        explanation="The whole configuration: its name shows what distinguishes it from the others.",
        read=lambda context: context.config_title, needs="config_title", disclosure=Disclosure.ALWAYS, filter="config",
    ),
    Field(
        "bits_per_weight", "Bits per weight", "Configuration", "number",
        explanation="From the model's file; if that is unknown, the usual value of its quantization.",
        missing="Neither a model file nor the quantization states it.",
        read=_bits_per_weight, disclosure=Disclosure.ALWAYS,
    ),
    Field(
        "parameters", "Parameters", "Configuration", "number", "B",
        missing="No model file states it.", read=_parameters, disclosure=Disclosure.ALWAYS,
    ),
    Field(
        "active_parameters", "Active parameters", "Configuration", "number", "B",
        explanation="Those that one token uses: fewer than all in a mixture of experts.",
        missing="No model file states it.", read=_active_parameters, disclosure=Disclosure.ALWAYS,
    ),
    Field(
        "engine", "Engine", "Configuration",
        read=lambda context: context.engine or None,
        series_key="engine", difference="setting", disclosure=Disclosure.ALWAYS, is_share_fact=True, filter="engine",
        texts={"share": _engine_and_build},
        search=(
            SearchColumn(SearchScope.CONFIG, Config.engine),
            SearchColumn(SearchScope.SERVER_WITHOUT_CONFIG, Server.engine),
        ),
    ),
    Field(
        "engine_version", "Engine version", "Configuration",
        missing="The server does not report it.", read=_engine_version,
        texts={
            "series": lambda context: _engine_version(context) or context.engine,
            "difference": _known_version,
        },
        series_key="engine_version", difference="setting", is_always_set=True, disclosure=Disclosure.ALWAYS,
        search=(SearchColumn(SearchScope.CONFIG, Config.engine_version),),
    ),
    Field(
        "labels", "Labels", "Configuration",
        missing="They have no label.", read=lambda context: ", ".join(sorted(context.labels)) or None,
        series_key="label", absent=N_("no label"), difference="setting", disclosure=Disclosure.LABELS, filter="label",
        search=(
            SearchColumn(SearchScope.RUN, Run.labels, any_item_has),
            SearchColumn(SearchScope.CONFIG, Config.labels, any_item_has),
        ),
    ),
]  # fmt: skip

SETTINGS_COLUMN = SearchColumn(SearchScope.CONFIG, Config.settings, any_value_has)


def setting_fields(configs: Iterable[Config] = ()) -> list[Field]:
    """Returns a field for each of SETTINGS, and for each setting that a person invented in one of `configs`."""
    values: dict[str, set[Any]] = {key: set() for key in SETTINGS}
    for config in configs:
        for key, value in config.settings.items():
            is_plain = isinstance(value, str | int | float)
            values.setdefault(key, set()).add(value if is_plain else json.dumps(value))
    return [setting_field(key, values[key]) for key in ordered_setting_keys(values)]


def setting_field(key: str, values: Collection[Any] = ()) -> Field:
    """Returns the field of a setting. It is a number when each of the `values` in use is; a setting that nobody uses
    has the kind of its type."""
    setting = SETTINGS.get(key)
    values = [value for value in values if value != DEFAULT]
    is_number = all(map(_is_number, values)) if values else setting is not None and setting.type is int
    title = setting.title if setting is not None else key

    def read(context: RunContext) -> FieldValue | None:
        value = context.snapshot.settings.get(key)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        if is_number and value == DEFAULT:  # a number that nobody stated
            return None
        return value if is_number else (str(value) if _is_number(value) else format_setting(value, key))

    def text(context: RunContext) -> str | None:
        value = context.snapshot.settings.get(key)
        return None if value is None else format_setting(value, key)

    is_identity = key in IDENTITY_SETTINGS
    return Field(
        f"{SETTING_PREFIX}{key}", title, "Settings", "number" if is_number else "category",
        missing="Their configuration does not state it.",
        read=read, rank=_kv_rank,
        texts={"series": text, "difference": (lambda context: context.weights.get(title)) if is_identity else text,
               "share": text},
        series_key=key, difference="setting", is_always_set=setting is not None and setting.is_always_set,
        disclosure=Disclosure.OWN_SETTING if setting is None else Disclosure.SETTING,
        is_share_fact=setting is not None and not is_identity,
        search=(SETTINGS_COLUMN,),
    )  # fmt: skip


def _kv_rank(text: str) -> tuple[float]:
    """Ranks KV cache types by their bits; values of other settings have no rank."""
    return (kv_bits(text.lower()) or 0.0,)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
