"""The process of a server on this machine: its settings, and when it was started.

A server in a container, behind a tunnel or a proxy, or of another user shows none: what it was started with stays
unknown.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from app import engines
from app.core.config_settings import ordered_setting_keys, setting_title
from app.core.i18n import _, enumerated, lower_first
from app.engines.base import Engine, ModelInfo, ServerInfo
from app.engines.flags import ModelArguments
from app.engines.http import is_loopback
from app.engines.process import Command, names_program, read_command, variables
from app.hardware.host import names_this_host
from app.hardware.processes import ServerProcess, server_processes

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ObservedProcess:
    """The process that runs a model for a server on this machine."""

    pid: int
    started_at: float
    """Seconds since the epoch."""
    program: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its command line, by the keys of `app.core.config_settings`; empty where that could not be read."""

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes this start of the server from another one, as `Run.evidence["process"]` holds it."""
        return {"pid": self.pid, "started_at": self.started_at}

    def to_json(self) -> dict[str, Any]:
        return {**self.identity, "program": self.program, "settings": dict(self.settings)}


def port_of(base_url: str) -> int:
    """The port of a server's URL."""
    parts = urlsplit(base_url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def observe_process(
    base_url: str, engine_key: str, model: ModelInfo | None = None, weights: str | None = None
) -> ObservedProcess | None:
    """The process behind a URL of this machine; None where there is none that can be seen.

    `weights` is the path of the model's file where `model` does not have it. Takes some milliseconds.
    """
    host = urlsplit(base_url).hostname or ""
    if not (is_loopback(base_url) or names_this_host(host)) or (model is not None and model.runs_on is not None):
        return None
    address = "127.0.0.1" if host == "localhost" else host
    processes = server_processes(port_of(base_url), variables(), address)
    if not processes or processes[0].is_forwarder:
        return None
    listening = engines.get(engine_key)
    engine = engines.get(model.engine) if model is not None and model.engine else listening
    if engine is None or listening is None:
        return None
    path = weights or (model.file_path if model is not None else None)
    chosen = _chosen(engine, processes, path, is_gateway=engine is not listening)
    if chosen is None:
        log.info("no command line of the processes behind %s says how %s was started", base_url, engine.title)
        return ObservedProcess(processes[0].pid, processes[0].started_at, processes[0].program)
    process, line = chosen
    settings = dict(line.settings)
    if line.context_tokens is not None and not engine.context_per_request:
        settings["context"] = line.context_tokens
    return ObservedProcess(process.pid, process.started_at, process.program, dict(sorted(settings.items())))


def _chosen(
    engine: Engine, processes: Sequence[ServerProcess], path: str | None, *, is_gateway: bool
) -> tuple[ServerProcess, ModelArguments] | None:
    """The process that runs the model, with its command line: the one with the model's file, else the only one with any
    file, else the first; None where several come into question."""
    lines = [
        (process, line)
        for process in (processes[1:] if is_gateway else processes)
        if (line := _line(engine, process)) is not None
    ]
    named = [pair for pair in lines if names_program(engine, pair[0].arguments or ())]
    lines = named or lines
    with_file = [(process, line) for process, line in lines if line.file_path is not None]
    of_model = [pair for pair in with_file if path is not None and _name(pair[1].file_path) == _name(path)]
    if of_model:
        return of_model[0]
    if path is not None:  # the models of the others are other ones
        lines = [pair for pair in lines if pair not in with_file or pair[0].is_listener]
    elif with_file:
        return with_file[0] if len(with_file) == 1 or with_file[0][0].is_listener else None
    return lines[0] if lines and (not is_gateway or len(lines) == 1) else None


def _line(engine: Engine, process: ServerProcess) -> ModelArguments | None:
    if not process.arguments:
        return None
    command = Command(
        process.arguments, process.environment, process.folder, process.program, process.is_environment_known
    )
    return read_command(engine, command, is_listener=process.is_listener)


def _name(path: str | None) -> str:
    return PurePath((path or "").replace("\\", "/")).name


def process_json(base_url: str, info: ServerInfo) -> dict[str, Any] | None:
    """What the process behind a server says of its first model, as `Server.facts["process"]` holds it."""
    observed = observe_process(base_url, info.engine, info.model(None))
    return None if observed is None else observed.to_json()


def process_words(keys: Collection[str]) -> str | None:
    """One sentence with the settings that the server's process was started with; None for none."""
    if not keys:
        return None
    titles = [lower_first(setting_title(key)) for key in ordered_setting_keys(keys)]
    return _("Read from how the server's process was started: {settings}.", settings=enumerated(titles))
