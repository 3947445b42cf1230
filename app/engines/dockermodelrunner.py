"""Docker Model Runner, a gateway that starts a server of llama.cpp, vLLM, SGLang or MLX for each model asked for.

Read in its source at 642c7211 (v1.2.6 and 18 commits): `owned_by` of every model is `docker`; `/engines/ps` has the
engine of each running model and whether it is at work, `/models` the format by which the engine of any other is chosen
(GGUF: llama.cpp), `/engines/_configure` the options that a model was given. `/metrics` has the metrics of all engines
that run, as they are. It has Ollama's endpoints besides, and `/version` like vLLM. Requests go through unchanged;
nothing else of an engine's server can be reached. Its MLX server is `mlx_lm.server`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app import engines
from app.core.i18n import _
from app.engines.base import Engine, Health, ModelInfo, ServerInfo
from app.engines.flags import ModelArguments
from app.engines.http import Answer, ServerClient
from app.engines.openai import list_models, model_info
from app.engines.protocol.answers import busy_health, count, health_of, mapping, object_at, string
from app.engines.protocol.gateway import Gateway, with_backend

_RUNNING = "/engines/ps"
_CONFIGURED = "/engines/_configure"
_BACKENDS = {"llama.cpp": "llama.cpp", "vllm": "vllm", "sglang": "sglang", "mlx": "mlx-lm"}
"""Its names of engines, with ours."""


class DockerModelRunner(Gateway):
    key = "docker-model-runner"
    title = "Docker Model Runner"
    default_ports = (12434,)
    owned_by = ("docker",)
    imitates = ("ollama", "vllm")
    health_path = _RUNNING
    api_roots = ("/engines", "/engines/llama.cpp")

    def detect(self, client: ServerClient) -> ServerInfo | None:
        if "llama.cpp" not in object_at(client, "/engines/status"):
            return None
        return self.describe(client)

    def describe(self, client: ServerClient) -> ServerInfo:
        running = {_plain_name(run.get("model_name")): run for run in _chat_entries(client.get(_RUNNING))}
        stored = _stored_models(client)
        configs = {_plain_name(config.get("Model")): config for config in _listed(client.get(_CONFIGURED))}
        models = []
        for name, entry in list_models(client).items():
            plain_name = _plain_name(name)
            models.append(
                _model(name, entry, running.get(plain_name), stored.get(plain_name, {}), configs.get(plain_name, {}))
            )
        models.sort(key=lambda model: not model.is_loaded)
        return ServerInfo(
            engine=self.key,
            engine_version=string(object_at(client, "/version").get("version")),
            models=tuple(models),
            notes=() if models else (_("The server offers no model: load one first."),),
        )

    def behind(self, client: ServerClient) -> ServerClient | None:
        """The gateway itself: its `/metrics` are those of the engines."""
        return client if client.backend is not None else None

    def health(self, client: ServerClient) -> Health:
        answer = client.get(_RUNNING)
        health = health_of(answer)
        if not health.ready:
            return health
        runs = _chat_entries(answer)
        if any(run.get("loading") is True for run in runs):
            return Health(ready=False, detail=_("The gateway is starting the model's server."))
        return busy_health([float(sum(run.get("in_use") is True for run in runs))])


ENGINE = DockerModelRunner()


def _listed(answer: Answer) -> list[Mapping[str, Any]]:
    try:
        entries = answer.cleaner.load_json(answer.body) if answer.status < 300 else []
    except ValueError:  # no JSON: nothing is known
        return []
    return [mapping(entry) for entry in entries] if isinstance(entries, list) else []


def _chat_entries(answer: Answer) -> list[Mapping[str, Any]]:
    return [entry for entry in _listed(answer) if entry.get("mode") in (None, "completion")]


def _stored_models(client: ServerClient) -> dict[str, Mapping[str, Any]]:
    """Its own list of models, by each of their names."""
    named: dict[str, Mapping[str, Any]] = {}
    for entry in _listed(client.get("/models")):
        tags = entry.get("tags")
        named |= {_plain_name(tag): entry for tag in tags} if isinstance(tags, list) else {}
    return named


def _plain_name(name: object) -> str:
    """A model's name without what Docker adds where it is missing: registry, organisation, tag.

    >>> _plain_name("docker.io/ai/smollm2:latest"), _plain_name("smollm2"), _plain_name("me/smollm2:360M")
    ('smollm2', 'smollm2', 'me/smollm2:360M')
    """
    text = name if isinstance(name, str) else ""
    return text.removeprefix("docker.io/").removeprefix("ai/").removesuffix(":latest")


def _model(
    name: str,
    entry: Mapping[str, Any],
    run: Mapping[str, Any] | None,
    stored: Mapping[str, Any],
    config: Mapping[str, Any],
) -> ModelInfo:
    facts, stored_facts = mapping(entry.get("dmr")), mapping(stored.get("config"))
    model = model_info(name, entry)
    model = replace(
        model,
        quantization=_quantization(facts.get("quantization") or stored_facts.get("quantization")) or model.quantization,
        context_tokens=count(facts.get("context_window")) or model.context_tokens,
        digest=string(stored.get("id")),
        is_loaded=run is not None and run.get("loading") is not True,
    )
    backend = string(run.get("backend_name")) if run else "llama.cpp" if stored_facts.get("format") == "gguf" else None
    engine = engines.get(_BACKENDS.get(backend or "", ""))
    return model if engine is None else with_backend(model, engine, line=_line(engine, mapping(config.get("Config"))))


def _line(engine: Engine, config: Mapping[str, Any]) -> ModelArguments:
    """The options that a person gave the model, as the engine's flags."""
    return engine.read_arguments([*_flags(engine, config)])


def _flags(engine: Engine, config: Mapping[str, Any]) -> Iterator[str]:
    if (context := count(config.get("context-size"))) and engine.key == "llama.cpp":
        yield from ("--ctx-size", str(context))
    elif context and engine.key == "vllm":
        yield from ("--max-model-len", str(context))
    flags = config.get("runtime-flags")
    yield from (flag for flag in flags if isinstance(flag, str)) if isinstance(flags, Sequence) else ()


def _quantization(value: object) -> str | None:
    """`MOSTLY_Q4_K_M`, or `IQ2_XXS/Q4_K_M`, of which the last is the file's."""
    text = string(value)
    return None if text is None else text.removeprefix("MOSTLY_").rpartition("/")[2] or None
