"""Whether a run can serve as evidence about its configuration, and if not, why.

A worker stores what it observed as `Run.evidence["unsound"]`: a list of objects, each with its `kind` (see REASONS) and
the values that belong to it. Runs of earlier versions have no such list: it is derived from the load before the run and
from the warnings. Too much scatter of the repetitions is derived from the stored measurements.

The reasons are clauses such as "this machine was busy before the run (53 %)", for sentences that say why there is no
verdict.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlmodel import Session

from app.core.i18n import N_, _, english, enumerated, lower_first
from app.core.units import format_bytes
from app.db.measurements import unsound_evidence
from app.metrics import HEADLINE_METRICS, metrics
from app.metrics.sensors import BUSY_CPU_SHARE, throttle_words

MAX_VARIATION = 0.1
"""Coefficient of variation of the repetitions above which the median of a run says little."""

Disturbance = Mapping[str, Any]


def unsound_reasons(evidence: Mapping[str, Any], variation: Mapping[str, float | None]) -> tuple[str, ...]:
    """Returns why no verdict may rest on a run, in the reader's language; empty for a sound run.

    `evidence` is the run's. `variation` holds the coefficient of variation of the repetitions at the main point by
    metric: standard deviation / median, None when it is unknown.

    >>> unsound_reasons({"cpu_load_share_before": 0.53}, {"decode_tokens_per_s": 0.02})
    ('this machine was busy before the run (53 %)',)
    """
    reasons = [
        REASONS[disturbance["kind"]](disturbance)
        for disturbance in disturbances(evidence)
        if disturbance.get("kind") in REASONS
    ]
    wide = {
        key: share for key in HEADLINE_METRICS if (share := variation.get(key)) is not None and share > MAX_VARIATION
    }
    if wide:
        titles = enumerated(lower_first(metrics()[key].title) for key in wide)
        message = N_("{metric} varied by {percent:.0f} % within the run")
        if len(wide) > 1:
            message = N_("{metric} varied by up to {percent:.0f} % within the run")
        reasons.append(_(message, metric=titles, percent=100 * max(wide.values())))
    return tuple(dict.fromkeys(reasons))


def unsound_by_run(session: Session, public_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Returns the unsound_reasons of each run that has any, by public id; in one query, however many runs."""
    reasons = {
        public_id: unsound_reasons(row.evidence, row.variation)
        for public_id, row in unsound_evidence(session, public_ids, HEADLINE_METRICS).items()
    }
    return {public_id: texts for public_id, texts in reasons.items() if texts}


def distinct_reasons(reasons: Iterable[str]) -> tuple[str, ...]:
    """Returns the distinct reasons of several runs; of those that differ only in their values, the first.

    >>> distinct_reasons(["it was busy (98 %)", "it was busy (53 %)", "it swapped"])
    ('it was busy (98 %)', 'it swapped')
    """
    by_words: dict[str, str] = {}
    for reason in reasons:
        by_words.setdefault(re.sub(r"\d+", "", reason), reason)
    return tuple(by_words.values())


def disturbances(evidence: Mapping[str, Any]) -> Sequence[Disturbance]:
    """Returns what disturbed a run, as stored; for earlier versions it is derived from the rest of the evidence."""
    stored = evidence.get("unsound")
    return _of_earlier_version(evidence) if stored is None else stored


# --- what is stored --------------------------------------------------------------------------------------------------


def machine_busy(when: str, share: float) -> Disturbance:
    """Records that the machine was busy with other work; `when` is before or during the run; `share` is of all
    processors, without the server and Roofmark."""
    return {"kind": "machine_busy", "when": when, "share": round(share, 3)}


def server_shared() -> Disturbance:
    """Records that the server worked for another client during the run."""
    return {"kind": "server_shared"}


def server_restarted() -> Disturbance:
    """Records that the server restarted during the run."""
    return {"kind": "server_restarted"}


def models_changed(models: Sequence[str]) -> Disturbance:
    """Records that the server answered with different models during the run."""
    return {"kind": "models_changed", "models": list(models)}


def swapped(n_bytes: int) -> Disturbance:
    """Records that the machine swapped this many bytes during the run."""
    return {"kind": "swapped", "bytes": n_bytes}


def throttled(throttles: Sequence[str]) -> Disturbance:
    """Records that a GPU was throttled in some rounds and not in others; `throttles` such as `gpu0: temperature`."""
    return {"kind": "throttled", "throttles": list(throttles)}


def _machine_busy(disturbance: Disturbance) -> str:
    percent = 100 * disturbance["share"]
    if disturbance["when"] == "before":
        return _("this machine was busy before the run ({percent:.0f} %)", percent=percent)
    return _("other programs used this machine during the run ({percent:.0f} % of its processor)", percent=percent)


def _throttled(disturbance: Disturbance) -> str:
    return _(
        "a GPU was throttled in a part of the run ({why})",
        why=enumerated(map(throttle_words, disturbance["throttles"])),
    )


def _swapped(disturbance: Disturbance) -> str:
    if "bytes" not in disturbance:
        return _("this machine swapped during the run")
    return _("this machine swapped {swapped} during the run", swapped=format_bytes(disturbance["bytes"]))


REASONS: Mapping[str, Callable[[Disturbance], str]] = {
    "machine_busy": _machine_busy,
    "server_shared": lambda _each: _("the server worked for somebody else during the run"),
    "server_restarted": lambda _each: _("the server restarted during the run"),
    "models_changed": lambda _each: _("the server answered with different models during the run"),
    "swapped": _swapped,
    "throttled": _throttled,
}
"""Functions that return the clause of each kind."""

_WARNINGS = {
    " for somebody else during the run": server_shared(),
    "The server's counters began anew during the run": server_restarted(),
    "The server answered with different models during the run": models_changed(()),
    "This machine swapped ": {"kind": "swapped"},
}
"""Parts of warnings of earlier versions, which stored no list of disturbances."""


def _of_earlier_version(evidence: Mapping[str, Any]) -> list[Disturbance]:
    share = evidence.get("cpu_load_share_before")
    derived = [machine_busy("before", share)] if share is not None and share >= BUSY_CPU_SHARE else []
    warnings = [english(warning) for warning in evidence.get("warnings") or ()]
    return derived + [
        disturbance for text, disturbance in _WARNINGS.items() if any(text in warning for warning in warnings)
    ]
