"""The form of a server: its fields, their initial values, and parsing them."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import Session

from app.core.config_settings import SETTINGS, Setting, SettingValue, parse_log_path, parse_setting_value
from app.core.errors import BadInput
from app.core.i18n import _
from app.db import machines
from app.db.tables import Machine, Server
from app.engines.base import STATED_ENGINE
from app.engines.http import normalise_base_url
from app.measure.config_snapshot import OVERRIDES
from app.web.deps import SecretsDep
from app.web.forms import Fields, WrongField
from app.web.templates import engine_titles

HERE = "@here"
"""The choice of the machine that Roofmark runs on, which saving adds; no slug contains an @."""


def is_engine_stated(server: Server) -> bool:
    """Whether a person chose the engine, rather than a probe."""
    return STATED_ENGINE in server.capabilities


def parse_form(form: Fields, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Columns of a server; `engine` is None where the probe detects it. Raises BadInput.

    Settings of `before` stay unless the form has a field for them.
    """
    base_url = normalise_base_url(form.get("base_url"))
    engine = form.get("engine") or None
    if engine is not None and engine not in engine_titles():
        raise BadInput(_("There is no engine {engine!r}.", engine=engine))
    labels = dict.fromkeys(label.strip() for label in form.text("labels", _("Labels"), 500).split(","))
    typed = {key: _setting(key, value) for key, value in form.starting_with("setting_").items()}
    settings = {**(before or {}), **typed}
    return {
        "base_url": base_url,
        "engine": engine,
        "name": form.required("name", _("The name"), 120),
        "model": form.text("model", _("The model"), 300) or None,
        "log_path": _log_path(form),
        "labels": [label for label in labels if label],
        "settings": {key: value for key, value in settings.items() if value is not None},
    }


def _log_path(form: Fields) -> str | None:
    typed = form.text("log_path", "The log file", 1000)
    try:
        return parse_log_path(typed)
    except BadInput as error:
        raise WrongField(str(error), "log_path") from None


def _setting(key: str, value: str) -> SettingValue | None:
    try:
        return parse_setting_value(key, value)
    except BadInput as error:
        raise WrongField(str(error), f"setting_{key}") from None


def chosen_machine(session: Session, form: Fields) -> Machine:
    slug = form.required("machine", _("The machine"), 80)
    return machines.ensure_local_machine(session) if slug == HERE else machines.machine(session, slug)


def encrypted_api_key(secrets: SecretsDep, form: Fields, server: Server, moved: bool) -> str | None:
    """The key to store: the typed one, else the stored one, which is dropped when the address has changed."""
    typed = form.get("api_key").strip()
    if typed:
        return secrets.encrypt(typed)
    return None if moved or form.get("remove_key") else server.api_key_encrypted


def initial_form(server: Server, machine: Machine) -> Fields:
    return Fields(
        [
            ("name", server.name),
            ("machine", machine.slug),
            ("engine", server.engine),
            ("base_url", server.base_url),
            ("model", server.model or ""),
            ("labels", ", ".join(server.labels)),
            ("log_path", server.log_path or ""),
            *((f"setting_{key}", str(value)) for key, value in server.settings.items()),
        ]
    )


def settings_to_ask(facts: Mapping[str, Any], stated_settings: Mapping[str, Any]) -> Sequence[Setting]:
    """Settings for the form: those that neither the probe nor the server's process says, and those stated before."""
    reported = {**(facts.get("process") or {}).get("settings", {}), **facts.get("settings", {})}
    usual = [setting for setting in SETTINGS.values() if setting.is_in_form and reported.get(setting.key) is None]
    more = stated_settings.keys() - {setting.key for setting in usual} - set(OVERRIDES)
    return [*usual, *(SETTINGS.get(key) or Setting(key, key) for key in sorted(more))]


def missing_settings(facts: Mapping[str, Any]) -> Sequence[str]:
    """Those of quantization and engine version that the probe did not report."""
    return [key for key in OVERRIDES if not _is_reported(facts, key)]


def _is_reported(facts: Mapping[str, Any], key: str) -> bool:
    """Whether the probe reported the engine's version, or the quantization of every model."""
    if key == "engine_version":
        return bool(facts.get("engine_version"))
    models = facts.get("models", [])
    return bool(models) and all(model.get(key) for model in models)
