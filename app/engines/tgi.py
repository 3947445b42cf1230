"""Hugging Face's Text Generation Inference: one model, described at `/info`; usage in a chunk without choices.

Read in the source of 3.3.6-dev0 (db931fcf):

* `/health` runs a request of one token until the first one has succeeded and after each that failed; later it makes
  each shard allocate a tensor. `/info` is a constant, and the HTTP server opens only when the model is loaded.
* The chat endpoint has neither `ignore_eos` nor a switch of its prefix cache, and reports no cached tokens.
* Histograms at `/metrics`: whole requests, their queue, and each step of a batch by its method. Its
  `tgi_request_mean_time_per_token_duration` holds the prefill too and is no time per output token, so it is not read.
"""

from collections.abc import Mapping
from typing import ClassVar

from app.engines.base import ServerInfo, SplitHabit
from app.engines.flags import Flag, FlagTable, read_positive, read_type
from app.engines.http import ServerClient
from app.engines.protocol.answers import count, object_at, string
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine

_METRICS = MetricNames(
    requests=("tgi_request_success",),
    prompt_tokens=("tgi_request_input_length_sum",),
    output_tokens=("tgi_request_generated_tokens_sum",),
    seconds={
        "e2e_ms": ("tgi_request_duration",),
        "queue_ms": ("tgi_request_queue_duration",),
        "itl_ms": ('tgi_batch_inference_duration{method="decode"}',),
        "prefill_ms": ('tgi_batch_inference_duration{method="prefill"}',),
    },
    loads={"requests_running": ("tgi_batch_current_size",), "requests_waiting": ("tgi_queue_size",)},
)


class TGI(PrometheusEngine):
    metric_names = _METRICS
    key = "tgi"
    title = "TGI"
    programs = ("text-generation-launcher", "text-generation-inference")
    has_costly_paths = True
    default_ports = (3000,)
    health_path = "/info"
    split_habit = SplitHabit.TENSOR_PARALLEL
    slots_option = "`--max-batch-size`"
    prompt_options = "`--max-batch-prefill-tokens`"
    fixed_length = False
    flags = FlagTable(
        {
            "--num-shard": Flag(("tensor_parallel",)),
            "--max-total-tokens": Flag(("context",), read_positive),
            "--max-batch-size": Flag(("parallel",), read_positive),
            "--max-batch-prefill-tokens": Flag(("batch",), read_positive),
            "--kv-cache-dtype": Flag(("kv_type_k", "kv_type_v"), read_type),
        },
        ignored=frozenset((
            "--model-id", "--hostname", "--json-output", "--huggingface-hub-cache", "--weights-cache-override",
            "--master-addr", "--master-port", "--shard-uds-path", "--prometheus-port", "--max-concurrent-requests",
            "--max-best-of", "--max-stop-sequences", "--max-top-n-tokens", "--usage-stats", "--payload-limit",
            "--otlp-endpoint", "--otlp-service-name", "--cors-allow-origin", "--tokenizer-config-path",
        )),
        without_bytes=frozenset((
            "--max-input-tokens", "--max-input-length", "--max-batch-total-tokens", "--waiting-served-ratio",
            "--max-waiting-tokens", "--cuda-graphs", "--cuda-memory-fraction", "--validation-workers",
            "--disable-custom-kernels", "--graceful-termination-timeout",
        )),
        unmodelled=frozenset({"--quantize", "--speculate", "--sharded", "--rope-scaling", "--rope-factor"}),
    )  # fmt: skip
    environment: ClassVar[Mapping[str, str]] = {
        "NUM_SHARD": "--num-shard=",
        "MAX_TOTAL_TOKENS": "--max-total-tokens=",
        "MAX_INPUT_TOKENS": "--max-input-tokens=",
        "MAX_BATCH_SIZE": "--max-batch-size=",
        "MAX_BATCH_PREFILL_TOKENS": "--max-batch-prefill-tokens=",
        "MAX_BATCH_TOTAL_TOKENS": "--max-batch-total-tokens=",
        "KV_CACHE_DTYPE": "--kv-cache-dtype=",
        "QUANTIZE": "--quantize=",
        "SPECULATE": "--speculate=",
        "CUDA_GRAPHS": "--cuda-graphs=",
        "CUDA_MEMORY_FRACTION": "--cuda-memory-fraction=",
    }

    def detect(self, client: ServerClient) -> ServerInfo | None:
        info = object_at(client, "/info")
        model, context = string(info.get("model_id")), count(info.get("max_total_tokens"))
        if model is None or not context:
            return None
        return self._server_info({model: {}}, string(info.get("version")), context)


ENGINE = TGI()
