"""Hugging Face's Text Generation Inference: one model, described at `/info`; usage in a chunk without choices."""

from app.engines.base import ServerInfo, SplitHabit
from app.engines.flags import Flag, FlagTable
from app.engines.http import ServerClient
from app.engines.openai import OpenAI
from app.engines.protocol.answers import count, object_at, string


class TGI(OpenAI):
    key = "tgi"
    title = "TGI"
    default_ports = (3000,)
    health_path = "/health"
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
