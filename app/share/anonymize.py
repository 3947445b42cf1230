"""Makes stored words public: each is matched against what such a word looks like; all else is left out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app import engines
from app.core.config_settings import DEFAULT, IDENTITY_SETTINGS, SETTINGS, format_setting, setting_title
from app.core.i18n import N_, _, enumerated, joined
from app.core.units import format_bytes
from app.db.devices import LOCAL
from app.db.machines import MEMORY, MachineDevice
from app.db.tables import Config, Model
from app.hardware.catalogue import built_in
from app.suites import BUILT_IN

_ORGANISATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_WEIGHT_FILE = re.compile(r"\.(gguf|bin|safetensors)$", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,59}")
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}|.*[a-z0-9-]\.[a-z]{2,}", re.IGNORECASE)
"""Matches `192.168.1.5` and `box.lan`."""
_HOST_AND_PORT = re.compile(rf"(localhost|{_ADDRESS.pattern}):\d+", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z0-9]{20,}")
"""Versions and formats never have this many letters and digits in a row; keys and whole commits have."""
_MEMORY = re.compile(r"\b(?:LP)?DDR\d[A-Z]?(?:-\d+)?\b|\bHBM\d?[A-Z]?\b")
UNNAMED = "a model"
ACCELERATOR = N_("accelerator")
"""The word for an accelerator that the built-in catalogue does not know."""


def model_name(name: str) -> str:
    """Returns a model's name without the folders or the address that it was loaded from.

    >>> model_name("unsloth/Qwen3-8B"), model_name("/home/me/models/Qwen3-8B.gguf"), model_name("http://box:1/v1/Qwen3")
    ('unsloth/Qwen3-8B', 'Qwen3-8B', 'Qwen3')
    """
    name = name.strip()
    path = _path_of(name) if "://" in name else name
    parts = re.split(r"[/\\]", path.rstrip("/\\"))
    last = _WEIGHT_FILE.sub("", re.split("[?#]", parts[-1])[0])
    if _HOST_AND_PORT.fullmatch(last):
        return UNNAMED
    if len(parts) == 2 and _ORGANISATION.fullmatch(parts[0]) and last == parts[-1]:
        return f"{parts[0]}/{last}"
    return last or UNNAMED


def _path_of(url: str) -> str:
    """Returns the path of an address, without host, user, password and query."""
    return re.sub(r"^.*?://[^/?#\\]*", "", url, flags=re.DOTALL)


def model_title(model: Model) -> str:
    return " ".join(filter(None, [model_name(model.name), safe_token(model.quantization)]))


def safe_token(text: str | None) -> str:
    """Returns a version or the name of a format; empty for a text that does not look like one, or looks like an address
    or a key.

    >>> safe_token("b6301"), safe_token("0.9.1.post2+cu128"), safe_token("10.0.0.7"), safe_token("box.lan")
    ('b6301', '0.9.1.post2+cu128', '', '')
    """
    if not text or not _WORD.fullmatch(text) or _ADDRESS.fullmatch(text) or _KEY.search(text):
        return ""
    return text


def engine(config: Config) -> str:
    version = safe_token(config.engine_version)
    title = engine_title(config.engine)
    return _("{engine} {version}", engine=title, version=version) if version and "unknown" not in version else title


def engine_title(key: str) -> str:
    return engines.titles().get(key, _("another engine"))


def suite(key: str) -> str:
    """Returns the neutral name of a suite. A person's own suite may be named after something; its points say what it
    plays."""
    return key if key in BUILT_IN else _("own suite")


def known_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with a known meaning and a value of its kind."""
    settings = {}
    for key, setting in SETTINGS.items():
        if key in IDENTITY_SETTINGS:
            continue
        value = values.get(key)
        is_number = setting.type is int and isinstance(value, int) and not isinstance(value, bool)
        if is_number or value == DEFAULT or (setting.choices and value in setting.choices):
            settings[key] = value
    return settings


def own_settings(values: Mapping[str, Any]) -> str:
    """Returns all other settings, in a person's own words; without the names that files and models have on their
    server."""
    excluded = {*known_settings(values), *IDENTITY_SETTINGS}
    return "; ".join(
        f"{setting_title(key)} {format_setting(value, key)}"
        for key, value in values.items()
        if key not in excluded and value is not None
    )


def device_name(name: str, is_ram: bool = False, memory_bytes: int | None = None) -> str:
    """Returns the built-in catalogue's name of a device: a typed name may contain anything.

    >>> device_name("NVIDIA GeForce RTX 3090"), device_name("Ann's card"), device_name("Memory DDR5-6000", is_ram=True)
    ('GeForce RTX 3090', 'accelerator', 'DDR5-6000 memory')
    """
    if is_ram:
        kind = _MEMORY.search(name)
        return _("{kind} memory", kind=kind[0]) if kind else _("memory")
    device = built_in().find(name, memory_bytes).device or built_in().find(name).device
    return device.name if device else _(ACCELERATOR)


def calculated_device(name: str) -> str:
    """Returns the name of a device of the calculator, where a machine's own device is named with the machine.

    >>> calculated_device("RTX 3090 on Ann's box"), calculated_device("Memory DDR5-6000 on Ann's box")
    ('GeForce RTX 3090', 'DDR5-6000 memory')
    """
    device, _separator, machine = name.partition(LOCAL)
    return device_name(device, is_ram=bool(machine) and device.startswith(MEMORY))


def accelerators(devices: Sequence[MachineDevice]) -> str:
    """Returns the accelerators as `2 × GeForce RTX 3090`; the memory of a machine without any; empty when nothing is
    known."""
    cards = [device for device in devices if device.kind != "ram"]
    if not cards:
        return _memory(devices)
    names = [(card.count, device_name(card.name, memory_bytes=card.memory_bytes)) for card in cards]
    return _listed(_("{count} × {name}", count=count, name=name) if count > 1 else name for count, name in names)


def hardware(devices: Sequence[MachineDevice]) -> str:
    """Returns accelerators and memory as `2 × GeForce RTX 3090, 64 GB of DDR5-6000 memory`; empty when nothing is
    known."""
    return joined(*dict.fromkeys((accelerators(devices), _memory(devices))), by=", ")


def _memory(devices: Sequence[MachineDevice]) -> str:
    memories = [
        device for device in devices if device.kind == "ram" and (device.memory_bytes or _MEMORY.search(device.name))
    ]
    return _listed(_described(memory.memory_bytes, device_name(memory.name, is_ram=True)) for memory in memories)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return enumerated(names) if names else ""


def _described(memory_bytes: int | None, name: str) -> str:
    return _("{size} of {name}", size=format_bytes(memory_bytes), name=name) if memory_bytes else name


def labels(*label_lists: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(label for labels in label_lists for label in labels))
