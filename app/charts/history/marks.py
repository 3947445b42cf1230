"""What changed and when, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from app.configuration import changes
from app.store.configs import Described
from app.store.listing import HistoryPoint

MAX_MARKS = 12
"""Of more configuration changes, the newest are marked."""


@dataclass(frozen=True)
class Mark:
    at: datetime
    text: str


def marks_of(
    points: Sequence[HistoryPoint], configs: Mapping[int, Described], engine_titles: Mapping[str, str]
) -> list[Mark]:
    """Where a server's configuration differs from that of its run before, in words."""
    by_server: dict[int, list[HistoryPoint]] = {}
    for point in points:
        by_server.setdefault(point.server_id, []).append(point)
    switches = [
        (then, today)
        for runs in by_server.values()
        for then, today in pairwise(runs)
        if then.config_id != today.config_id
    ]
    switches.sort(key=lambda pair: pair[1].started_at)
    return [
        Mark(today.started_at, _words(configs[then.config_id], configs[today.config_id], engine_titles))
        for then, today in switches[-MAX_MARKS:]
    ]


def _words(then: Described, today: Described, engine_titles: Mapping[str, str]) -> str:
    return f"{today.server}: {'; '.join(changes(then.snapshot, today.snapshot, engine_titles))}"
