"""What an engine is: how to recognise it, ask it, and read its answer.

One engine is one module of this package with a subclass of `Engine` in a module-level name `ENGINE`; `app.engines`
finds it. Engines never touch the database: they take and give the frozen values below and those of `app.core.samples`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from app.core.samples import ServerFigures, Trace
from app.core.server_metrics import ServerMetric
from app.engines.http import ServerClient
from app.engines.protocol.models import file_stem


@dataclass(frozen=True)
class ModelInfo:
    """One model a server offers, as far as it tells."""

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
    """Of the weights, where the server knows one: a tag may be given to other weights."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """As `ServerInfo.settings`, where a server has them for each of its models."""
    is_loaded: bool | None = None
    """None where the server does not tell, or has one model only."""
    runs_on: str | None = None
    """The host of another operator that this server hands requests for this model on to."""


@dataclass(frozen=True)
class ServerInfo:
    """What a probe found."""

    engine: str
    engine_version: str | None
    models: tuple[ModelInfo, ...]
    context_tokens: int | None = None
    """Usable by one request (per slot)."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Configuration the server tells by itself, by the keys of `app.core.config_settings`: context, parallel, ..."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    loading: bool = False
    notes: tuple[str, ...] = ()
    """Sentences worth showing to the person."""
    base_url: str | None = None
    """The server's address, where it is above the one that was asked: `/api` is in Ollama's documentation."""

    def model(self, wanted: str | None) -> ModelInfo | None:
        """The model with that id, else with that file name or shown name.

        Without a wish the first one that the server runs itself.
        """
        if wanted is None:
            return next((model for model in self.models if model.runs_on is None), None)
        exact = (model for model in self.models if model.id == wanted)
        return next(exact, None) or next(iter(self.namesakes(wanted)), None)

    def namesakes(self, name: str) -> tuple[ModelInfo, ...]:
        """The models that a name which is no id may mean."""
        return tuple(model for model in self.models if name in (file_stem(model.id), model.name))


@dataclass(frozen=True)
class CompletionRequest:
    """One request to measure."""

    prompt: str
    output_tokens: int
    model: str | None
    """Model id to send; None when the server told none."""
    nonce: str | None = None
    """A text of constant length for the start of the prompt, used where the server has no cache switch."""
    reuse_cache: bool = False
    context_tokens: int | None = None
    """For engines whose requests say how much context to reserve (`Engine.sets_context`)."""
    expected_prompt_tokens: int | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """What earlier requests and probes taught (`Server.capabilities`)."""


@dataclass(frozen=True)
class Health:
    """State of a server right now. Asking also keeps the connection warm."""

    ready: bool
    detail: str
    """One sentence, shown while waiting."""
    busy: bool | None = None
    """Whether other requests are being worked on; None where the engine does not tell."""


@dataclass(frozen=True)
class Counters:
    """A server's running totals at one moment; None where it does not count that."""

    prompt_tokens: float | None = None
    """Fresh ones: really processed."""
    cached_prompt_tokens: float | None = None
    output_tokens: float | None = None
    requests: float | None = None
    """Finished ones."""
    since: float | None = None
    """When the server began to count, by its own clock; None where it does not tell."""
    totals: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)
    """Whatever else it counts that never falls."""
    raw: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)
    """All that the server told, for `Engine.counted`."""

    def began_anew(self, before: "Counters") -> bool:
        """Whether the server was restarted since `before`, so that nothing is known of the time in between."""
        if None not in (self.since, before.since) and self.since != before.since:
            return True
        return any(self.totals.get(name, 0.0) < value for name, value in before.totals.items())


API_PREFIX = "api_prefix"
"""The capability that says where OpenAI's API is, where that is not `/v1`."""
STATED_ENGINE = "stated_engine"
"""The capability of a server whose engine a person has named, since nothing that it answers tells of it."""
LOADS = {"requests_running": "", "requests_waiting": "", "kv_cache_use": "share"}
"""What `Engine.load` may tell, with its unit."""

FROM_LOG = "from_log"
"""In `ServerFigures.raw` of a request that the server's log tells of: which figures it told, and not the answer."""
LOG_OVERLAP = "log_overlap"
"""There too: the log shows another request at work at the same time."""


@dataclass(frozen=True)
class Logged:
    """One finished request as the server's log tells it."""

    figures: ServerFigures
    prompt_tokens: int | None = None
    """All of them, where the log says so; those really processed stand in `figures`."""
    cached_tokens: int | None = None
    overlaps: bool = False
    """Another request was at work at the same time: their times hold one another's, and where the lines of both are
    mixed without ids, what cannot be told apart is unknown."""


@dataclass(frozen=True)
class Loaded:
    """Where a model lies, as a server's log says while it loads it; what the log does not say is None or empty."""

    model_path: str | None = None
    gpu_layers: int | None = None
    """On cards, of `layers`: the model's blocks and its head."""
    layers: int | None = None
    gpu_weight_mib: Mapping[str, float] = field(default_factory=dict)
    """Of weights, by the name of a card's buffer."""
    expert_blocks_in_ram: frozenset[int] = frozenset()
    is_kv_in_ram: bool = False


class Engine(ABC):
    key: ClassVar[str]
    """Stable name in the database, JSON and `--engine`."""
    title: ClassVar[str]
    default_ports: ClassVar[tuple[int, ...]] = ()
    api_roots: ClassVar[tuple[str, ...]] = ()
    """Paths that its documentation gives as the address of its API, below its own address."""
    sets_context: ClassVar[bool] = False
    """Each request says how much context to reserve; elsewhere it is fixed when the server starts."""
    has_log: ClassVar[bool] = False
    """`read_log` knows its format."""
    batches: ClassVar[bool] = True
    """It may process several prompts at once: then the prefill time of one request holds work on others, too."""
    slots_option: ClassVar[str] = ""
    """Its own name of how many requests it works on at once, as text for a person; empty where that cannot be set."""
    prompt_options: ClassVar[str] = ""
    """Its own names of how much of the prompts it processes in one step; empty where that cannot be set."""
    divides_layers: ClassVar[bool] = False
    """Several cards hold a part of each layer (tensor parallel) unless told otherwise; elsewhere whole layers."""
    shards_equally: ClassVar[bool] = False
    """Several cards hold equal shares, whatever their memory; elsewhere by the size of their memory."""
    prefers_one_card: ClassVar[bool] = False
    """A model that fits one card is not spread over several."""
    caches_experts: ClassVar[bool] = False
    """The routed experts that are used most are on cards, whichever those are: how many fit tells little."""
    rank: ClassVar[int] = 0
    """Engines are tried from the highest rank down; the generic one comes last."""

    @abstractmethod
    def recognise(self, client: ServerClient) -> ServerInfo | None:
        """Facts when the server behind `client` is this engine, else None.

        Raises ServerError when it surely is, but cannot be used (needs a key, ...).
        """

    @abstractmethod
    def describe(self, client: ServerClient) -> ServerInfo:
        """Facts of a server of which a person says that it is this engine, whatever else tells of it.

        Raises ServerError when the engine's API does not answer.
        """

    @abstractmethod
    def health(self, client: ServerClient) -> Health:
        """Raises ServerError when the server does not answer at all."""

    @abstractmethod
    def play(self, client: ServerClient, ask: CompletionRequest) -> Trace:
        """Sends one request and reads its stream to the end.

        Whatever the server does becomes a `Trace` with a status and one sentence in `error`; its `cache_defeat` is what
        was really sent, by switch, nonce, or neither. Raises ServerError
        only with the troubles that the next request would meet as well: needs a key, unknown model, prompt too long,
        forbidden address; and LOADING, after which `health` tells when to try again. Lets Cancelled pass, unless a part
        of the stream has come: then that is the trace, as of a lost connection.
        """

    def prompt_tokens(self, client: ServerClient, ask: CompletionRequest) -> int | None:
        """Tokens that the prompt of `ask` will have, by the server's own tokenizer; None where it has none."""
        return None

    def model_document(self, client: ServerClient, model_id: str) -> Mapping[str, Any] | None:
        """What the server says of a model's layers and weights, as it says it; None where it does not.

        `app.ceiling.sources.from_document` must know the document: an answer of Ollama's /api/show, or a config.json.
        May raise ServerError.
        """
        return None

    def runs_on(self, document: Mapping[str, Any]) -> str | None:  # most servers work themselves
        """The host of another operator that works on a model, by the server's own `document` about it."""
        return None

    def read_log(self, text: str) -> Sequence[Logged]:
        """The requests in a piece of the server's log, oldest first; none where its format is not known."""
        return ()

    def read_loads(self, text: str) -> Sequence[Loaded]:
        """The models that were loaded in a piece of the server's log, oldest first."""
        return ()

    def counters(self, client: ServerClient) -> Counters | None:
        """To be compared before and after a run, and around each round; None where the server counts nothing."""
        return None

    def counted(
        self,
        before: Counters,
        after: Counters,
        model: str | None,
        requests: int,
    ) -> Sequence[ServerMetric]:
        """What the server counted between two readings, for `model` where it keeps them apart.

        `requests`: how many answers came in between. `after` did not begin anew (`Counters.began_anew`).
        """
        return ()

    def load(self, client: ServerClient) -> Mapping[str, float]:
        """How busy the server is at this moment, by the names of LOADS; nothing where it does not tell.

        Asked again and again while requests are timed: it must cost the server next to nothing, and disturb nobody
        else who reads its metrics. Raises ServerError when the server does not answer.
        """
        return {}
