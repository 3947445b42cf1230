"""Hugging Face's Text Generation Inference: one model, described at `/info`; usage in a chunk without choices.

Read in the source of 3.3.6-dev0 (db931fcf):

* `/health` runs a request of one token until the first one has succeeded and after each that failed; later it makes
  each shard allocate a tensor. `/info` is a constant, and the HTTP server opens only when the model is loaded.
* The chat endpoint has neither `ignore_eos` nor a switch of its prefix cache, and reports no cached tokens.
* Histograms at `/metrics`: whole requests, their queue, and each step of a batch by its method. Its
  `tgi_request_mean_time_per_token_duration` holds the prefill too and is no time per output token, so it is not read.
"""

from app.engines.base import ServerInfo, SplitHabit
from app.engines.flags import Flag, FlagTable
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
    flags = FlagTable({"--num-shard": Flag(("tensor_parallel",))})

    def detect(self, client: ServerClient) -> ServerInfo | None:
        info = object_at(client, "/info")
        model, context = string(info.get("model_id")), count(info.get("max_total_tokens"))
        if model is None or not context:
            return None
        return self._server_info({model: {}}, string(info.get("version")), context)


ENGINE = TGI()
