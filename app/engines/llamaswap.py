"""llama-swap, a gateway that starts one server per model and stops it for another.

Read in its source at 0bdb3720 (v250 and five commits): `owned_by` of every model is `llama-swap`; `/running` has, of
each process, its state and the whole command line of its configuration; `/upstream/<model>/` passes everything to that
model's server, and starts it where it does not run, so only running ones are asked. `/props?model=` starts it too.
`/metrics` is about the machine, not about requests. With `sendLoadingState` the words that it streams as
`reasoning_content` while a model loads carry neither an id nor a model's name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from app import engines
from app.core.i18n import _
from app.engines.base import Health, ModelInfo, ServerInfo
from app.engines.flags import split_command
from app.engines.http import Answer, ServerClient
from app.engines.openai import list_models, model_info
from app.engines.protocol.answers import health_of, mapping, object_at, object_in, string
from app.engines.protocol.gateway import (
    Gateway,
    arguments_of,
    described_behind,
    engine_of_command,
    learned_behind,
    with_backend,
)
from app.engines.protocol.trace_builder import Dialect

_RUNNING = "/running"
_READY = "ready"
_STOPPED = "stopped"
_ELSEWHERE = "peer"
_NO_SERVER = ("selector", "profile")
"""Names in its list that stand for one model now and for another one later."""


class LlamaSwap(Gateway):
    key = "llama-swap"
    title = "llama-swap"
    default_ports = (8080,)
    owned_by = ("llama-swap",)
    health_path = _RUNNING
    dialect = Dialect(is_named=True)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        processes = _processes(client.get(_RUNNING))
        return None if processes is None else self._description(client, processes)

    def describe(self, client: ServerClient) -> ServerInfo:
        return self._description(client, _processes(client.get(_RUNNING)) or {})

    def _description(self, client: ServerClient, processes: Mapping[str, Mapping[str, Any]]) -> ServerInfo:
        entries = list_models(client)
        running = {}
        for name, process in processes.items():
            # never behind a gateway that is itself behind one: that may be the same one
            is_asked = process.get("state") == _READY and not client.is_behind
            running[name] = described_behind(client.behind(_path(name))) if is_asked else None
        models = [_model(name, entry, processes, running) for name, entry in entries.items()]
        models.sort(key=lambda model: (model.runs_on is not None, not model.is_loaded))
        return ServerInfo(
            engine=self.key,
            engine_version=string(object_at(client, "/api/version").get("version")),
            models=tuple(models),
            capabilities=learned_behind(running.values()),
            notes=() if models else (_("The server offers no model: load one first."),),
        )

    def behind(self, client: ServerClient) -> ServerClient | None:
        if client.model is None or _state(client, client.get(_RUNNING)) != _READY:
            return None
        return client.behind(_path(client.model))

    def health(self, client: ServerClient) -> Health:
        answer = client.get(_RUNNING)
        health = health_of(answer)
        if client.model is None or not health.ready:
            return health
        state = _state(client, answer)
        if state not in (_READY, _STOPPED):
            return Health(ready=False, detail=_("The gateway is starting the model's server."))
        if state == _STOPPED:
            return replace(health, detail=_("The first request loads the model."))
        backend = self._backend(client)
        return health if backend is None else backend.health(client.behind(_path(client.model)))


ENGINE = LlamaSwap()


def _path(model: str) -> str:
    return f"/upstream/{quote(model)}"


def _processes(answer: Answer) -> dict[str, Mapping[str, Any]] | None:
    """Its processes by the name of their model; None where the answer is no list of them."""
    running = object_in(answer).get("running") if answer.status < 300 else None
    if not isinstance(running, list):
        return None
    return {name: mapping(process) for process in running if (name := string(mapping(process).get("model")))}


def _state(client: ServerClient, answer: Answer) -> str:
    """The state of the server of the client's model, which may go by an alias."""
    processes = _processes(answer) or {}
    name = client.model or ""
    if name not in processes and processes:
        name = _real_name(name, list_models(client).get(name, {}))
    return string(processes.get(name, {}).get("state")) or _STOPPED


def _real_name(name: str, entry: Mapping[str, Any]) -> str:
    return string(_own_facts(entry).get("modelID")) or name


def _own_facts(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(entry.get("meta")).get("llamaswap"))


def _model(
    name: str,
    entry: Mapping[str, Any],
    processes: Mapping[str, Mapping[str, Any]],
    running: Mapping[str, ServerInfo | None],
) -> ModelInfo:
    model, kind = model_info(name, entry), _own_facts(entry).get("type")
    if kind == _ELSEWHERE:
        return replace(model, runs_on=string(_own_facts(entry).get("peerID")) or _ELSEWHERE)
    if kind in _NO_SERVER:
        return model
    real_name = _real_name(name, entry)
    process, facts = processes.get(real_name), running.get(real_name)
    if process is None:
        return replace(model, is_loaded=False)
    model = replace(model, is_loaded=process.get("state") == _READY)
    words: Sequence[str] = split_command(string(process.get("cmd")) or "")
    engine = engines.get(facts.engine) if facts is not None else engine_of_command(words)
    return model if engine is None else with_backend(model, engine, facts, arguments_of(engine, words))
