"""Aphrodite, a fork of vLLM for hobbyists' quantizations: its own names for everything, vLLM's behaviour.

Read in its source at b42eeec (April 2026) and in v0.9.1, which calls the owner of its models `pygmalionai`; nothing
here is only documented. `cache_salt`, `min_tokens` and usage in every chunk work as in vLLM; per-request metrics are
not there. It answers for KoboldCpp's clients as well, but has no figures of the last request at `/api/extra/perf`.
"""

from app.engines.vllm import VLLM


class Aphrodite(VLLM):
    metric_prefix = "aphrodite:"
    metric_names = VLLM.metric_names.renamed(VLLM.metric_prefix, metric_prefix)
    key = "aphrodite"
    title = "Aphrodite"
    programs = ("aphrodite", "aphrodite-engine", "aphrodite.endpoints.openai.api_server")
    owned_by = ("aphrodite", "pygmalionai")
    default_ports = (2242,)
    imitates = ("koboldcpp",)


ENGINE = Aphrodite()
