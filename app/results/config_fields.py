"""What configurations can be told apart by, grouped by and chosen by: each field as a person reads it."""

from collections.abc import Iterable, Mapping

from app.core.configuration import SETTINGS, setting_title, show
from app.core.i18n import N_, _
from app.db.configs import Described

FIELDS = {
    "model": N_("Model"),
    "quantization": N_("Quantization"),
    "engine": N_("Engine"),
    "engine_version": N_("Engine version"),
    "machine": N_("Machine"),
    "server": N_("Server"),
    "label": N_("Labels"),
}
"""Those that every configuration has, before its settings."""
NOT_STATED = N_("not stated")


def fields_of(configs: Iterable[Described]) -> dict[str, str]:
    """Titles by key: FIELDS and every setting that one of the configurations has."""
    settings = {key for each in configs for key in each.snapshot.settings}
    known = [key for key in SETTINGS if key in settings]
    titles = {key: _(title) for key, title in FIELDS.items()}
    return titles | {key: setting_title(key) for key in known + sorted(settings - set(SETTINGS)) if key not in FIELDS}


def field(config: Described, key: str, engine_titles: Mapping[str, str], run_labels: Iterable[str] = ()) -> str:
    """Its value in words; labels are those of the configuration and of the run together."""
    snapshot = config.snapshot
    engine = engine_titles.get(snapshot.engine, snapshot.engine)
    if key == "label":
        return ", ".join(sorted({*snapshot.labels, *run_labels})) or _("no label")
    values = {
        "model": snapshot.model,
        "quantization": snapshot.quantization,
        "engine": engine,
        "engine_version": f"{engine} {snapshot.engine_version or ''}".strip(),
        "machine": config.machine,
        "server": config.server,
    }
    return values[key] or _(NOT_STATED) if key in values else show(snapshot.settings.get(key), key)
