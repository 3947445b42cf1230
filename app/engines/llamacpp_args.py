"""The command line of a `llama-server`: its flags, and what its router reports for each of its models."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.engines.flags import (
    ALL_LAYERS,
    COMMON,
    Flag,
    FlagTable,
    ModelArguments,
    flags_named,
    group_by_flag,
    merge_tables,
    parse_arguments,
    read_devices,
    read_layers,
    read_positive,
    read_ratios,
    read_switch,
    read_text,
    read_type,
    read_word,
)
from app.engines.protocol.models import quantization_in

FLAGS = FlagTable(
    flags={
        **flags_named("-ngl --n-gpu-layers --gpu-layers", Flag(("gpu_layers",), read_layers)),
        **flags_named("-ncmoe --n-cpu-moe", Flag(("n_cpu_moe",))),
        **flags_named("-cmoe --cpu-moe", Flag(("n_cpu_moe",), constant=ALL_LAYERS)),
        **flags_named("-ot --override-tensor", Flag(("override_tensor",), read_text, repeats=True)),
        **flags_named("-ts --tensor-split", Flag(("tensor_split",), read_ratios)),
        **flags_named("-sm --split-mode", Flag(("split_mode",), read_word)),
        **flags_named("-mg --main-gpu", Flag(("main_gpu",))),
        **flags_named("-dev --device", Flag(("cards",), read_devices, is_partial=True)),
        **flags_named("-nkvo --no-kv-offload", Flag(("kv_offload",), constant="off")),
        **flags_named("-kvo --kv-offload", Flag(("kv_offload",), constant="on")),
        **flags_named("-ctk --cache-type-k", Flag(("kv_type_k",), read_type)),
        **flags_named("-ctv --cache-type-v", Flag(("kv_type_v",), read_type)),
        **flags_named("-c --ctx-size", Flag(("context",), read_positive)),
        **flags_named("-np --parallel", Flag(("parallel",), read_positive)),
        **flags_named("-b --batch-size", Flag(("batch",), read_positive)),
        **flags_named("-ub --ubatch-size", Flag(("ubatch",), read_positive)),
        **flags_named("-t --threads", Flag(("threads",), read_positive)),
        **flags_named("-fa --flash-attn", Flag(("flash_attention",), read_switch, constant="on")),
    },
    ignored=frozenset((
        "-a", "--tags", "--reuse-port", "--path", "--api-prefix", "--props", "--slots", "--no-slots", "--jinja",
        "--no-jinja", "--chat-template-file", "--chat-template-kwargs", "--reasoning-format", "--log-verbose", "-lv",
        "--verbosity", "--log-verbosity", "--log-colors", "--log-prefix", "--no-log-prefix", "--log-timestamps",
        "--no-log-timestamps", "--log-disable", "--ui", "--no-ui", "--webui", "--no-webui", "-to",
        "--sse-ping-interval", "--slot-save-path", "--media-path", "--samplers", "-n", "--predict", "--n-predict",
        "--models-dir", "--models-preset", "--models-max", "--models-autoload", "--no-models-autoload",
        "--cors-origins", "--cors-methods", "--cors-headers", "--warmup", "--no-warmup", "-e", "--escape",
        "--no-escape", "--log-jsonl", "--no-log-jsonl", "--perf", "--no-perf", "--list-devices", "--version",
        "--embedding", "--embeddings", "--rerank", "--reranking", "--reasoning", "-rea", "--reasoning-budget-message",
        "--skip-chat-parsing", "--no-skip-chat-parsing", "--prefill-assistant", "--no-prefill-assistant", "-sps",
        "--slot-prompt-similarity", "--sleep-idle-seconds", "--tools", "--ui-config", "--ui-config-file",
        "--webui-config", "--webui-config-file", "--ui-mcp-proxy", "--no-ui-mcp-proxy", "--cors-credentials",
        "--no-cors-credentials", "-sp", "--special", "-r", "--reverse-prompt", "--repeat-last-n",
        "--presence-penalty", "--frequency-penalty", "--typical", "--typical-p", "--xtc-probability",
        "--xtc-threshold", "--top-nsigma", "--top-n-sigma", "--dry-multiplier", "--dry-base",
        "--dry-allowed-length", "--dry-penalty-last-n", "--dynatemp-range", "--dynatemp-exp", "--mirostat",
        "--mirostat-lr", "--mirostat-ent", "-l", "--logit-bias", "--sampler-seq", "--sampling-seq", "--check-tensors",
    )),
    without_bytes=frozenset((
        "-mu", "--model-url", "-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "--reasoning-budget", "--ignore-eos",
        "--keep", "--mlock", "--no-mmap", "--mmap", "--numa", "--prio", "--poll", "-tb", "--threads-batch",
        "--threads-http", "-cb", "--cont-batching", "-nocb", "--no-cont-batching", "--cache-prompt", "--cache-reuse",
        "-cram", "--cache-ram", "--kv-unified", "-kvu", "-no-kvu", "--no-kv-unified", "--no-op-offload", "--repack",
        "-nr", "--no-repack", "--no-context-shift", "--context-shift", "--op-offload", "-tbd",
        "--threads-batch-draft", "-C", "--cpu-mask", "-Cr", "--cpu-range", "--cpu-strict", "-Cb", "--cpu-mask-batch",
        "-Crb", "--cpu-range-batch", "--cpu-strict-batch", "--prio-batch", "--poll-batch", "-lm", "--load-mode",
        "-lzm", "--lazy-mode", "-dio", "--direct-io", "--no-direct-io", "-ndio", "--no-host", "-dt", "--defrag-thold",
        "--no-cache-prompt", "-cis", "--cache-idle-slots", "--no-cache-idle-slots", "--ctx-checkpoints", "-ctxcp",
        "--swa-checkpoints", "--checkpoint-min-step", "-cms", "--backend-sampling", "-bs", "--grammar",
        "--grammar-file", "-j", "--json-schema", "-jf", "--json-schema-file",
    )),
    unmodelled=frozenset((
        "-md", "--model-draft", "--spec-draft-model", "-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf", "-ngld",
        "--gpu-layers-draft", "--n-gpu-layers-draft", "--spec-draft-ngl", "-devd", "--device-draft",
        "--spec-draft-device", "-cd", "--ctx-size-draft", "-ctkd", "--cache-type-k-draft", "--spec-draft-type-k",
        "-ctvd", "--cache-type-v-draft", "--spec-draft-type-v", "-td", "--threads-draft", "--spec-draft-threads",
        "--draft", "--draft-max", "--draft-n", "--spec-draft-n-max", "--draft-min", "--draft-n-min",
        "--spec-draft-n-min", "--draft-p-min", "--spec-draft-p-min", "--draft-p-split", "--spec-draft-p-split",
        "--spec-type", "--spec-default", "--spec-ngram-size-n", "--spec-ngram-size-m", "--spec-ngram-min-hits",
        "--override-tensor-draft", "-otd", "--cpu-moe-draft", "-cmoed", "--n-cpu-moe-draft", "-ncmoed", "--load-mtp",
        "-ncffn", "--n-cpu-ffn", "--moe-cache-mib", "-fit", "--fit", "-fitt", "--fit-target", "-fitc", "--fit-ctx",
        "--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx",
        "--yarn-ext-factor", "--yarn-attn-factor", "--yarn-beta-slow", "--yarn-beta-fast", "--swa-full",
        "-gan", "--grp-attn-n", "-gaw", "--grp-attn-w", "--override-kv", "--lora", "--lora-scaled",
        "--lora-init-without-apply", "--control-vector", "--control-vector-scaled", "--control-vector-layer-range",
        "-mm", "--mmproj", "-mmu", "--mmproj-url", "--no-mmproj", "--mmproj-auto", "--no-mmproj-auto",
        "--mmproj-offload", "--no-mmproj-offload", "--image-min-tokens", "--image-max-tokens", "--rpc", "--pooling",
        "--attention",
    )),
)  # fmt: skip

_VALUE_VARIABLES = (
    "MODEL:--model MODEL_URL:--model-url HF_REPO:--hf-repo HF_FILE:--hf-file THREADS:--threads CTX_SIZE:--ctx-size "
    "BATCH:--batch-size UBATCH:--ubatch-size FLASH_ATTN:--flash-attn CACHE_TYPE_K:--cache-type-k "
    "CACHE_TYPE_V:--cache-type-v N_PARALLEL:--parallel N_GPU_LAYERS:--n-gpu-layers SPLIT_MODE:--split-mode "
    "TENSOR_SPLIT:--tensor-split MAIN_GPU:--main-gpu DEVICE:--device OVERRIDE_TENSOR:--override-tensor "
    "N_CPU_MOE:--n-cpu-moe N_CPU_FFN:--n-cpu-ffn MOE_CACHE_MIB:--moe-cache-mib NUMA:--numa LOAD_MODE:--load-mode "
    "LAZY_MODE:--lazy-mode FIT:--fit FIT_TARGET:--fit-target FIT_CTX:--fit-ctx ROPE_SCALING_TYPE:--rope-scaling "
    "ROPE_SCALE:--rope-scale ROPE_FREQ_BASE:--rope-freq-base ROPE_FREQ_SCALE:--rope-freq-scale "
    "YARN_ORIG_CTX:--yarn-orig-ctx YARN_EXT_FACTOR:--yarn-ext-factor YARN_ATTN_FACTOR:--yarn-attn-factor "
    "YARN_BETA_SLOW:--yarn-beta-slow YARN_BETA_FAST:--yarn-beta-fast RPC:--rpc CACHE_RAM:--cache-ram "
    "CACHE_REUSE:--cache-reuse CTX_CHECKPOINTS:--ctx-checkpoints THREADS_HTTP:--threads-http MMPROJ:--mmproj "
    "DEFRAG_THOLD:--defrag-thold MODEL_DRAFT:--model-draft SPEC_DRAFT_MODEL:--model-draft DRAFT_MAX:--draft-max "
    "DRAFT_MIN:--draft-min DRAFT_P_MIN:--draft-p-min N_GPU_LAYERS_DRAFT:--n-gpu-layers-draft "
    "CTX_SIZE_DRAFT:--ctx-size-draft SPEC_TYPE:--spec-type SPEC_DRAFT_N_MAX:--spec-draft-n-max "
    "SPEC_DRAFT_N_MIN:--spec-draft-n-min SPEC_DRAFT_P_MIN:--spec-draft-p-min "
    "SPEC_DRAFT_CACHE_TYPE_K:--cache-type-k-draft SPEC_DRAFT_CACHE_TYPE_V:--cache-type-v-draft"
)
_SWITCH_VARIABLES = (
    "CPU_MOE:--cpu-moe MLOCK:--mlock NO_MMAP:--no-mmap MMAP:--mmap/--no-mmap SWA_FULL:--swa-full "
    "KV_OFFLOAD:--kv-offload/--no-kv-offload NO_KV_OFFLOAD:--no-kv-offload REPACK:--repack/--no-repack "
    "NO_REPACK:--no-repack NO_HOST:--no-host DIO:--direct-io KV_UNIFIED:--kv-unified/--no-kv-unified "
    "CONT_BATCHING:--cont-batching/--no-cont-batching NO_CONT_BATCHING:--no-cont-batching "
    "CONTEXT_SHIFT:--context-shift/--no-context-shift NO_CONTEXT_SHIFT:--no-context-shift "
    "OP_OFFLOAD:--op-offload/--no-op-offload NO_OP_OFFLOAD:--no-op-offload "
    "CACHE_PROMPT:--cache-prompt/--no-cache-prompt"
)
ENVIRONMENT = {
    **{f"LLAMA_ARG_{name}": f"{flag}=" for name, flag in (pair.split(":") for pair in _VALUE_VARIABLES.split())},
    **{f"LLAMA_ARG_{name}": flag for name, flag in (pair.split(":") for pair in _SWITCH_VARIABLES.split())},
}
"""Its environment variables, as `Engine.environment` holds them."""
DEFAULTS: Mapping[str, str | int] = {
    "kv_type_k": "f16",
    "kv_type_v": "f16",
    "batch": 2048,
    "ubatch": 512,
    "split_mode": "layer",
}
"""What common/common.h says where no flag does. Threads, layers on GPUs and flash attention depend on build and
machine."""

_FILE, _REPOSITORY, _REPOSITORY_FILE = "file", "repository", "repository file"
_MODEL_FLAGS = {
    "-m": _FILE,
    "--model": _FILE,
    "-hf": _REPOSITORY,
    "-hfr": _REPOSITORY,
    "--hf-repo": _REPOSITORY,
    "-hff": _REPOSITORY_FILE,
    "--hf-file": _REPOSITORY_FILE,
}
"""What each flag that names the model names it by."""
_UNIFIED_CACHE = {"-kvu": True, "--kv-unified": True, "-no-kvu": False, "--no-kv-unified": False}
"""Flags that share one KV cache among all slots, or divide it."""


def read_arguments(arguments: Sequence[Any], table: FlagTable = FLAGS) -> ModelArguments:
    """The settings and the model of a command line, by the flags of a fork where `table` has those.

    The last one of a repeated flag counts, as for the server itself.

    >>> line = read_arguments(["llama-server", "-c", "8192", "-np", "2", "-fa", "--model", "/m/a-Q8_0.gguf", "--mlock"])
    >>> line.settings, line.context_tokens, line.file_path, line.quantization
    ({'flags': '--mlock', 'flash_attention': 'on', 'parallel': 2}, 4096, '/m/a-Q8_0.gguf', 'Q8_0')
    """
    words = [argument for argument in arguments if isinstance(argument, str)]
    command = parse_arguments(words, merge_tables([COMMON, table]))
    settings: dict[str, Any] = dict(command.settings)
    context = settings.pop("context", None)
    settings.pop("cards", None)  # `flags` names them one by one
    model: dict[str, str] = {}
    is_unified = False
    for name, values in group_by_flag(words):
        if name in _MODEL_FLAGS:
            model[_MODEL_FLAGS[name]] = values[0] if values else ""
        is_unified = _UNIFIED_CACHE.get(name, is_unified)
    flags = [flag for flag in command.unmapped if flag.split(" ")[0] not in _MODEL_FLAGS | _UNIFIED_CACHE]
    if flags:
        settings["flags"] = " ".join(flags)
    slots = settings.get("parallel") or 1
    file_name = model.get(_FILE) or model.get(_REPOSITORY_FILE) or model.get(_REPOSITORY) or ""
    return ModelArguments(
        settings=dict(sorted(settings.items())),
        context_tokens=context if context is None or is_unified else context // slots,
        file_path=model.get(_FILE),
        quantization=quantization_in(file_name.rpartition("/")[2].removesuffix(".gguf")),
    )
