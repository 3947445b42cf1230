"""The keys of a config.json or a GGUF file that shape bytes: sizes, heads, layers, experts, ranks, windows, patterns.

A reader records the keys that it used. A key that shapes bytes and was not used makes a ceiling an estimate.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_STRUCTURAL = """
    attn attention block blocks cache channel channels chunk chunked cla compress compressed conv convolution
    depth dilation dim dims downsample embd embed embedding encoder decoder expand expansion expert experts
    factor ff ffn freq frequency full global group groups head heads hidden indexer inner inter interleave
    interval intermediate kernel kv latent layer layers length lengths linear local lora lru mamba mem memory
    memories mixer mixture mlp moe offset pattern per period pool pooling projection proj rank ranks ratio
    ratios recurrent reduction repeat repeats routed segment segments share shared size sizes sliding slots
    sparse sparsity split splits ssm state states step stride sub subsample swa table tables tie tied top topk
    type types upsample value width widths window windows
"""
_WORDS = frozenset(_STRUCTURAL.split())
_COUNT = re.compile(r"(num|n|d|nr|max_num)_")
_SWITCHES = """
    cla share shared sparse sliding tie tied window swa chunked compress compressed
"""
_FLAG_WORDS = frozenset(_SWITCHES.split())
"""Words of switches, which are on or off: only these change how much is read."""
_IRRELEVANT = re.compile(
    r"""
    \w*_token_ids? | \w*_token_index | (bos|eos|pad|unk|sep|cls|mask|fim)_\w*ids?
    | (\w*_)?(std|eps|epsilon|coefs?|coeff|scale|scalar|scaling\w*|softcap\w*|softcapping|dropout\w*|drop|pdrop|dtype
        |temperature\w*|multipliers?|theta|bias|act|activation|act_fn|probs?|penalty|jitter\w*|loss\w*|lambda|alpha|beta
        |gamma|limit|version|implementation|capacity\w*)
    | rotary_dim | rope_dim | \w*_overlap | (\w*_)?init_blocks? | (\w*_)?local_blocks?
    | (?!\w*_(head|dim|rank|size|layers)) (\w*_)? (rope|rotary|yarn|mrope|nope) (_\w*)?
    | (initializer|init)_\w* | (\w*_)?(layer_?norm|rms_?norm)(_eps\w*|_epsilon)? | norm_\w*(prob|eps|type|epsilon)
    | (original_)?max_position_embeddings | n_positions | n_ctx | (max_)?seq(uence)?_len(gth)?
    | (\w+_)?context_length
    | max_(model|sequence|context|seq)_len(gth)? | model_max_length | max_target_positions | max_window_size_train
    | architectures | auto_map | transformers_version | model_type | _\w* | id2label | label2id | task_specific_params
    | torch_dtype | use_cache | return_\w* | torchscript | pruned_heads | cross_attention_hidden_size
    | chunk_size_feed_forward | num_labels | num_beams | num_beam_groups | num_return_sequences | top_k | top_p
    | typical_p | (encoder_)?no_repeat_ngram_size | (min|max)_length | max_new_tokens | tokenizer_class
    | num_logits_to_keep
    | n_group | topk_group | num_expert_groups? | topk_method | moe_router_(?!top|size|dim)\w*
    | num_hash_layers | (mamba_)?chunk_size | time_step_(?!rank|size)\w* | dt_(min|max|init\w*)
    | ((num|n)_)?(\w*_)?(nextn|mtp)(_\w*)?
    | no_rope_\w* | nope_layer_interval | query_pre_attn_scalar | activation_sparsity_pattern | sparsity_\w*threshold
    | altup_(active_idx|coef_clip) | ep_size | tp_size | pretraining_tp
    | quantization_config | compression_config | quantization | kv_cache_(scheme|dtype|quant_algo)
    | (\w*_)?(vision|visual|image|media|video|audio|speech|pixel|patch|multimodal|modality|projector|talker
        |img|mm|vit)(_\w*)?
    | mm_\w* | vision\w* | spatial_merge_size | downsample_(ratio|factor)
    | alignment_intermediate_size | dim_model_base | scale_depth | select_layer | code2wav_config | dynamic_image_size
    | generation_\w* | num_ln_in_parallel_attn | order_of_\w* | position_embedding_type | rel_pos\w*
    """,
    re.VERBOSE,
)
"""Keys that are known to change no byte that a token reads, or only parts that are left out: other modalities, MTP."""
_NARROW = re.compile(r"(?<![a-z0-9])((mx|nv)?(u?int|fp|nf|float)[2-8]|[2-8]-?bit)(?![0-9])", re.IGNORECASE)
"""Number formats of quantized weights: `fp4`, `int8`, `float8_e4m3fn`."""
_KV_CACHE = re.compile(r"(\w*_)?(kv|cache)(_\w*)?")
"""Keys of the KV cache, whose types are settings of the server."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def shapes_bytes(name: str, value: object) -> bool:
    """Whether a key states how large the model is or how much of it is read. What is off or empty states nothing.

    >>> shapes_bytes("moe_latent_size", 1024), shapes_bytes("rope_theta", 1e6), shapes_bytes("sink_window", None)
    (True, False, False)
    """
    if value is None or value is False or value in (0, "", [], {}):
        return False
    if isinstance(value, float) and value == 1:  # a ratio or factor that changes nothing
        return False
    plain = _CAMEL.sub("_", name.rpartition(".")[2]).lower().replace("-", "_")
    if isinstance(value, str) and "dtype" in plain and _NARROW.search(value) and not _KV_CACHE.fullmatch(plain):
        return True
    if _IRRELEVANT.fullmatch(plain):
        return False
    words = {word.rstrip("0123456789") for word in plain.split("_")}
    if value is True:
        return bool(words & _FLAG_WORDS)
    if isinstance(value, str):
        return bool(words & {"pattern", "types", "layers", "enum", "blocks"})
    return bool(words & _WORDS or _COUNT.match(plain))


def unused(document: Mapping[str, Any], used: set[str], prefix: str = "") -> Iterator[str]:
    """Returns the keys that shape bytes and were not used, those of inner objects with their path:
    `attn_config.heads`."""
    for key, value in document.items():
        path = f"{prefix}{key}"
        plain = str(key).lower()
        if path in used or (isinstance(value, dict | list) and _IRRELEVANT.fullmatch(plain)):
            continue
        if isinstance(value, dict) and value and "quant" in plain:  # under a name of its own
            yield path
        elif isinstance(value, dict):
            if prefix.count(".") < 3:
                yield from unused(value, used, f"{path}.")
        elif shapes_bytes(str(key), value):
            yield path
