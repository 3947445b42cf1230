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
    started, started_again = before.get("started_at"), after.get("started_at")
    if not (isinstance(started, int | float) and isinstance(started_again, int | float)):
        return False
    is_same_pid = before.get("pid") is not None and before.get("pid") == after.get("pid")
    return is_same_pid and abs(started - started_again) <= START_TOLERANCE_S


def _served_both(before: Side, after: Side) -> bool:
    """Whether one process served both runs with the same model, and by itself."""
    first, second = before.snapshot, after.snapshot
    models = [(snapshot.engine, snapshot.model, snapshot.quantization) for snapshot in (first, second)]
    is_alone = first.engine not in _LOADS_MODELS and not any(
        key in snapshot.settings for key in ("gateway", "runs_on") for snapshot in (first, second)
    )
    return models[0] == models[1] and is_alone and is_same_process(before.process, after.process)
