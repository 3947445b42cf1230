"""The `Engine` interface, and the frozen values that engines take and return.

An engine is one module of this package with a subclass of `Engine` and an instance of it in the module-level name
`ENGINE`; `app.engines` finds it by that. Everything particular to the engine is an attribute or a method of its class.
Engines never touch the database: they exchange the values below and those of `app.core.samples`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar, Literal

from app.core.samples import ServerFigures, Trace
from app.core.server_metrics import ServerMetric
from app.engines.flags import FlagTable, ModelArguments, model_arguments
from app.engines.http import ServerClient
from app.engines.protocol.models import file_stem

API_PREFIX = "api_prefix"
"""The capability that says where OpenAI's API is, where that is not `/v1`."""
STATED_ENGINE = "stated_engine"
"""The capability of a server whose engine a person named, since none of its answers identifies it."""
LOAD_GAUGES = {"requests_running": "", "requests_waiting": "", "kv_cache_use": "share"}
"""What `Engine.load` may return, with the unit of each."""

FROM_LOG = "from_log"
"""Key in `ServerFigures.raw`: the figures of this request that come from the server's log, not from the answer."""
DIFFERING = "differing"
"""Key in `ServerFigures.raw`: the figures that the server's answer, its record and its log state differently."""
LOG_OVERLAP = "log_overlap"
"""Key in `ServerFigures.raw`: the log shows another request at work at the same time."""


@dataclass(frozen=True)
class ModelInfo:
    """One model a server offers, as far as the server describes it."""

    id: str
    """The name to send in a request."""
    name: str
    """The name to show: no folders, no `.gguf`."""
    quantization: str | None = None
    context_tokens: int | None = None
    """What one request may use now."""
    max_context_tokens: int | None = None
    """What the model was made for."""
    size_bytes: int | None = None
    parameters: int | None = None
    file_path: str | None = None
    digest: str | None = None
    """Digest of the weights, where the server has one: a tag may be moved to other weights."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this model only, with the keys of `ServerInfo.settings`."""
    is_loaded: bool | None = None
    """None where the server does not report it, or has one model only."""
    runs_on: str | None = None
    """The host of another operator that this server forwards requests for this model to."""
    notes: tuple[str, ...] = ()
    """Sentences about this model for the person who asked; a run shows those of its own model only."""
    engine: str | None = None
    """Key of the engine that runs the model, where the server is a gateway in front of it; None where unknown."""
    engine_version: str | None = None
    """Version of that engine."""


@dataclass(frozen=True)
class ServerInfo:
    """The result of a probe."""

    engine: str
    engine_version: str | None
    models: tuple[ModelInfo, ...]
    context_tokens: int | None = None
    """What one request may use (per slot)."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Configuration that the server reports, by the keys of `app.core.config_settings`: context, parallel, ..."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    loading: bool = False
    notes: tuple[str, ...] = ()
    """Sentences for the person who asked."""
    base_url: str | None = None
    """The server's address, where that is above the one that was probed: Ollama's documentation gives `/api`."""

    def model(self, name: str | None) -> ModelInfo | None:
        """The model with that id, else with that file name or shown name; for None the first that runs on the server.

        None where there is no such model.
        """
        if name is None:
            return next((model for model in self.models if model.runs_on is None), None)
        exact = (model for model in self.models if model.id == name)
        return next(exact, None) or next(iter(self.namesakes(name)), None)

    def namesakes(self, name: str) -> tuple[ModelInfo, ...]:
        """The models that a name which is no id may mean."""
        return tuple(model for model in self.models if name in (file_stem(model.id), model.name))


@dataclass(frozen=True)
class CompletionRequest:
    """One request to measure."""

    prompt: str
    output_tokens: int
    model: str | None
    """Model id to send; None where the server lists none."""
    nonce: str | None = None
    """A text of constant length for the start of the prompt, used where the server has no cache switch."""
    own_system: str | None = ""
    """The system prompt that the server puts before a request without one of its own (`Engine.own_system`)."""
    reuse_cache: bool = False
    context_tokens: int | None = None
    """How much context to reserve, for engines with `Engine.context_per_request`."""
    expected_prompt_tokens: int | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """What earlier requests and probes taught (`Server.capabilities`)."""


@dataclass(frozen=True)
class Health:
    """State of a server right now. Asking for it also keeps the connection warm."""

    ready: bool
    detail: str
    """One sentence, shown while waiting."""
    busy: bool | None = None
    """Whether the server works on other requests; None where the engine does not report it."""


@dataclass(frozen=True)
class Counters:
    """A server's running totals at one moment; None where it does not count that."""

    prompt_tokens: float | None = None
    """Fresh ones: those that were processed, without cached ones."""
    cached_prompt_tokens: float | None = None
    output_tokens: float | None = None
    requests: float | None = None
    """Finished ones."""
    since: float | None = None
    """When the server began to count, by its own clock; None where it does not report it."""
    totals: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)
    """Every other total that only grows."""
    raw: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)
    """Everything the server reported, for `Engine.server_metrics`."""
    counted_by: str | None = None
    """Key of the engine behind a gateway that counted; None where it was the server itself."""

    def was_reset(self, before: "Counters") -> bool:
        """Whether the server restarted since `before`, so that nothing is known of the time in between."""
        if None not in (self.since, before.since) and self.since != before.since:
            return True
        return any(self.totals.get(name, 0.0) < value for name, value in before.totals.items())


@dataclass(frozen=True)
class LoggedRequest:
    """One finished request as the server's log reports it."""

    figures: ServerFigures
    prompt_tokens: int | None = None
    """All of them, where the log has that; `figures` has those that were processed."""
    cached_tokens: int | None = None
    counts_beyond_end: bool = False
    """Its output tokens may be more than the answer has: those that a last step made beyond the end, too."""
    overlaps: bool = False
    """Another request was at work at the same time: each of their times includes work on the other, and where their
    lines are mixed without ids, what cannot be assigned is unknown."""


@dataclass(frozen=True)
class LoggedModelLoad:
    """Where a model was placed, as the server's log reports it while loading; None or empty where it does not."""

    model_path: str | None = None
    gpu_layers: int | None = None
    """Layers on GPUs, of `layers`: the model's blocks and its head."""
    layers: int | None = None
    gpu_weight_mib: Mapping[str, float] = field(default_factory=dict)
    """Weights on each GPU, by the name of its buffer."""
    expert_blocks_in_ram: frozenset[int] = frozenset()
    is_kv_in_ram: bool = False


class SplitHabit(Enum):
    """How an engine divides a model among several GPUs, unless it is configured otherwise."""

    LAYERS = auto()
    """Whole layers, in proportion to each GPU's memory."""
    LAYERS_IF_NEEDED = auto()
    """As LAYERS, but a model that fits one GPU stays on it."""
    TENSOR_PARALLEL = auto()
    """An equal shard of each layer on each GPU, whatever its memory."""


class Engine(ABC):
    key: ClassVar[str]
    """Stable name in the database, in JSON and for `--engine`."""
    title: ClassVar[str]
    owned_by: ClassVar[tuple[str, ...]] = ()
    """What its list of models says as `owned_by`: this and the next three name the engine (see `identity`)."""
    server_header: ClassVar[tuple[str, ...]] = ()
    """The product in its `Server` header, without a version; not the web server that many engines are built on."""
    response_headers: ClassVar[tuple[str, ...]] = ()
    """Names of headers that no other server sends with its list of models."""
    health_service: ClassVar[tuple[str, ...]] = ()
    """What its `/health` says as `service`."""
    build_name: ClassVar[str] = ""
    """What its version begins with where it answers as an engine that it imitates."""
    imitates: ClassVar[tuple[str, ...]] = ()
    """Keys of engines whose endpoints it has as well: where nothing names the engine, its own are looked for first."""
    has_costly_paths: ClassVar[bool] = False
    """Paths by which other engines are recognised make its server work, or hand out once what others want to read:
    where nothing names the engine, it is looked for before those are asked."""
    default_ports: ClassVar[tuple[int, ...]] = ()
    api_roots: ClassVar[tuple[str, ...]] = ()
    """Paths below the server's address that the engine's documentation calls the address of the API."""
    context_per_request: ClassVar[bool] = False
    """Each request may say how much context to reserve, and may load the model anew; elsewhere the context is fixed
    when the server starts."""
    batches: ClassVar[bool] = True
    """The engine may process several prompts at once: the prefill time of one request then includes other work."""
    decode_intervals: ClassVar[Literal["n", "n-1"]] = "n-1"
    """How many of the times between two tokens its own decode time covers, in answers and in logs: from the first of n
    tokens to the last, or the step that made the first one too."""
    slots_option: ClassVar[str] = ""
    """The engine's option for how many requests it works on at once, as text; empty where there is none."""
    prompt_options: ClassVar[str] = ""
    """The engine's options for how much prompt it processes in one step, as text; empty where there are none."""
    flags: ClassVar[FlagTable] = FlagTable()
    """Its command-line flags, as far as they decide a ceiling."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Names of its program, its Python module and its container image: a command line with one of them runs it."""
    environment: ClassVar[Mapping[str, str]] = {}
    """Environment variables that its server takes settings from, with the flag that each stands for: `--flag=` with its
    value, `--on/--off` for a switch, `--on` for one that can only be switched on; the command line outranks them."""
    config_flags: ClassVar[tuple[str, ...]] = ()
    """Flags that name a configuration file, whose keys are those of the command line."""
    config_file: ClassVar[str] = ""
    """The configuration file that its server reads by itself in its working folder; empty where there is none."""
    default_settings: ClassVar[Mapping[str, str | int]] = {}
    """What the usual settings are where no flag sets them, as far as that is a fact of its source."""
    split_habit: ClassVar[SplitHabit] = SplitHabit.LAYERS
    caches_experts: ClassVar[bool] = False
    """The engine keeps the most used routed experts on GPUs: how many fit says little about speed."""
    has_llama_bench: ClassVar[bool] = False
    """A run compares with llama-bench on the same build, so that its page explains how."""

    @property
    def has_log(self) -> bool:
        """Whether the engine reads its server's log."""
        return type(self).read_log is not Engine.read_log

    @property
    def has_defaults(self) -> bool:
        """Whether its flags are known well enough to say that one which is not given has its default."""
        return bool(self.flags.flags)

    def decode_span_ms(self, decode_ms: float | None, output_tokens: int | None) -> float | None:
        """The part of the engine's own decode time that lies between the first token and the last, for ServerFigures.

        None where there is none.
        """
        if self.decode_intervals == "n-1" or decode_ms is None:
            return decode_ms
        return decode_ms * (output_tokens - 1) / output_tokens if output_tokens and output_tokens > 1 else None

    def corrected(self, figures: ServerFigures) -> ServerFigures:
        """Figures as any earlier version of Roofmark stored them, with what it got wrong made anew from their `raw`."""
        return figures

    @abstractmethod
    def detect(self, client: ServerClient) -> ServerInfo | None:
        """A description of the server behind `client` if it is this engine, else None.

        Raises ServerError when it certainly is this engine, but cannot be used (needs a key, ...).
        """

    @abstractmethod
    def describe(self, client: ServerClient) -> ServerInfo:
        """A description of a server that a person says is this engine, whether or not it can be detected.

        Raises ServerError when the engine's API does not answer.
        """

    @abstractmethod
    def health(self, client: ServerClient) -> Health:
        """The server's state. Raises ServerError when the server does not answer at all."""

    @abstractmethod
    def stream_completion(self, client: ServerClient, request: CompletionRequest) -> Trace:
        """Sends one request and reads its stream to the end.

        Whatever the server does becomes a `Trace` with a status and one sentence in `error`; its `cache_defeat` is what
        was really sent, by switch, nonce, or neither. Raises ServerError only for what the next request would meet as
        well: needs a key, unknown model, prompt too long, forbidden address; and LOADING, after which `health` tells
        when to try again. Lets Cancelled pass, unless a part of the stream has come: then that is the trace, as of a
        lost connection.
        """

    def answering(self, client: ServerClient) -> "Engine":
        """The engine that answers the client's requests: a gateway has others behind it."""
        return self

    def read_arguments(self, arguments: Sequence[str]) -> ModelArguments:
        """What the command line of its server says, from the first flag on."""
        return model_arguments(arguments, self.flags)

    def prompt_tokens(self, client: ServerClient, request: CompletionRequest) -> int | None:
        """How many tokens the prompt of `request` has, by the server's own tokenizer; None where it offers none."""
        return None

    def model_document(self, client: ServerClient, model_id: str) -> Mapping[str, Any] | None:
        """The server's own document about a model's layers and weights; None where there is none.

        `app.ceiling.sources.from_document` must know the format: an answer of Ollama's /api/show, or a config.json.
        May raise ServerError.
        """
        return None

    def weights_path(self, document: Mapping[str, Any]) -> str | None:
        """The path of the model's file on the server, by the model's `document`; None where that has none."""
        return None

    def runs_on(self, document: Mapping[str, Any]) -> str | None:
        """The host of another operator that runs a model, by the model's `document`; None for the server itself."""
        return None

    def own_system(self, document: Mapping[str, Any]) -> str | None:
        """The system prompt that the server puts before each request for a model, by the model's `document`.

        A request repeats it behind its nonce, so that nothing of it is cached. None where the server puts a text first
        that no request can take the place of.
        """
        return ""

    def gives_context(self, document: Mapping[str, Any], tokens: int) -> bool:
        """Whether a request that asks for no context gets room for so many tokens, by the model's `document`; of an
        engine with `Engine.context_per_request`."""
        return False

    def loaded_model(self, client: ServerClient, model: ModelInfo) -> ModelInfo:
        """`model` with what the server reports of it now that it has answered; unchanged where it reports no more.

        May raise ServerError.
        """
        return model

    def read_log(self, text: str) -> Sequence[LoggedRequest]:
        """The requests in a piece of the server's log, oldest first."""
        return ()

    def read_loads(self, text: str) -> Sequence[LoggedModelLoad]:
        """The models that were loaded in a piece of the server's log, oldest first."""
        return ()

    def counters(self, client: ServerClient) -> Counters | None:
        """The server's totals, read before and after a run and around each round; None where it counts nothing."""
        return None

    def server_metrics(
        self, before: Counters, after: Counters, model: str | None, requests: int
    ) -> Sequence[ServerMetric]:
        """What the server measured between two readings, for `model` where it separates models.

        `requests`: how many answers came in between. The server was not reset in between (`Counters.was_reset`).
        """
        return ()

    def load(self, client: ServerClient) -> Mapping[str, float]:
        """How busy the server is at this moment, by the keys of LOAD_GAUGES; empty where it does not report it.

        Called again and again while requests are timed: it must cost the server next to nothing, and must not change
        what others read from its metrics. Raises ServerError when the server does not answer.
        """
        return {}
