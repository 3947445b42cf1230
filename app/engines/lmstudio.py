"""LM Studio by its own REST API, which tells of each model what is loaded and adds `stats` to each answer."""

from collections.abc import Mapping
from typing import Any, ClassVar

from app.engines._chat import Dialect
from app.engines._chunk import count
from app.engines._figures import Stated, ms_of, of_timings
from app.engines._health import health_of
from app.engines._models import file_stem, listed_models, quantization_in, shown_name
from app.engines._probing import object_at, string
from app.engines.base import Facts, Health, ModelFacts
from app.engines.openai import OpenAI
from app.http import ServerClient
from app.samples import ServerFigures

MODELS = "/api/v0/models"
_ANSWERING = ("llm", "vlm")


def _figures(stated: Stated) -> ServerFigures | None:
    """Its time to the first token is no time of the prompt alone, so it stays in the raw figures only."""
    stats = stated.objects.get("stats")
    if not stats:
        return of_timings(stated)
    return ServerFigures(
        output_tokens=stated.output_tokens,
        decode_ms=ms_of(stats.get("generation_time")),
        raw={**stated.raw("stats"), **{f"runtime_{key}": value for key, value in stated.raw("runtime").items()}},
    )


class LMStudio(OpenAI):
    key: ClassVar[str] = "lmstudio"
    title: ClassVar[str] = "LM Studio"
    default_ports: ClassVar[tuple[int, ...]] = (1234,)
    rank: ClassVar[int] = 34
    path: ClassVar[str] = "/api/v0/chat/completions"
    dialect: ClassVar[Dialect] = Dialect(figures=_figures)
    fixed_length: ClassVar[bool | None] = False

    def recognise(self, client: ServerClient) -> Facts | None:
        listed = listed_models(object_at(client, MODELS))
        if listed is None:
            return None
        answering = {name: entry for name, entry in listed.items() if entry.get("type") in _ANSWERING}
        models = [_model(name, entry) for name, entry in answering.items()]
        models.sort(key=lambda model: answering[model.id].get("state") != "loaded")
        notes = () if models else ("LM Studio has no model: download one first.",)
        return Facts(self.key, None, tuple(models), notes=notes)

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get(MODELS))


ENGINE = LMStudio()


def _model(name: str, entry: Mapping[str, Any]) -> ModelFacts:
    return ModelFacts(
        id=name,
        name=shown_name(name),
        quantization=string(entry.get("quantization")) or quantization_in(file_stem(name)),
        context_tokens=count(entry.get("loaded_context_length")) or None,
        max_context_tokens=count(entry.get("max_context_length")) or None,
    )
