"""A gateway: a server that starts the servers of other engines, and hands each request on to the one with its model.

The engine behind it answers, so that engine's requests, stream, figures and counters are those of the answer; the
gateway says which engine that is, and what it started it with. A configuration is one of the engine behind, reached
through the gateway.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from app import engines
from app.core.errors import ServerError
from app.core.samples import Trace
from app.core.server_metrics import ServerMetric
from app.engines.base import (
    API_PREFIX,
    STATED_ENGINE,
    CompletionRequest,
    Counters,
    Engine,
    ModelInfo,
    ServerInfo,
)
from app.engines.flags import ModelArguments, program_of
from app.engines.http import ServerClient
from app.engines.openai import CHAT, OpenAI
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine

# before their image or program, their own flags would be taken for those of the engine
_CONTAINER_TOOLS = frozenset({"docker", "podman", "nerdctl", "apptainer", "singularity"})


class Gateway(PrometheusEngine):
    metric_names: ClassVar[MetricNames] = MetricNames()

    def behind(self, client: ServerClient) -> ServerClient | None:
        """A view of the server behind the gateway that has the client's model.

        None where the gateway lets no questions through, or where one would make it load the model.
        """
        return None

    def answering(self, client: ServerClient) -> Engine:
        return self._backend(client) or self

    def _backend(self, client: ServerClient) -> Engine | None:
        engine = engines.get(client.backend) if client.backend else None
        return engine if engine is not None and can_stand_behind(engine) else None

    def stream_completion(self, client: ServerClient, request: CompletionRequest) -> Trace:
        backend = self._backend(client)
        if backend is None:
            return super().stream_completion(client, request)
        return backend.stream_completion(self.behind(client) or client, request)

    def prompt_tokens(self, client: ServerClient, request: CompletionRequest) -> int | None:
        backend, view = self._backend(client), self.behind(client)
        return None if backend is None or view is None else backend.prompt_tokens(view, request)

    def load(self, client: ServerClient) -> Mapping[str, float]:
        backend, view = self._backend(client), self.behind(client)
        return {} if backend is None or view is None else backend.load(view)

    def counters(self, client: ServerClient) -> Counters | None:
        backend, view = self._backend(client), self.behind(client)
        if backend is None or view is None:
            return super().counters(client) if self.metric_names.counters else None
        counters = backend.counters(view)
        return None if counters is None else replace(counters, counted_by=backend.key)

    def server_metrics(
        self, before: Counters, after: Counters, model: str | None, requests: int
    ) -> Sequence[ServerMetric]:
        if before.counted_by != after.counted_by:  # the model was loaded in between
            return ()
        counter = engines.get(after.counted_by) if after.counted_by else None
        if counter is None:
            return super().server_metrics(before, after, model, requests)
        return counter.server_metrics(before, after, model, requests)


def can_stand_behind(engine: Engine) -> bool:
    """Whether requests in the engine's own form pass through a gateway that has OpenAI's API."""
    is_specific = type(engine) is not OpenAI and not isinstance(engine, Gateway)
    return is_specific and isinstance(engine, OpenAI) and engine.chat_path == CHAT


def engine_of_command(words: Sequence[str]) -> Engine | None:
    """The engine whose program a command line starts, by the longest of the names in it; None where it has none."""
    lengths = {
        engine: max((len(name) for name in engine.programs if program_of(words, [name]) is not None), default=0)
        for engine in engines.all()
        if can_stand_behind(engine)
    }
    longest = max(lengths.values(), default=0)
    named = [engine for engine, length in lengths.items() if length == longest > 0]
    return named[0] if len(named) == 1 else None


def arguments_of(engine: Engine, words: Sequence[str]) -> ModelArguments | None:
    """The settings in the engine's own part of a command line; None where the line does not show where that begins."""
    own = own_arguments(engine, words)
    return None if own is None else engine.read_arguments(own)


def own_arguments(engine: Engine, words: Sequence[str]) -> Sequence[str] | None:
    """The engine's own part of a command line, after its program; None where the line does not name that.

    The program of a fork may have the name of the engine that it was made from.
    """
    is_container = bool(words) and words[0].rpartition("/")[2] in _CONTAINER_TOOLS
    models = [other for other in engines.all() if isinstance(engine, type(other)) and other is not engine]
    programs = [*engine.programs, *(name for other in models for name in other.programs)]
    place = program_of(words, programs, is_last=is_container)
    return None if place is None else words[place + 1 :]


def described_behind(view: ServerClient) -> ServerInfo | None:
    """What the server behind a gateway says of itself; None where it is of no engine that Roofmark has."""
    candidates = [engine.key for engine in engines.all() if can_stand_behind(engine)]
    try:
        facts = engines.probe(view)
    except ServerError:  # it may have been stopped in between
        return None
    return facts if facts.engine in candidates and not facts.loading else None


def with_backend(
    model: ModelInfo, engine: Engine, facts: ServerInfo | None = None, line: ModelArguments | None = None
) -> ModelInfo:
    """The gateway's model with what the engine that runs it says, and else the command line that started it."""
    own = None if facts is None else facts.model(None)
    line = line or ModelArguments({})
    reported: dict[str, Any] = {**line.settings, **({} if facts is None else facts.settings)}
    context = (facts and facts.context_tokens) or (own and own.context_tokens) or line.context_tokens
    model = replace(
        model,
        engine=engine.key,
        engine_version=facts.engine_version if facts else None,
        quantization=(own and own.quantization) or model.quantization or line.quantization,
        context_tokens=context or model.context_tokens,
        file_path=(own and own.file_path) or line.file_path or model.file_path,
    )
    if own is not None:
        reported |= own.settings
        model = replace(
            model,
            max_context_tokens=own.max_context_tokens or model.max_context_tokens,
            size_bytes=own.size_bytes or model.size_bytes,
            parameters=own.parameters or model.parameters,
            digest=own.digest or model.digest,
        )
    reported.pop("context", None)
    return replace(model, settings={**model.settings, **dict(sorted(reported.items()))})


def learned_behind(facts: Iterable[ServerInfo | None]) -> dict[str, Any]:
    """What the servers behind a gateway are known to accept."""
    learned: dict[str, Any] = {}
    for info in facts:
        learned |= {} if info is None else info.capabilities
    return {key: value for key, value in learned.items() if key not in (API_PREFIX, STATED_ENGINE)}
