"""Which cards of a machine hold a configuration's model, and how they share it: by its settings, else its engine's
habit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from app import engines
from app.ceiling.decode import Split
from app.core.errors import NotFound
from app.core.i18n import _
from app.db.machines import MachineDevice
from app.engines.base import Engine, SplitHabit

TENSOR_SPLITS = ("tensor", "row")


@dataclass(frozen=True)
class Unknown:
    """The reason why there is no ceiling, and what to do about it."""

    reason: str
    remedy: str
    about: str
    """Where the remedy is: machine, model or configuration."""
    is_measurable: bool = False
    """Whether Roofmark itself can measure what is missing, on the machine."""


@dataclass(frozen=True)
class Cards:
    """The cards that hold a model, and how they share it."""

    used: tuple[MachineDevice, ...]
    """The cards one by one, the fastest first; empty when the processor works alone."""
    split: Split = Split.LAYER
    shares: tuple[float, ...] = ()
    """The cards' relative shares; empty: in proportion to their memory."""
    stages: int = 1
    assumptions: tuple[str, ...] = ()


def cards_of(
    devices: Sequence[MachineDevice], settings: Mapping[str, object], engine: type[Engine], needed_bytes: int
) -> Cards | Unknown:
    """Works out which cards of a machine's `devices` hold a model whose weights take `needed_bytes`."""
    cards = [replace(device, count=1) for device in devices if device.kind != "ram" for _ in range(device.count)]
    cards.sort(key=lambda card: card.bandwidth_bytes_per_s or 0, reverse=True)
    ratios, stated = ratios_of(settings), non_negative_int(settings, "cards")
    if stated == 0 or non_negative_int(settings, "gpu_layers") == 0 or (stated is None and not cards):
        return Cards(())
    assumptions: list[str] = []
    count = stated if stated is not None else len(ratios) or None
    if count is not None and count > len(cards):
        return _too_few(count, len(cards))
    mode = settings.get("split_mode")
    if mode == "none":
        main = non_negative_int(settings, "main_gpu") or 0
        return Cards((cards[main],)) if main < len(cards) else _too_few(main + 1, len(cards))
    if count is None:
        if engine.split_habit is SplitHabit.LAYERS_IF_NEEDED and _fits(cards[0], needed_bytes):
            assumptions.append(_("{title} does not spread a model that fits one GPU", title=engine.title))
            return Cards((cards[0],), assumptions=tuple(assumptions))
        assumptions.append(_("the number of GPUs is not stated, so all of the machine's are assumed"))
    used = cards[:count]
    if len(used) > 1 and mode is None:
        assumptions.append(_habit(engine))
    split = (
        Split.TENSOR
        if mode in TENSOR_SPLITS or (mode is None and engine.split_habit is SplitHabit.TENSOR_PARALLEL)
        else Split.LAYER
    )
    used, shares = _shared(used, ratios, engine, assumptions)
    stages = non_negative_int(settings, "pipeline_parallel") or 1
    return Cards(tuple(used), split, tuple(shares), stages if split is Split.TENSOR else 1, tuple(assumptions))


def _too_few(stated: int, cards: int) -> Unknown:
    return Unknown(
        _(
            "The configuration uses {stated} GPUs, and the machine is known to have {cards}.",
            stated=stated,
            cards=cards,
        ),
        _("Add its GPUs, or correct the number of GPUs that the server uses."),
        "machine",
    )


def _fits(card: MachineDevice, needed_bytes: int) -> bool:
    return card.memory_bytes is not None and needed_bytes <= card.memory_bytes


def _habit(engine: type[Engine]) -> str:
    how = (
        _("tensor parallel is assumed, the default of {title}", title=engine.title)
        if engine.split_habit is SplitHabit.TENSOR_PARALLEL
        else _("a split by layers is assumed")
    )
    return _("the split mode is not stated, so {how}", how=how)


def _shared(
    used: list[MachineDevice], ratios: Sequence[float], engine: type[Engine], assumptions: list[str]
) -> tuple[list[MachineDevice], Sequence[float]]:
    """The cards that hold a part, and their shares."""
    if len(used) < 2:
        return used, ()
    if ratios:
        shares = [*ratios, *[0.0] * len(used)][: len(used)]  # as llama.cpp, which gives nothing to those not named
        holding = [(card, share) for card, share in zip(used, shares, strict=True) if share]
        parts = ", ".join(f"{card.name} {share:g}" for card, share in holding)
        assumptions.append(_("GPUs share the model as stated, the fastest GPU first: {parts}", parts=parts))
        return [card for card, _share in holding], [share for _card, share in holding]
    if engine.split_habit is SplitHabit.TENSOR_PARALLEL:
        return used, [1.0] * len(used)
    return used, ()


def ratios_of(settings: Mapping[str, object]) -> list[float]:
    """Parses the ratios of `tensor_split`; empty when it is not stated or makes no sense."""
    parts = [part for part in str(settings.get("tensor_split") or "").replace("/", ",").split(",") if part.strip()]
    try:
        ratios = [float(part) for part in parts]
    except ValueError:  # no numbers: as if not stated
        return []
    return ratios if all(0 <= ratio < 1e9 for ratio in ratios) and any(ratios) else []


@lru_cache(maxsize=64)
def engine_of(key: str) -> type[Engine]:
    """Returns the engine of this key; one that Roofmark does not know, as of an import, has no habits."""
    try:
        return type(engines.find(key))
    except NotFound:  # an engine of a later version: the defaults
        return Engine


def non_negative_int(settings: Mapping[str, object], key: str) -> int | None:
    """Returns a setting that is a whole number and not negative; else None."""
    value = settings.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
