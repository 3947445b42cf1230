"""Shapes of many families as their config.json names them, with their published totals: one compact table.

Billions of parameters in all and about so many active (as published, with or without tables), KV bytes of a token in
f16 while no window is full. None: not published.
"""

from typing import Any, NamedTuple

from tests.ceiling.models import MODELS, MORE, Shape, shape


class Family(NamedTuple):
    config: Shape
    total_b: float
    active_b: float | None = None
    kv_bytes: int | None = None


def layers_of(pattern: str, **names: str) -> list[str]:
    return [names[letter] for letter in pattern]


def mla(
    q: int | None, latent: int = 512, nope: int = 128, rope: int = 64, v: int = 128, **more: Any
) -> dict[str, int | None]:
    return {
        "q_lora_rank": q,
        "kv_lora_rank": latent,
        "qk_nope_head_dim": nope,
        "qk_rope_head_dim": rope,
        "v_head_dim": v,
        **more,
    }


def experts(count: int, used: int, width: int, shared: int = 0, **more: Any) -> dict[str, Any]:
    """As DeepSeek names them."""
    named = {"n_routed_experts": count, "num_experts_per_tok": used, "moe_intermediate_size": width}
    return {**named, "n_shared_experts": shared, **more} if shared else {**named, **more}


NEXT = {
    "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
}  # fmt: skip
MAMBA_2 = {"ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "expand": 2, "mlp_hidden_act": "relu2"}
LFM2 = {"conv_L_cache": 3, "conv_bias": False, "tie_embedding": True}
SLIDE = {"s": "sliding_attention", "f": "full_attention"}
TIED = {"tie_word_embeddings": True}
SUPER = "MEMEMEM*EME" * 8

FAMILIES: dict[str, Family] = {
    "qwen3-next-80b": Family(
        shape("qwen3_next", 48, 2048, 5120, 16, 2, 151936, head_dim=256, moe_intermediate_size=512, num_experts=512,
              num_experts_per_tok=10, shared_expert_intermediate_size=512, decoder_sparse_step=1, mlp_only_layers=[],
              **NEXT), 79.67, 3.9, 24576),
    "glm-4.5-air": Family(
        shape("glm4_moe", 46, 4096, 10944, 96, 8, 151552, head_dim=128, attention_bias=True, first_k_dense_replace=1,
              num_nextn_predict_layers=1, **experts(128, 8, 1408, 1)), 106.85, 12, 188416),
    "glm-4.5": Family(
        shape("glm4_moe", 92, 5120, 12288, 96, 8, 151552, head_dim=128, attention_bias=True, first_k_dense_replace=3,
              num_nextn_predict_layers=1, **experts(160, 8, 1536, 1)), 352.8, 32, 376832),
    "minimax-m2": Family(
        shape("minimax_m2", 62, 3072, 1536, 48, 8, 200064, head_dim=128, attn_type_list=[1] * 62, num_local_experts=256,
              num_experts_per_tok=8, use_mtp=True, num_mtp_modules=3, use_qk_norm=True, shared_intermediate_size=0),
        228.69, 10, 253952),
    "minimax-m1": Family(
        shape("minimax_m1", 80, 6144, 9216, 64, 8, 200064, head_dim=128, attn_type_list=([0] * 7 + [1]) * 10,
              num_local_experts=32, num_experts_per_tok=2, shared_intermediate_size=0), 456, 45.9, 40960),
    "gpt-oss-20b": Family(MORE["gpt-oss-20b"] | {"experts_per_token": 4}, 20.91, 3.6, 49152),
    "gpt-oss-120b": Family(MODELS["gpt-oss-120b"], 116.83, 5.1, 73728),
    "nemotron-nano-9b-v2": Family(
        shape("nemotron_h", 56, 4480, 15680, 40, 8, 131072, head_dim=128, mamba_num_heads=128, mamba_head_dim=80,
              hybrid_override_pattern="M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", **MAMBA_2),
        8.89, 8.3, 16384),
    "nemotron-3-super-120b": Family(
        shape("nemotron_h", 88, 4096, 2688, 32, 2, 131072, head_dim=128, mamba_num_heads=128, mamba_head_dim=64,
              hybrid_override_pattern=SUPER, moe_latent_size=1024, moe_shared_expert_intermediate_size=5376,
              **experts(512, 22, 2688, 1), **MAMBA_2), 120.67, 12.4, 8192),
    "jamba-1.5-mini": Family(
        shape("jamba", 32, 4096, 14336, 32, 8, 65536, num_experts=16, num_experts_per_tok=2, attn_layer_period=8,
              attn_layer_offset=4, expert_layer_period=2, expert_layer_offset=1, mamba_d_state=16, mamba_d_conv=4,
              mamba_expand=2, mamba_dt_rank=256, mamba_conv_bias=True), 51.57, 12, 16384),
    "deepseek-v2-lite": Family(
        shape("deepseek_v2", 27, 2048, 10944, 16, 16, 102400, first_k_dense_replace=1, moe_layer_freq=1, **mla(None),
              **experts(64, 6, 1408, 2)), 15.7, 2.4, 31104),
    "deepseek-v3": Family(MORE["DeepSeek-V3"], 671.0, 37, 70272),
    "deepseek-v3.2": Family(
        shape("deepseek_v32", 61, 7168, 18432, 128, 128, 129280, first_k_dense_replace=3, moe_layer_freq=1,
              index_head_dim=128, index_n_heads=64, index_topk=2048, **mla(1536), **experts(256, 8, 2048, 1)),
        671.9, 37, 70272),
    "deepseek-v4-flash": Family(
        {"tie_word_embeddings": False, "model_type": "deepseek_v4", "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
         "head_dim": 512, "hidden_size": 4096, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 512,
         "num_attention_heads": 64, "num_hash_layers": 3, "num_hidden_layers": 43, "num_key_value_heads": 1,
         "o_groups": 8, "o_lora_rank": 1024, "q_lora_rank": 1024, "qk_rope_head_dim": 64, "sliding_window": 128,
         "vocab_size": 129280, "expert_dtype": "fp4", **experts(256, 6, 2048, 1)}, 284, 13),
    "kimi-k2": Family(
        shape("kimi_k2", 61, 7168, 18432, 64, 64, 163840, first_k_dense_replace=1, moe_layer_freq=1, n_group=1,
              topk_group=1, **mla(1536), **experts(384, 8, 2048, 1)), 1026, 32.9, 70272),
    "kimi-linear-48b": Family(
        shape("kimi_linear", 27, 2304, 9216, 32, 32, 163840, head_dim=72, num_experts=256, num_experts_per_token=8,
              num_shared_experts=1, moe_intermediate_size=1024, first_k_dense_replace=1, moe_layer_freq=1, **mla(None),
              linear_attn_config={
                  "kda_layers": [layer for layer in range(1, 27) if layer % 4], "head_dim": 128, "num_heads": 32,
                  "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "short_conv_kernel_size": 4}), 49.12, 3.0, 8064),
    "glm-4.7-flash": Family(
        shape("glm4_moe_lite", 47, 2048, 10240, 20, 20, 154880, first_k_dense_replace=1, num_nextn_predict_layers=1,
              **mla(768, nope=192, v=256), **experts(64, 4, 1536, 1)), 29.94, 3.6, 54144),
    "ernie-4.5-21b-a3b": Family(
        shape("ernie4_5_moe", 28, 2560, 12288, 20, 4, 103424, head_dim=128, moe_num_experts=64, moe_k=6,
              moe_intermediate_size=1536, moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=27,
              moe_layer_interval=1, **TIED), 21.83, 3.2, 57344),
    "seed-oss-36b": Family(
        shape("seed_oss", 64, 5120, 27648, 80, 8, 155136, head_dim=128, attention_bias=True), 36.15, 35.4, 262144),
    "hunyuan-a13b": Family(
        shape("hunyuan_v1_moe", 32, 4096, 3072, 32, 8, 128167, attention_head_dim=128, num_experts=64,
              moe_intermediate_size=[3072] * 32, moe_topk=[8] * 32, num_shared_expert=[1] * 32, use_mixed_mlp_moe=True,
              use_qk_norm=True, **TIED), 80.39, 13, 131072),
    "lfm2-1.2b": Family(
        shape("lfm2", 16, 2048, 12288, 32, 8, 65536, block_ff_dim=12288, block_auto_adjust_ff_dim=True,
              block_ffn_dim_multiplier=1.0, block_multiple_of=256, **LFM2, tie_word_embeddings=True,
              layer_types=layers_of("ccfccfccfcfcfcfc", c="conv", f="full_attention")), 1.17, 1.17, 12288),
    "lfm2-8b-a1b": Family(
        shape("lfm2_moe", 24, 2048, 7168, 32, 8, 65536, moe_intermediate_size=1792, num_experts=32,
              num_experts_per_tok=4, num_dense_layers=2, use_expert_bias=True, **LFM2, tie_word_embeddings=True,
              layer_types=layers_of("ccfcccfcccfcccfcccfccfcc", c="conv", f="full_attention")), 8.34, 1.56, 12288),
    "rwkv7-2.9b": Family(
        {"tie_word_embeddings": False, "model_type": "rwkv7", "hidden_size": 2560, "num_hidden_layers": 32,
         "intermediate_size": 10240, "head_size": 64, "num_attention_heads": 40, "vocab_size": 65536}, 2.95, 2.78, 0),
    "apertus-70b": Family(
        shape("apertus", 80, 8192, 43008, 64, 8, 131072, hidden_act="xielu", qk_norm=True), 70.6, 69.5, 327680),
    "mistral-small-3.2-24b": Family(
        {"model_type": "mistral3", "text_config": shape("mistral", 40, 5120, 32768, 32, 8, 131072, head_dim=128)},
        23.57, 22.9, 163840),
    "gemma-3-27b": Family(
        {"model_type": "gemma3", "text_config": {
            key: value for key, value in MODELS["Gemma-3-27B"].items() if key != "tie_word_embeddings"}},
        27.01, 27.01, 507904),
    "phi-4-14b": Family(shape("phi3", 40, 5120, 17920, 40, 10, 100352), 14.66, 14.15, 204800),
    "dots.llm1": Family(
        shape("dots1", 62, 4096, 10944, 32, 32, 152064, first_k_dense_replace=1, moe_layer_freq=1,
              **experts(128, 6, 1408, 2)), 142.77, 14, 1015808),
    "qwen3-32b": Family(
        shape("qwen3", 64, 5120, 25600, 64, 8, 151936, head_dim=128, use_sliding_window=False), 32.76, 32.0, 262144),
    "qwen3-14b": Family(
        shape("qwen3", 40, 5120, 17408, 40, 8, 151936, head_dim=128, use_sliding_window=False), 14.77, 14.0, 163840),
    "glm-4-32b-0414": Family(shape("glm4", 61, 6144, 23040, 48, 2, 151552, head_dim=128), 32.57, 31.6, 62464),
    "mistral-7b": Family(shape("mistral", 32, 4096, 14336, 32, 8, 32000, sliding_window=4096), 7.24, None, 131072),
    "mixtral-8x7b": Family(MODELS["Mixtral-8x7B"] | {"sliding_window": None}, 46.7, 12.9, 131072),
    "qwen2.5-7b": Family(
        shape("qwen2", 28, 3584, 18944, 28, 4, 152064, sliding_window=131072, use_sliding_window=False,
              max_window_layers=28), 7.62, None, 57344),
    "qwen3-235b-a22b": Family(
        shape("qwen3_moe", 94, 4096, 12288, 64, 4, 151936, head_dim=128, moe_intermediate_size=1536, num_experts=128,
              num_experts_per_tok=8, decoder_sparse_step=1, mlp_only_layers=[], max_window_layers=94),
        235.1, 22, 192512),
    "gemma-2-9b": Family(
        shape("gemma2", 42, 3584, 14336, 16, 8, 256000, head_dim=256, sliding_window=4096, **TIED), 9.24, None, 344064),
    "gemma-7b": Family(shape("gemma", 28, 3072, 24576, 16, 16, 256000, head_dim=256, **TIED), 8.54, None, 458752),
    "olmo-2-13b": Family(shape("olmo2", 40, 5120, 13824, 40, 40, 100352), 13.72, None, 819200),
    "olmoe-1b-7b": Family(
        shape("olmoe", 16, 2048, 1024, 16, 16, 50304, num_experts=64, num_experts_per_tok=8), 6.92, 1.28, 131072),
    "starcoder2-15b": Family(
        shape("starcoder2", 40, 6144, 24576, 48, 4, 49152, sliding_window=4096, use_bias=True), 15.96, None, 81920),
    "command-r-plus": Family(shape("cohere", 64, 12288, 33792, 96, 8, 256000, **TIED), 103.8, None, 262144),
    "command-a": Family(
        shape("cohere2", 64, 12288, 36864, 96, 8, 256000, head_dim=128, sliding_window=4096, sliding_window_pattern=4,
              **TIED), 111.1, None, 262144),
    "exaone-4.0-32b": Family(
        shape("exaone4", 64, 5120, 27392, 40, 8, 102400, head_dim=128, sliding_window=4096,
              sliding_window_pattern="LLLG"), 32.0, None, 262144),
    "smollm3-3b": Family(
        shape("smollm3", 36, 2048, 11008, 16, 4, 128256, no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0] * 9,
              sliding_window=None, use_sliding_window=False, **TIED), 3.08, None, 73728),
    "internlm2.5-20b": Family(shape("internlm2", 48, 6144, 16384, 48, 8, 92544), 19.86, None, 196608),
    "llama-4-scout": Family(
        {"model_type": "llama4", "text_config": shape(
            "llama4_text", 48, 5120, 8192, 40, 8, 202048, head_dim=128, intermediate_size_mlp=16384,
            num_local_experts=16, num_experts_per_tok=1, interleave_moe_layer_step=1, attention_chunk_size=8192,
            no_rope_layers=[1, 1, 1, 0] * 12)}, 107.8, 17, 196608),
    "llama-4-maverick": Family(
        {"model_type": "llama4", "text_config": shape(
            "llama4_text", 48, 5120, 8192, 40, 8, 202048, head_dim=128, intermediate_size_mlp=16384,
            num_local_experts=128, num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=8192,
            moe_layers=list(range(1, 48, 2)))}, 400.7, 17, 196608),
    "dbrx": Family(
        {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352,
         "attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500000}, "tie_word_embeddings": False,
         "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4, "moe_loss_weight": 0.05}},
        131.6, 36, 163840),
    "arctic": Family(
        shape("arctic", 35, 7168, 4864, 56, 8, 32000, num_local_experts=128, num_experts_per_tok=2,
              parallel_attn_mlp_res=True, moe_layer_frequency=1, use_residual=True), 479, 17, 143360),
    "phi-3.5-moe": Family(
        shape("phimoe", 32, 4096, 6400, 32, 8, 32064, num_local_experts=16, num_experts_per_tok=2), 41.87, 6.6, 131072),
    "bamba-9b": Family(
        shape("bamba", 32, 4096, 14336, 32, 8, 128256, attn_layer_indices=[9, 18, 27], mamba_n_heads=128,
              mamba_d_head=64, mamba_d_state=128, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2), 9.78, None, 12288),
    "granite-4.0-h-small": Family(
        shape("granitemoehybrid", 40, 4096, 768, 32, 8, 100352, num_local_experts=72, num_experts_per_tok=10,
              shared_intermediate_size=1536, mamba_n_heads=128, mamba_d_head=64, mamba_d_state=128, mamba_n_groups=1,
              mamba_d_conv=4, mamba_expand=2, **TIED,
              layer_types=layers_of("mmmmmfmmmmmmmmmfmmmmmmmmmfmmmmmmmmmfmmmm", m="mamba", f="attention")),
        32.2, 9, 16384),
    "falcon-mamba-7b": Family(
        {"model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64, "state_size": 16, "conv_kernel": 4,
         "expand": 2, "intermediate_size": 8192, "time_step_rank": 256, "vocab_size": 65024,
         "tie_word_embeddings": False}, 7.27, None, 0),
    "ling-mini-2.0": Family(
        shape("bailing_moe_v2", 20, 2048, 5120, 16, 4, 157184, head_dim=128, num_experts=256, num_experts_per_tok=8,
              num_shared_experts=1, moe_intermediate_size=512, moe_shared_expert_intermediate_size=512,
              first_k_dense_replace=1, n_group=8, topk_group=4), 16.26, 1.43, 40960),
    "trinity-mini": Family(
        shape("afmoe", 32, 2048, 6144, 32, 4, 200192, head_dim=128, num_experts=128, num_experts_per_tok=8,
              num_shared_experts=1, moe_intermediate_size=1024, num_dense_layers=2, sliding_window=2048,
              global_attn_every_n_layers=4, layer_types=layers_of("sssf" * 8, **SLIDE)), 26.1, 3, 65536),
    "mimo-v2-flash": Family(
        shape("mimo_v2_flash", 48, 4096, 16384, 64, 4, 152576, head_dim=192, v_head_dim=128, swa_num_key_value_heads=8,
              swa_num_attention_heads=64, swa_head_dim=192, swa_v_head_dim=128, sliding_window_size=128,
              hybrid_layer_pattern=[0, *([1] * 4 + [0]), *([1] * 5 + [0]) * 7], moe_layer_freq=[0] + [1] * 47,
              **experts(256, 8, 2048)), 309, 15),
    "mistral-nemo-12b": Family(shape("mistral", 40, 5120, 14336, 32, 8, 131072, head_dim=128), 12.25, None, 163840),
    "grok-1": Family(
        shape("grok-1", 64, 6144, 32768, 48, 8, 131072, head_dim=128, num_experts=8, num_selected_experts=2, **TIED),
        316, None, 262144),
    "solar-10.7b": Family(shape("llama", 48, 4096, 14336, 32, 8, 32000), 10.73, None, 196608),
    "recurrentgemma-2b": Family(
        shape("recurrent_gemma", 26, 2560, 7680, 10, 1, 256000, head_dim=256, lru_width=2560, conv1d_width=4,
              attention_window_size=2048, block_types=["recurrent", "recurrent", "attention"], **TIED),
        2.68, None, 8192),
    "falcon-7b": Family(
        {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
         "multi_query": True, "vocab_size": 65024}, 6.92, None, 8192),
    "falcon-40b": Family(
        {"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
         "num_kv_heads": 8, "new_decoder_architecture": True, "vocab_size": 65024}, 41.3, None, 122880),
    "mpt-7b": Family(
        {"model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32, "expansion_ratio": 4, "vocab_size": 50432,
         "max_seq_len": 2048, **TIED}, 6.65, None, 524288),
    "chatglm3-6b": Family(
        {"model_type": "chatglm", "num_layers": 28, "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
         "multi_query_attention": True, "multi_query_group_num": 2, "ffn_hidden_size": 13696, "seq_length": 8192,
         "padded_vocab_size": 65024, "add_qkv_bias": True, "tie_word_embeddings": False}, 6.24, None, 28672),
    "falcon-h1-34b": Family(
        shape("falcon_h1", 72, 5120, 21504, 20, 4, 261120, head_dim=128, mamba_d_ssm=4096, mamba_d_head=128,
              mamba_n_heads=32, mamba_d_state=256, mamba_n_groups=2, mamba_d_conv=4, mamba_expand=2,
              mamba_chunk_size=128, ssm_multipliers=[0.5] * 5), 33.6, None, 147456),
    "gemma-3n-e4b": Family(
        {"model_type": "gemma3n", "text_config": shape(
            "gemma3n_text", 35, 2048, 0, 8, 2, 262400, head_dim=256, sliding_window=512, num_kv_shared_layers=15,
            hidden_size_per_layer_input=256, vocab_size_per_layer_input=262144, laurel_rank=64, altup_num_inputs=4,
            altup_active_idx=0, altup_coef_clip=120, layer_types=layers_of("ssssf" * 7, **SLIDE), **TIED,
            activation_sparsity_pattern=[0.95] * 10 + [0] * 25) | {"intermediate_size": [16384] * 35}},
        6.87, None, 40960),
    "step-3": Family(
        {"model_type": "step3_vl", "text_config": {
            "model_type": "step3_text", "hidden_size": 7168, "intermediate_size": 18432, "num_attention_heads": 64,
            "num_attention_groups": 1, "num_hidden_layers": 61, "vocab_size": 128815, "head_dim": 256,
            "share_q_dim": 2048, "share_expert_dim": 5120, "moe_num_experts": 48, "moe_top_k": 3,
            "moe_intermediate_size": 5120, "moe_layers_enum": ",".join(map(str, range(4, 60))),
            "tie_word_embeddings": False}}, 316, 38, 62464),
    "minicpm3-4b": Family(
        shape("minicpm3", 62, 2560, 6400, 40, 40, 73448, q_lora_rank=768, kv_lora_rank=256, qk_nope_head_dim=64,
              qk_rope_head_dim=32, **TIED), 4.07, None, 35712),
    "ring-mini-linear-2.0": Family(
        shape("bailing_moe_linear", 20, 2048, 5120, 16, 4, 157184, head_dim=128, layer_group_size=5, num_experts=256,
              num_experts_per_tok=8, num_shared_experts=1, moe_intermediate_size=512, first_k_dense_replace=1),
        16.4, 1.6, 8192),
    "deepseek-moe-16b": Family(
        shape("deepseek", 28, 2048, 10944, 16, 16, 102400, first_k_dense_replace=1, moe_layer_freq=1,
              **experts(64, 6, 1408, 2)), 16.4, 2.8, 229376),
    "phi-2": Family(shape("phi", 32, 2560, 10240, 32, 32, 51200), 2.78, None, 327680),
    "gpt-neox-20b": Family(shape("gpt_neox", 44, 6144, 24576, 64, 64, 50432), 20.55, None, 1081344),
    "k-exaone-236b": Family(
        shape("exaone_moe", 48, 6144, 18432, 64, 8, 153600, head_dim=128, num_experts=128, num_experts_per_tok=8,
              num_shared_experts=1, moe_intermediate_size=2048, first_k_dense_replace=1, sliding_window=128,
              sliding_window_pattern="LLLG"), 236.6, 23, 196608),
    "ernie-4.5-300b-a47b": Family(
        shape("ernie4_5_moe", 54, 8192, 28672, 64, 8, 103424, moe_num_experts=64, moe_k=8, moe_intermediate_size=3584,
              moe_layer_start_index=3, moe_layer_end_index=53, moe_layer_interval=1, moe_num_shared_experts=0,
              moe_capacity=[64, 64, 64]), 300, 47, 221184),
    "smallthinker-21b-a3b": Family(
        shape("smallthinker", 52, 2560, 0, 28, 4, 151936, head_dim=128, moe_num_primary_experts=64,
              moe_num_active_primary_experts=6, moe_ffn_hidden_size=768, sliding_window_size=4096,
              sliding_window_layout=[0, 1, 1, 1] * 13, rope_layout=[0, 1, 1, 1] * 13), 21.5, 3, 106496),
    "ling-1t": Family(
        shape("bailing_moe_v2", 80, 8192, 18432, 64, 8, 157184, head_dim=128, num_experts=256, num_experts_per_tok=8,
              num_shared_experts=1, moe_intermediate_size=2048, first_k_dense_replace=4), 1000, 51, 327680),
    "rwkv6-7b": Family(
        {"model_type": "rwkv6", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
         "num_attention_heads": 64, "head_size": 64, "vocab_size": 65536}, 7.63, 7.4),
    "mamba2-codestral-7b": Family(
        {"model_type": "mamba2", "num_hidden_layers": 64, "hidden_size": 4096, "state_size": 128, "conv_kernel": 4,
         "expand": 2, "n_groups": 8, "num_heads": 128, "head_dim": 64, "time_step_rank": 256, "vocab_size": 32768,
         "tie_word_embeddings": False}, 7.28, None, 0),
    "gpt-j-6b": Family(
        {"model_type": "gptj", "n_layer": 28, "n_embd": 4096, "n_head": 16, "n_inner": None, "vocab_size": 50400,
         "rotary_dim": 64, "tie_word_embeddings": False}, 6.05, None, 458752),
    "starcoder-15b": Family(
        {"model_type": "gpt_bigcode", "n_layer": 40, "n_embd": 6144, "n_head": 48, "n_inner": 24576,
         "multi_query": True, "vocab_size": 49152, **TIED}, 15.5, None, 20480),
    "opt-6.7b": Family(
        {"model_type": "opt", "num_hidden_layers": 32, "hidden_size": 4096, "ffn_dim": 16384, "vocab_size": 50272,
         "num_attention_heads": 32, "word_embed_proj_dim": 4096}, 6.66, None, 524288),
    "minicpm4-8b": Family(
        shape("minicpm", 32, 4096, 16384, 32, 2, 73448, scale_emb=12, dim_model_base=256, scale_depth=1.4), 8.19, None,
        32768),
    "glm-4.5v": Family(
        {"model_type": "glm4v_moe", "vision_config": {"depth": 24, "hidden_size": 1536},
         "text_config": shape("glm4v_moe_text", 46, 4096, 10944, 96, 8, 151552, head_dim=128, attention_bias=True,
                              first_k_dense_replace=1, **experts(128, 8, 1408, 1))}, 106.85, 12, 188416),
    "lfm2-vl-1.6b": Family(
        {"model_type": "lfm2_vl", "vision_config": {"hidden_size": 1152}, "downsample_factor": 2,
         "text_config": {
             "model_type": "lfm2", "hidden_size": 2048, "block_ff_dim": 12288, "num_hidden_layers": 16,
             "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "block_multiple_of": 256,
             "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": True,
             "layer_types": ["full_attention" if layer in (2, 5, 8, 10, 12, 14) else "conv" for layer in range(16)],
             **LFM2}}, 1.17, None, 12288),
    "deepseek-v2": Family(
        shape("deepseek_v2", 60, 5120, 12288, 128, 128, 102400, first_k_dense_replace=1, moe_layer_freq=1, n_group=8,
              topk_group=3, **mla(1536), **experts(160, 6, 1536, 2)), 235.7, 21, 69120),
    "qwen2-57b-a14b": Family(
        shape("qwen2_moe", 28, 3584, 18944, 28, 4, 151936, moe_intermediate_size=2560, num_experts=64,
              num_experts_per_tok=8, shared_expert_intermediate_size=20480, decoder_sparse_step=1), 57.4, 14.2, 57344),
}  # fmt: skip
