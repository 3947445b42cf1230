"""Histories with engine updates, made by hand or by chance."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import numpy as np

from app.core.config_settings import SETTINGS
from app.core.configuration import Snapshot
from app.db.configs import ConfigDescription
from app.metrics import metrics
from app.results.hardware import HardwareChange
from app.results.history.table import HistoryPoint, HistoryTable
from app.results.history.updates import Update, updates
from app.results.series import SeriesIndex

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
DECODE = metrics()["decode_tokens_per_s"]
REPETITIONS = 5
CV = 0.005
"""The relative standard deviation among the repetitions of a run."""
AUTOCORRELATION = 0.5
ALL_KNOWN: Mapping[str, Any] = {key: 1 for key, setting in SETTINGS.items() if setting.is_always_set}
"""Settings that leave nothing open."""


class Notebook:
    """Runs in the order in which they are added, one an hour."""

    def __init__(self) -> None:
        self.points: list[HistoryPoint] = []
        self.configs: dict[int, ConfigDescription] = {}
        self._ids: dict[tuple[Any, ...], int] = {}
        self._numbers = count()

    def add(
        self,
        version: str | None,
        *values: float | None,
        model: str = "Qwen3-8B",
        machine: int = 1,
        server: int = 1,
        prompt: str = "p",
        deviation: float = 0.3,
        settings: Mapping[str, Any] = ALL_KNOWN,
    ) -> list[HistoryPoint]:
        """Adds a run of the decode speed for each value, in tok/s."""
        key = version, model, machine, server, repr(settings)
        config_id = self._ids.setdefault(key, len(self._ids) + 1)
        snapshot = Snapshot("llama.cpp", version, model, "Q4_K_M", dict(settings))
        self.configs[config_id] = ConfigDescription(f"server {server}", snapshot, f"box {machine}", "", machine)
        added = []
        for value in values:
            number = next(self._numbers)
            at = START + timedelta(hours=number)
            readings = (value, deviation, REPETITIONS)
            added.append(HistoryPoint(f"run{number}", at, config_id, server, prompt, "[]", readings))
        self.points += added
        return added

    @property
    def index(self) -> SeriesIndex:
        return SeriesIndex(self.configs)

    def updates(self, hardware: Mapping[int, Sequence[HardwareChange]] | None = None) -> list[Update]:
        return updates(HistoryTable.of(self.points), [DECODE], self.index, hardware)


def simulated(
    chance: np.random.Generator,
    *,
    series: int,
    runs: int,
    versions: int = 8,
    between: float = 0.01,
    is_autocorrelated: bool = False,
    has_wrong_run: bool = False,
    ratio: float = 1.0,
) -> Notebook:
    """All series of a machine, measured `runs` times with each version in turn; decode changes by `ratio` with the
    version in the middle. `between` is the standard deviation between runs."""
    notebook = Notebook()
    states = chance.standard_normal(series)
    wrong = int(chance.integers(0, versions * runs * series)) if has_wrong_run else -1
    for version in range(versions):
        for _ in range(runs):
            noise = chance.standard_normal(series)
            rest = math.sqrt(1 - AUTOCORRELATION**2)
            states = AUTOCORRELATION * states + rest * noise if is_autocorrelated else noise
            for place, state in enumerate(states.tolist()):
                repetitions = CV * chance.standard_normal(REPETITIONS)
                level = 60 * (ratio if version >= versions // 2 else 1)
                value = level * math.exp(between * state + float(np.median(repetitions)))
                value *= 0.55 if len(notebook.points) == wrong else 1
                notebook.add(f"b{version}", value, model=f"m{place}", deviation=value * float(repetitions.std(ddof=1)))
    return notebook
