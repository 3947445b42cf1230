"""Shapes of ten well-known models, as their config.json names them, and of some more that published results use."""

from typing import Any

Shape = dict[str, Any]


def shape(
    model_type: str, blocks: int, hidden: int, ffn: int, heads: int, kv_heads: int, vocab: int, **more: Any
) -> Shape:
    return {
        "model_type": model_type,
        "num_hidden_layers": blocks,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "tie_word_embeddings": False,
        **more,
    }


MODELS: dict[str, Shape] = {
    "Llama-3.1-8B": shape("llama", 32, 4096, 14336, 32, 8, 128256),
    "Llama-3.3-70B": shape("llama", 80, 8192, 28672, 64, 8, 128256),
    "Qwen3-30B-A3B": shape(
        "qwen3_moe", 48, 2048, 6144, 32, 4, 151936, head_dim=128, moe_intermediate_size=768, num_experts=128,
        num_experts_per_tok=8,
    ),
    "gpt-oss-120b": shape(
        "gpt_oss", 36, 2880, 2880, 64, 8, 201088, head_dim=64, num_local_experts=128, num_experts_per_tok=4,
        sliding_window=128, layer_types=["sliding_attention", "full_attention"] * 18, attention_bias=True,
    ),
    "Gemma-3-27B": shape(
        "gemma3_text", 62, 5376, 21504, 32, 16, 262208, head_dim=128, sliding_window=1024, tie_word_embeddings=True
    ),
    "Mistral-Small-24B": shape("mistral", 40, 5120, 32768, 32, 8, 131072, head_dim=128),
    "Mixtral-8x7B": shape("mixtral", 32, 4096, 14336, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2),
    "Qwen2.5-Coder-32B": shape(
        "qwen2", 64, 5120, 27648, 40, 8, 152064, sliding_window=131072, use_sliding_window=False
    ),
    "Qwen3.5-35B-A3B": shape(
        "qwen3_5_moe_text", 40, 2048, 0, 16, 2, 248320, head_dim=256, moe_intermediate_size=512, num_experts=256,
        num_experts_per_tok=8, shared_expert_intermediate_size=512, full_attention_interval=4,
        linear_num_key_heads=16, linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    ),
    "Nemotron-3-Nano-30B-A3B": shape(
        "nemotron_h", 52, 2688, 1856, 32, 2, 131072, head_dim=128, moe_intermediate_size=1856, n_routed_experts=128,
        num_experts_per_tok=6, n_shared_experts=1, moe_shared_expert_intermediate_size=3712,
        hybrid_override_pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
        mamba_num_heads=64, mamba_head_dim=64, ssm_state_size=128, n_groups=8, conv_kernel=4,
    ),
}  # fmt: skip

MORE: dict[str, Shape] = {
    "Llama-2-7B": shape("llama", 32, 4096, 11008, 32, 32, 32000),
    "gpt-oss-20b": {
        **MODELS["gpt-oss-120b"],
        "num_hidden_layers": 24,
        "num_local_experts": 32,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    },
    "DeepSeek-V3": shape(
        "deepseek_v3", 61, 7168, 18432, 128, 128, 129280, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128, moe_intermediate_size=2048, n_routed_experts=256, num_experts_per_tok=8,
        n_shared_experts=1, first_k_dense_replace=3, num_nextn_predict_layers=1,
    ),
}  # fmt: skip
