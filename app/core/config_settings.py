"""The settings of a configuration: which there are, how they are typed in, and how they are shown."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.core.errors import BadInput
from app.core.i18n import N_, _
from app.core.units import read_number

SettingValue = str | int | float | bool


@dataclass(frozen=True)
class Setting:
    key: str
    title: str
    type: type = str
    is_in_form: bool = False
    """Asked in the server's form, since hardly any probe can detect it."""
    hint: str = ""
    choices: tuple[str, ...] = ()
    """The usual values; others are kept too."""
    is_always_set: bool = False
    """Every server runs with some value of it: where none is recorded, it is unknown and may have changed unseen."""


KV_TYPES = ("f16", "bf16", "f32", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl", "fp8", "fp8_e4m3", "fp8_e5m2")

SETTINGS = {
    setting.key: setting
    for setting in (
        Setting("context", "Context", int, hint="tokens one request may use", is_always_set=True),
        Setting("parallel", "Parallel slots", int, is_always_set=True),
        Setting(
            "cards",
            "GPUs",
            int,
            is_in_form=True,
            hint="accelerators that hold the model; 0 for CPU only",
            is_always_set=True,
        ),
        Setting(
            "split_mode", "Split mode", is_in_form=True, choices=("layer", "row", "tensor", "none"), is_always_set=True
        ),
        Setting("kv_type_k", "KV cache type K", is_in_form=True, choices=KV_TYPES, is_always_set=True),
        Setting("kv_type_v", "KV cache type V", is_in_form=True, choices=KV_TYPES, is_always_set=True),
        Setting("gpu_layers", "Layers on GPU", int, is_in_form=True, hint="999 for all", is_always_set=True),
        Setting(
            "n_cpu_moe",
            "Layers with experts in system memory",
            int,
            is_in_form=True,
            hint="as in --n-cpu-moe; 999 for all (--cpu-moe)",
        ),
        Setting("cpu_moe", "All experts in system memory", choices=("on", "off")),
        Setting("override_tensor", "Tensor overrides", is_in_form=True, hint="as in -ot: exps=CPU"),
        Setting("tensor_split", "Split among GPUs", is_in_form=True, hint="as in -ts: 3,1; the fastest GPU first"),
        Setting("main_gpu", "Main GPU", int, hint="with split mode none; the fastest GPU is 0"),
        Setting("pipeline_parallel", "Pipeline stages", int),
        Setting("kv_offload", "KV cache on GPUs", choices=("on", "off")),
        Setting("gpu_share", "Share in GPU memory, %", int, hint="as `ollama ps` says"),
        Setting("gpu_weight_mib", "Weights in GPU memory, MiB", int),
        Setting("batch", "Batch", int, is_always_set=True),
        Setting("ubatch", "Micro-batch", int, is_always_set=True),
        Setting("threads", "Threads", int, is_always_set=True),
        Setting("flash_attention", "Flash attention", choices=("on", "off", "auto"), is_always_set=True),
        Setting("environment", "Environment variables", hint="of the server's process, as far as they decide a speed"),
        Setting("flags", "Flags", is_in_form=True, hint="further command-line flags of the engine"),
        Setting("runs_on", "Runs on", hint="where the server forwards requests"),
        Setting("gateway", "Gateway", hint="the server in front of the engine's own"),
        Setting("recipe", "Recipe", hint="Lemonade's name for how it runs a model"),
        Setting("devices", "Devices", hint="what runs the model: cpu, gpu, npu"),
        Setting("model_id", "Model id"),
        Setting("model_file", "Model file"),
        Setting("model_digest", "Digest of the model"),
        Setting("model_bytes", "Bytes of the model", int),
    )
}
IDENTITY_SETTINGS = ("model_id", "model_file", "model_digest", "model_bytes")
"""Settings that identify the measured weights. One that is missing was not recorded, or the server does not report it:
then it distinguishes nothing."""

NOT_STATED = N_("not stated")
"""The value of a setting that nobody stated."""

DEFAULT = N_("default")
"""The value of a setting that a completely known command line leaves to the engine, whose default is no fixed value."""

_KEY = re.compile(r"[a-z][a-z0-9_.-]{0,39}")


def parse_setting(text: str) -> tuple[str, SettingValue | None]:
    """`key=value` as typed on a command line; an empty value means "forget it". Raises BadInput.

    >>> parse_setting("cards=2"), parse_setting("kv_type_k=q8_0"), parse_setting("cards=")
    (('cards', 2), ('kv_type_k', 'q8_0'), ('cards', None))
    """
    key, equals, value = text.partition("=")
    key = key.strip().lower()
    if not equals or not _KEY.fullmatch(key):
        raise BadInput(f"Settings are written key=value, such as cards=2; {text!r} is not.")
    return key, parse_setting_value(key, value)


def parse_setting_value(key: str, value: str) -> SettingValue | None:
    """A typed-in value in its setting's type; None when it is empty. Raises BadInput."""
    value = value.strip()
    if not value:
        return None
    if len(value) > 500:
        raise BadInput(_("{title} is longer than 500 characters.", title=setting_title(key)))
    setting = SETTINGS.get(key)
    if setting is None or setting.type is str:
        return value
    try:
        number = read_number(value)
    except ValueError as error:
        raise BadInput(
            _("{title} must be a whole number, not {text!r}.", title=_(setting.title), text=value)
        ) from error
    if number != int(number) or not 0 <= number < 2**53:
        raise BadInput(
            _("{title} must be a whole number, neither negative nor absurdly large.", title=_(setting.title))
        )
    return int(number)


def parse_log_path(text: str) -> str | None:
    """The full path of a server's log as typed; None when it is empty. Raises BadInput for a relative path."""
    path = text.strip()
    if not path:
        return None
    if not Path(path).is_absolute() or "\0" in path or len(path) > 1000:
        raise BadInput(_("The log file needs its full path, such as /var/log/llama-server.log."))
    return path


def setting_warning(key: str, value: SettingValue) -> str | None:
    """Returns one sentence when a setting looks like a typing error, else None. The setting is stored as typed all the
    same."""
    setting = SETTINGS.get(key)
    if setting is None:
        close = difflib.get_close_matches(key, SETTINGS, n=1)
        suggestion = f"; did you mean {close[0]}?" if close else f". Known are {', '.join(SETTINGS)}."
        return f"{key} is kept as a setting of your own{suggestion}"
    if setting.choices and value not in setting.choices:
        close = difflib.get_close_matches(str(value), setting.choices, n=1)
        suggestion = f"did you mean {close[0]}?" if close else f"known are {', '.join(setting.choices)}."
        return f"{setting.title} {value} is kept as typed; {suggestion}"
    return None


def remote_host(settings: Mapping[str, Any] | None) -> str | None:
    """Returns the host that runs the model when the measured server only forwards requests to it."""
    host = (settings or {}).get("runs_on")
    return str(host) if host else None


def ordered_setting_keys(keys: Iterable[str]) -> list[str]:
    """Setting keys in the order in which people read them: those of SETTINGS first, then a person's own by name."""
    keys = set(keys)
    return [key for key in SETTINGS if key in keys] + sorted(keys - SETTINGS.keys())


def setting_title(key: str) -> str:
    """The title of a setting in the reader's language; a setting of a person's own has the name that they gave it."""
    return _(SETTINGS[key].title) if key in SETTINGS else key


def format_setting(value: Any, key: str = "") -> str:
    """The value of a setting in the reader's language; a person's own text stays as it is."""
    if value is None:
        return _(NOT_STATED)
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if value == DEFAULT or (key in SETTINGS and value in SETTINGS[key].choices):
        return _(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
