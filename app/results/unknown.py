"""What is unknown of two runs, so that it may differ unseen."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.core.configuration import Snapshot
from app.core.i18n import N_, _
from app.core.unknown_settings import UnknownField, unknown_fields

START_TOLERANCE_S = 5.0
"""How far two readings of one process's start may be apart: it is reckoned from the machine's clock."""
HARDWARE = N_("Hardware")
_LOADS_MODELS = ("ollama",)
"""Engines whose process loads models anew, with settings of each."""


class Side(NamedTuple):
    """What is known of one run."""

    snapshot: Snapshot
    has_hardware: bool
    """Whether the devices were recorded."""
    process: Any
    """`Run.evidence["process"]`: the server's process, where it was seen."""


def unknown_between(before: Side, after: Side) -> list[UnknownField]:
    """Returns what at least one of two runs does not state. One process that served both runs had the same settings,
    known or not."""
    if _served_both(before, after):
        return []
    fields = unknown_fields(before.snapshot, after.snapshot)
    is_hardware_known = before.has_hardware and after.has_hardware
    return fields if is_hardware_known else [*fields, UnknownField(_(HARDWARE))]


def is_same_process(before: Any, after: Any) -> bool:
    """Whether two runs were served by one process, as `Run.evidence["process"]` shows it: the same id and start.

    >>> is_same_process({"pid": 7, "started_at": 1e9}, {"pid": 7, "started_at": 1e9 + 1})
    True
    >>> is_same_process({"pid": 7, "started_at": 1e9}, {"pid": 7, "started_at": 2e9}), is_same_process(None, None)
    (False, False)
    """
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return False
    pids, starts = ([side.get(key) for side in (before, after)] for key in ("pid", "started_at"))
    if None in pids or not all(isinstance(start, int | float) for start in starts):
        return False
    return pids[0] == pids[1] and abs(starts[0] - starts[1]) <= START_TOLERANCE_S


def _served_both(before: Side, after: Side) -> bool:
    """Whether one process served both runs with the same model, and by itself."""
    first, second = before.snapshot, after.snapshot
    is_same_model = (first.engine, first.model, first.quantization) == (
        second.engine,
        second.model,
        second.quantization,
    )
    is_alone = first.engine not in _LOADS_MODELS and not any(
        key in snapshot.settings for key in ("gateway", "runs_on") for snapshot in (first, second)
    )
    return is_same_model and is_alone and is_same_process(before.process, after.process)
