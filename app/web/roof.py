"""The words of a ceiling's panel: where each input comes from."""

from app.ceiling.geometry import Geometry, Source
from app.hardware.profile import CATALOGUE, MEASURED, SENSOR, TYPED
from app.store.machines import Stated

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


def geometry_words(geometry: Geometry) -> str:
    return _GEOMETRY_SOURCES[geometry.source]
