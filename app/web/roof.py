"""The words of a ceiling's panel: where each input comes from."""

from app.ceiling.geometry import Geometry, Source
from app.hardware.profile import CATALOGUE, MEASURED, SENSOR, TYPED
from app.store.machines import Stated
from app.store.models import Told

_GEOMETRY_SOURCES = {
    Source.GGUF: "read from the model's GGUF file",
    Source.CONFIG: "from its config.json",
    Source.OLLAMA: "as Ollama tells it",
    Source.LLAMA_CPP: "read from the GGUF file that the server named",
    Source.TYPED: "as typed",
}
_BANDWIDTH_SOURCES = {
    MEASURED: "measured on the machine",
    SENSOR: "from the hardware's own clocks and bus width",
    CATALOGUE: "from the catalogue",
    TYPED: "as typed",
}


def stated_words(stated: Stated) -> str:
    """`measured on the machine on 2026-11-02, a lower bound`"""
    when = f" on {stated.at:%Y-%m-%d}" if stated.at else ""
    later = ", after this run" if stated.is_later else ""
    note = f", {stated.note}" if stated.note else ""
    return f"{_BANDWIDTH_SOURCES[stated.source]}{when}{later}{note}"


def attention_words(geometry: Geometry) -> list[str]:
    """`15 see the last 512 tokens, 256 + 256 values a token`: those of K and V, or of the latent of MLA"""
    if geometry.attention is None:
        return []
    words = []
    for layers in geometry.attention:
        if not layers.k_elements:
            words.append(f"{layers.layers} use the cache of another layer")
            continue
        seen = f"the last {layers.window:,} tokens" if layers.window else "the whole context"
        kept = f"{layers.k_elements:,} + {layers.v_elements:,}" if layers.v_elements else f"{layers.k_elements:,}"
        words.append(f"{layers.layers} see {seen}, {kept} values a token")
    without = (geometry.blocks or 0) - sum(layers.layers for layers in geometry.attention)
    return [*words, f"{without} without attention"] if without > 0 else words


def told_words(told: Told) -> str:
    """`from its config.json, stated on 2026-11-29`"""
    when = f", stated on {told.stated_at:%Y-%m-%d}" if told.stated_at else ""
    return f"{_GEOMETRY_SOURCES[told.geometry.source]}{when}"
