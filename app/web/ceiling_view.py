"""The words of a ceiling's panel: where each input comes from."""

from app.ceiling.geometry import Attention, Geometry, Source
from app.core.i18n import N_, _
from app.db.models import KnownGeometry

_GEOMETRY_SOURCES = {
    Source.GGUF: N_("read from the model's GGUF file"),
    Source.CONFIG: N_("from its config.json"),
    Source.OLLAMA: N_("as Ollama tells it"),
    Source.LLAMA_CPP: N_("read from the GGUF file that the server named"),
    Source.TYPED: N_("as typed"),
}


def attention_words(geometry: Geometry) -> list[str]:
    """`15 see the last 512 tokens, 256 + 256 values a token`: those of K and V, or of the latent of MLA"""
    if geometry.attention is None:
        return []
    words = []
    for layers in geometry.attention:
        if not layers.k_elements:
            words.append(_("{layers} use the cache of another layer", layers=layers.layers))
            continue
        values = f"{layers.k_elements:,} + {layers.v_elements:,}" if layers.v_elements else f"{layers.k_elements:,}"
        words.append(
            _("{layers} see {seen}, {kept} values a token", layers=layers.layers, seen=_seen(layers), kept=values)
        )
    without = (geometry.blocks or 0) - sum(layers.layers for layers in geometry.attention)
    return [*words, _("{without} without attention", without=without)] if without > 0 else words


def _seen(layers: Attention) -> str:
    """Which part of the cache a layer reads."""
    if layers.compression and layers.top_k:
        return _(
            "the last {window:,} tokens and {top_k:,} picked entries, one for each {compression:,} tokens",
            window=layers.window or 0,
            top_k=layers.top_k,
            compression=layers.compression,
        )
    if layers.compression:
        return _(
            "the last {window:,} tokens and an entry for each {compression:,} tokens",
            window=layers.window or 0,
            compression=layers.compression,
        )
    if layers.top_k:
        return _("{top_k:,} picked tokens", top_k=layers.top_k)
    if layers.chunk:
        return _("their chunk of {chunk:,} tokens", chunk=layers.chunk)
    return _("the last {window:,} tokens", window=layers.window) if layers.window else _("the whole context")


def told_words(known_geometry: KnownGeometry) -> str:
    """Says where a model's geometry comes from: `from its config.json, stated on 2026-11-29`."""
    when = _(", stated on {stated_at:%Y-%m-%d}", stated_at=known_geometry.stated_at) if known_geometry.stated_at else ""
    return f"{_(_GEOMETRY_SOURCES[known_geometry.geometry.source])}{when}"
