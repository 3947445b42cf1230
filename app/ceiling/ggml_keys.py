"""The key-values of a GGUF file. Every value is checked, and the keys that were used are recorded."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.ceiling.geometry import MAX_BLOCKS, printable
from app.ceiling.structural_keys import shapes_bytes
from app.core.errors import BadInput
from app.core.i18n import _

_ARCHITECTURES = """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bitnet bloom chameleon chatglm codeshell
    cogvlm cohere2 command-r dbrx deci deepseek deepseek2 deepseek2-ocr deepseek32 dots1 ernie4_5 ernie4_5-moe
    exaone exaone-moe exaone4 falcon falcon-h1 gemma gemma-embedding gemma2 gemma3 gemma3n gemma4 glm-dsa glm4
    glm4moe gpt-oss gptoss gpt2 gptj gptneox granite granitehybrid granitemoe grok grovemoe hunyuan-dense
    hunyuan-moe hunyuan_vl internlm2 jais jais2 jamba kimi-linear lfm2 lfm2moe llama llama4 maincoder mamba
    mamba2 mimo2 minicpm minicpm3 minimax-m2 mistral3 mistral4 mllama mpt nemotron nemotron_h nemotron_h_moe
    olmo olmo2 olmoe openelm orion paddleocr pangu-embedded phi2 phi3 phimoe plamo plamo2 plamo3 plm qwen qwen2
    qwen25vl qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3vl qwen3vlmoe refact rwkv6
    rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3 stablelm starcoder starcoder2 step35 xverse
"""
KNOWN_ARCHITECTURES = frozenset(_ARCHITECTURES.split())
_ONLY_WEIGHTS = re.compile(
    r"""
    context_length | vocab_size | embedding_length(_out|_per_layer_input)? | features_length | feed_forward_length
    | expert_(shared_|chunk_)?feed_forward_length | expert_shared_count | expert_group_(count|used_count|scale)
    | experts_per_group | expert_weights_\w+ | expert_gating_func | leading_dense_block_count | moe_every_n_layers
    | interleave_moe_layer_step | moe_latent_size | n_deepstack_layers | rescale_every_n_layers | tensor_data_layout
    | use_parallel_residual | time_(mix|decay)_extra_dim | altup\..* | laurel\w* | rope\..* | pooling_type | swin_norm
    | attention\.(\w+_)?lora_rank | attention\.(causal|clamp_kqv|max_alibi_bias|group_norm_groups|temperature_\w+)
    | attention\.(relative_buckets_count|output_group_count) | attention\.indexer\.(head_count|key_length)
    | hyper_connection\..* | ssm\.(time_step_rank|dt_b_c_rms|conv_kernel|inner_size|state_size|group_count)
    | wkv\.head_size | token_shift_count | shortconv\.l_cache | kda\.head_dim | vision\..* | audio\..* | mm\..*
    | classifier\..* | dense_\w+_feat_(in|out) | decoder_start_token_id | hash_layer_count
    """,
    re.VERBOSE,
)
"""Keys that shape nothing but weights, which the tensor table tells exactly, or states that were read where there are
some; and those that change no byte."""


@dataclass(frozen=True)
class Keys:
    """Key-values of a GGUF file, each checked as it is read; those that were used are remembered."""

    metadata: Mapping[str, Any]
    _numbers: dict[str, int | None] = field(default_factory=dict, init=False, compare=False)
    """Values read already: each layer asks again, and a list may be long."""
    _used: set[str] = field(default_factory=set, init=False, compare=False)

    @property
    def architecture(self) -> str:
        """`general.architecture`. Raises BadInput for what is no language model."""
        name = self.metadata.get("general.architecture")
        if self.metadata.get("general.type", "model") != "model" or name == "clip":
            raise BadInput(_("this is not a language model but a part of one, such as a vision projector."))
        if not isinstance(name, str) or not name:
            raise BadInput(_("there is no general.architecture, so this is no language model."))
        return name

    @property
    def blocks(self) -> int:
        """`block_count`. Raises BadInput where it makes no sense."""
        if not 0 < (blocks := self.number("block_count")) <= MAX_BLOCKS:
            raise BadInput(_("a language model cannot have {blocks} blocks.", blocks=blocks))
        return blocks

    def get(self, key: str) -> Any:
        """The value of a key of the architecture, as stored; the key counts as used."""
        self._used.add(key)
        return self.metadata.get(f"{self.architecture}.{key}")

    def number(self, key: str, default: int = 0) -> int:
        """Returns a count; of a list with one for each layer the largest."""
        if key not in self._numbers:
            value = self.get(key)
            values = self._bounded(key, value) if isinstance(value, list) else [value]
            self._numbers[key] = max((self._checked(key, entry) for entry in values if entry is not None), default=None)
        count = self._numbers[key]
        return default if count is None else count

    def understand(self, *names: str) -> None:
        """Marks keys as understood, although this model does not need them."""
        self._used.update(names)

    def not_understood(self) -> tuple[str, ...]:
        """Returns keys that shape what a token reads and were not used, and the architecture when it is unknown."""
        prefix = f"{self.architecture}."
        architecture_keys = {
            key.removeprefix(prefix): value for key, value in self.metadata.items() if key.startswith(prefix)
        }
        names = [
            key
            for key, value in architecture_keys.items()
            if key not in self._used and not _ONLY_WEIGHTS.fullmatch(key) and shapes_bytes(key.replace(".", "_"), value)
        ]
        unknown = [] if self.architecture in KNOWN_ARCHITECTURES else ["general.architecture"]
        return (*unknown, *(printable(f"{prefix}{name}") for name in names))

    def of_layer(self, key: str, index: int, default: int = 0) -> int:
        """Returns the count of one layer, where a list may give each layer its own."""
        value = self.get(key)
        if isinstance(value, list):
            if index >= len(value):
                raise BadInput(
                    _("{name} has {count:,} entries, fewer than there are layers.", name=key, count=len(value))
                )
            value = value[index]
        return default if value is None else self._checked(key, value)

    def _bounded(self, key: str, values: list[Any]) -> list[Any]:
        if len(values) > MAX_BLOCKS:
            raise BadInput(
                _("{name} has {count:,} entries, more than any model has layers.", name=key, count=len(values))
            )
        return values

    def _checked(self, key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
            raise BadInput(_("{name} is {value!r}, which is not a count.", name=key, value=printable(str(value))))
        return value
