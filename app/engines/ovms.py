"""OpenVINO Model Server: OpenAI's API under `/v3`, its own facts at `/v2`.

Read in its source at 7e4df0c (after v2026.3), and in v2025.4 where that differs; nothing here is only documented.
Newer versions answer under `/v1` as well, older ones do not. Answers hold no durations, and usage no cached tokens. Its
prefix cache has no switch per request: a nonce. `stream_options` may hold nothing but `include_usage`. A role chunk
comes only where the first token has no text yet. Metrics are off by default, and name no device.
"""

from typing import Any

from app.engines.base import API_PREFIX, CompletionRequest, ServerInfo
from app.engines.flags import Flag, FlagTable, read_positive, read_type
from app.engines.http import ServerClient
from app.engines.openai import list_models
from app.engines.protocol.answers import object_at, string
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.trace_builder import Dialect

_NAME = "OpenVINO Model Server"
_PREFIX = "/v3"
_METRICS = MetricNames(loads={"requests_running": ("ovms_current_graphs",)})


class OVMS(PrometheusEngine):
    metric_names = _METRICS
    key = "ovms"
    title = "OpenVINO Model Server"
    programs = ("ovms", "model_server")
    owned_by = ("OVMS",)
    default_ports = (8000,)
    api_roots = (_PREFIX,)
    health_path = "/v2/health/ready"
    slots_option = "`--max_num_seqs`"
    prompt_options = "`--max_num_batched_tokens`"
    dialect = Dialect(is_named=True)
    flags = FlagTable(
        flags={
            "--max_num_seqs": Flag(("parallel",), read_positive),
            "--kv_cache_precision": Flag(("kv_type_k", "kv_type_v"), read_type),
            "--max_num_batched_tokens": Flag(("batch",), read_positive),
        },
        without_bytes=frozenset({"--cache_size", "--enable_prefix_caching", "--dynamic_split_fuse"}),
    )

    def detect(self, client: ServerClient) -> ServerInfo | None:
        metadata = object_at(client, "/v2")
        if metadata.get("name") != _NAME:
            return None
        client.api_prefix = _PREFIX
        return self._server_info(
            list_models(client), string(metadata.get("version")), capabilities={API_PREFIX: _PREFIX}
        )

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {"ignore_eos": True}


ENGINE = OVMS()
