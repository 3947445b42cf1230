"""ik_llama.cpp, a fork of llama.cpp with kernels of its own for quantized weights and mixtures of experts.

Read in its source at 8337e4c (August 2026; examples/server). It has llama.cpp's API, `timings` and log; what differs:

* Its `Server` header is its own, its `owned_by` llama.cpp's. Its `/props` has `model_name` and `n_ctx` and no
  `build_info`, and its list of models a `max_model_len`. It says its version nowhere.
* `/health` waits for the slots, and with LLAMA_HOTSWAP_ENABLED reads changed weights again, so `/props` is asked.
* `timings` has no `cache_n` (usage has the cached tokens), and `draft_by_depth`: drafted and accepted by position.
* Each answer ends with `finish_reason: stop`, also one that was cut at its length.
* Its clock starts at the first token, as llama.cpp's: n - 1 steps.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.core.samples import ServerFigures
from app.engines.base import ServerInfo
from app.engines.flags import FlagTable
from app.engines.http import ServerClient
from app.engines.llamacpp import LlamaCpp
from app.engines.llamacpp_args import FLAGS
from app.engines.openai import MODELS, list_models
from app.engines.protocol.answers import count, mapping, object_at, object_in
from app.engines.protocol.models import listed_models
from app.engines.protocol.server_timings import ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect


def _figures(usage: ReportedUsage) -> ServerFigures | None:
    """The figures in `timings`; `raw` has the drafts of each depth as plain numbers too."""
    figures = llamacpp_timings(usage)
    depths = usage.timings.get("draft_by_depth")
    if figures is None or not isinstance(depths, list):
        return figures
    numbers = {
        f"{name}_at_depth_{depth}": value
        for entry in map(mapping, depths)
        if (depth := count(entry.get("depth"))) is not None
        for name in ("draft_n", "draft_n_accepted")
        if (value := count(entry.get(name))) is not None
    }
    return replace(figures, raw={**figures.raw, **numbers})


class IkLlamaCpp(LlamaCpp):
    key = "ik_llama.cpp"
    title = "ik_llama.cpp"
    server_header = ("ik_llama.cpp",)
    imitates = ("llama.cpp",)
    health_path = "/props"
    # its llama-bench has no `-d`
    has_llama_bench = False
    dialect = Dialect(figures=_figures, is_named=True)
    # its own program is called llama-server, as llama.cpp's
    programs = ("ik_llama.cpp", "ik_llama", "ik-llama-cpp")
    flags = FlagTable(
        flags=FLAGS.flags,
        ignored=FLAGS.ignored,
        without_bytes=FLAGS.without_bytes
        | {
            "-fmoe", "--fused-moe", "-no-fmoe", "--no-fused-moe", "-amb", "--attention-max-batch", "-rtr",
            "--run-time-repack", "-thp", "--transparent-huge-pages", "-muge", "--merge-up-gate-experts", "-grt",
            "--graph-reduce-type", "-cuda", "--cuda-params",
        },
        unmodelled=FLAGS.unmodelled | {"-mla", "--mla-use", "-ser", "--smart-expert-reduction", "-mqkv", "-smgs"},
    )  # fmt: skip

    def detect(self, client: ServerClient) -> ServerInfo | None:
        info = super().detect(client)
        if info is not None or not _is_own_list(client):
            return info
        return self._describe_by(object_at(client, "/props"), list_models(client))

    def _has_shape(self, props: Mapping[str, Any]) -> bool:
        return props.keys() >= {"model_path", "model_name", "n_ctx"} and "build_info" not in props


ENGINE = IkLlamaCpp()


def _is_own_list(client: ServerClient) -> bool:
    models = listed_models(object_in(client.get(MODELS))) or {}
    return any(entry.get("owned_by") == "llamacpp" and "max_model_len" in entry for entry in models.values())
