"""A config.json. Every value is checked, and the keys that were used are recorded; and the families that Roofmark
understands, with the defaults of their classes for keys that a file leaves out."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.ceiling.geometry import MAX_BLOCKS
from app.ceiling.structural_keys import unused
from app.core.errors import BadInput
from app.core.i18n import _

NESTED = ("text_config", "thinker_config", "llm_config", "language_config", "lm_config")
"""Where the language part of a larger model is."""
HIDDEN = (
    "hidden_size", "n_embd", "d_model", "model_dim", "dim", "block_dim", "conv_dim", "conv_dim_out",
    "word_embed_proj_dim",
)  # fmt: skip
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads")
BLOCKS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "num_transformer_layers")
VOCABULARY = ("vocab_size", "padded_vocab_size", "n_vocab")
EXPERTS = (
    "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts", "n_experts",
    "ffn_config.moe_num_experts", "num_moe_experts", "moe_num_primary_experts",
)  # fmt: skip
EXPERTS_USED = (
    "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "experts_per_token", "moe_topk", "moe_top_k",
    "moe_k", "num_selected_experts", "n_activated_experts", "num_activated_experts", "router_top_k", "moe_router_topk",
    "experts_per_tok", "ffn_config.moe_top_k", "num_experts_per_topk", "expert_top_k", "num_active_experts",
    "moe_num_active_primary_experts",
)  # fmt: skip
LONGEST_TYPE = 100
LAYER_KINDS = ("layers_block_type", "layer_types", "block_types", "layer_kinds", "attention_types")
WINDOW = ("sliding_window", "sliding_window_size", "attention_window_size", "local_attention_window", "window_size")
CHUNK = ("attention_chunk_size",)


class Missing(Exception):
    """The config lacks something that is needed; the message is the key."""


class HfConfig:
    """The keys of a config.json; an inner object's keys have their path: `linear_attn_config.head_dim`.

    A list gives each layer its own value: `at` selects one layer.
    """

    def __init__(self, values: Mapping[str, Any], index: int | None = None, used: set[str] | None = None) -> None:
        self.values = values
        self.model_type = str(values.get("model_type") or "")[:LONGEST_TYPE]
        self.used: set[str] = set() if used is None else used
        self._index = index

    def at(self, index: int) -> "HfConfig":
        """Returns the same config at one layer."""
        return HfConfig(self.values, index, self.used)

    def is_of(self, *families: str) -> bool:
        """Whether `model_type` begins with the name of one of the families."""
        return self.model_type.startswith(families)

    def value(self, name: str) -> Any:
        """Returns a value as written; the key counts as used."""
        value = self._peek(name)
        if value is not None:
            self.used.add(name)
        return value

    def _peek(self, name: str) -> Any:
        place: Any = self.values
        for key in name.split("."):
            place = place.get(key) if isinstance(place, Mapping) else None
        return place

    def entry(self, values: list[Any]) -> Any:
        """Returns a list's value for this layer; None when it has none."""
        return values[self._index] if self._index is not None and self._index < len(values) else None

    def understand(self, *names: str) -> None:
        """Marks keys as understood, although this model needs none of them."""
        self.used.update(names)

    def count(self, *names: str, default: int | None = None) -> int:
        """Returns the count under the first of these keys that exists; the others count as used when they agree.

        Raises Missing, BadInput.
        """
        for position, name in enumerate(names):
            value = self.value(name)
            if value is None:
                continue
            self.used.update(alias for alias in names[position + 1 :] if self._peek(alias) == value)
            return self._checked(name, value)
        if default is None:
            raise Missing(names[0])
        return default

    def _checked(self, name: str, value: Any) -> int:
        if isinstance(value, list) and value:
            self._bounded(name, value)
            if self._index is None:
                return max(
                    (self._checked(name, entry) for entry in set(map(_hashable, value)) if entry is not None), default=0
                )
            if self._index >= len(value):
                raise BadInput(
                    _("{name} has {count:,} entries, fewer than there are layers.", name=name, count=len(value))
                )
            value = 0 if value[self._index] is None else value[self._index]
            if isinstance(value, list):
                value = str(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
            raise BadInput(_("{name} is {value!r}, which is not a count.", name=name, value=str(value)[:60]))
        return value

    def list_of(self, *names: str) -> list[Any] | None:
        """Returns the first of these keys' values that is a list with entries."""
        for name in names:
            if isinstance(value := self._peek(name), list) and value:
                self.used.add(name)
                return self._bounded(name, value)
        return None

    def _bounded(self, name: str, value: list[Any]) -> list[Any]:
        if len(value) > MAX_BLOCKS:
            raise BadInput(
                _("{name} has {count:,} entries, more than any model has layers.", name=name, count=len(value))
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Returns a truth value, or `default` where the key is missing."""
        value = self.value(name)
        return default if value is None else bool(value)

    def not_understood(self) -> list[str]:
        """Names keys that shape bytes and were not used."""
        return list(dict.fromkeys(unused(self.values, self.used)))

    @property
    def hidden(self) -> int:
        """Width of the hidden state."""
        return self.count(*HIDDEN)

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.count(*HEADS)

    @property
    def blocks(self) -> int:
        """Number of layers. Raises Missing, BadInput."""
        kinds: str | list[Any] | None = self.list_of(*LAYER_KINDS)
        if kinds is None and isinstance(letters := self.value("hybrid_override_pattern"), str):
            kinds = letters.replace("|", "")
        named = len(kinds) if kinds else None
        blocks = self.count(*BLOCKS, default=named)
        if not 0 < blocks <= MAX_BLOCKS:
            raise BadInput(_("A language model cannot have {blocks:,} layers.", blocks=blocks))
        return blocks

    @property
    def experts(self) -> int:
        """Routed experts of a layer; 0 where there are none."""
        return self.count(*EXPERTS, default=0)

    @property
    def experts_used(self) -> int:
        """Routed experts that a token uses; 0 where that is not named."""
        return self.count(*EXPERTS_USED, default=0)

    @property
    def window(self) -> int:
        """Tokens that a sliding layer sees; 0 where nothing slides."""
        return self.count(*WINDOW, default=0)


def _hashable(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else str(value)


def language_part(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part about the language model, with what only the outer part states about it."""
    inner = dict(document)
    while nested := next((inner[key] for key in NESTED if isinstance(inner.get(key), dict)), None):
        outer = inner
        inner = dict(nested)
        for key in ("tie_word_embeddings", "torch_dtype", "dtype"):
            if outer.get(key) is not None:
                inner.setdefault(key, outer[key])
    return inner


def outer_keys(document: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a larger model has outside of its language part, without repetitions."""
    return {key: value for key, value in document.items() if key not in NESTED and inner.get(key) != value}


def integers(values: Sequence[Any]) -> list[int]:
    """Keeps the whole numbers of a list."""
    return [value for value in values if isinstance(value, int) and not isinstance(value, bool)]


# --- families --------------------------------------------------------------------------------------------------------

_MODEL_TYPES = """
    afmoe apertus arcee arctic baichuan bailing_moe bailing_moe_linear bailing_moe_v2 bamba bloom chatglm cohere
    cohere2 dbrx deepseek deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 dots1 ernie4_5 ernie4_5_moe exaone
    exaone4 exaone_moe falcon falcon_h1 falcon_mamba flex_olmo gemma gemma2 gemma3 gemma3_text gemma3n
    gemma3n_text gemma4 gemma4_text glm glm4 glm4_moe glm4_moe_lite glm4v_moe_text glm4v_text glm_moe_dsa gpt2
    gpt_bigcode gpt_neox gptj gpt_oss granite granitemoe granitemoehybrid granitemoeshared grok grok-1 helium
    hunyuan hunyuan_v1_dense hunyuan_v1_moe internlm internlm2 internlm3 jamba kimi_k2 kimi_k25 kimi_k3
    kimi_linear lfm2 lfm2_moe llama llama4 llama4_text longcat_flash mamba mamba2 mimo mimo_v2_flash minicpm
    minicpm3 minimax minimax_m1 minimax_m2 minimax_text_01 ministral ministral3 mistral mistral3 mixtral
    mllama_text_model mpt nemotron nemotron_h olmo olmo2 olmo3 olmoe opt orion phi phi3 phi4 phimoe qwen2
    qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_5 qwen3_5_moe
    qwen3_5_moe_text qwen3_5_text qwen3_6 qwen3_6_moe qwen3_moe qwen3_next qwen3_omni_moe_text qwen3_vl_moe_text
    qwen3_vl_text recurrent_gemma rwkv6 rwkv7 seed_oss smallthinker smollm3 solar stablelm starcoder2 step3_text
    step3p5 step3p7 yi
"""
KNOWN_MODEL_TYPES = frozenset(_MODEL_TYPES.split())

_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262_208,
        "sliding_window": 4096,
    },
    "gemma2": {"head_dim": 256},
    "gemma": {"head_dim": 256},
    "phimoe": {"num_local_experts": 16, "num_experts_per_tok": 2},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
}
"""The defaults of a family's class for keys that its files may leave out."""


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the defaults of the family's class for keys that the file leaves out."""
    defaults = _DEFAULTS.get(str(values.get("model_type") or ""), {})
    return {**values, **{key: value for key, value in defaults.items() if values.get(key) is None}}
