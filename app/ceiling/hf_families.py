"""Families of config.json that this reader understands, and what their classes take where a file leaves keys out."""

from collections.abc import Mapping
from typing import Any

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
"""What the class of a family takes for keys that its files may leave out."""


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    defaults = _DEFAULTS.get(str(values.get("model_type") or ""), {})
    return {**values, **{key: value for key, value in defaults.items() if values.get(key) is None}}
