"""Whether the model of a configuration fits the devices that hold it."""

from dataclasses import replace

from app import engines
from app.ceiling.bytes_per_step import step
from app.ceiling.fit import Fit, fit
from app.ceiling.layout import Layout, Memory
from app.db.tables import Config
from app.results.ceiling.cards import engine_of
from app.results.ceiling.placement import Placement


def fit_of(placement: Placement, config: Config, measured_context: int) -> Fit | None:
    """Returns how a placed model fills its devices at the context that one request may use; where the settings do not
    state it, at `measured_context`.

    None where the model's layers are unknown, and for an engine that keeps only the experts in use on cards: then
    nothing has to fit.
    """
    if engine_of(config.engine).caches_experts:
        return None
    stated = engines.with_flags(config.settings).get("context")
    context = stated if isinstance(stated, int) and stated > 0 else measured_context
    at_context = step(placement.geometry, context, placement.kv)
    return fit(_with_shared_memory(placement), placement.geometry, at_context, placement.kv) if at_context else None


def _with_shared_memory(placement: Placement) -> Layout:
    """Returns the layout in which a GPU that shares the system's memory has the size that its machine states: a ceiling
    leaves it out, since such a GPU may use more."""
    on_cards = [device_share for device_share in placement.device_shares if not device_share.is_ram]
    cards = tuple(
        Memory(card.device, card.capacity_bytes or device_share.memory_bytes)
        for card, device_share in zip(placement.layout.cards, on_cards, strict=True)
    )
    return replace(placement.layout, cards=cards)
