"""The rows of a leaderboard: each model in one quantization on one machine, at the newest version of one suite.

The best of a row is that of its best configuration: the median of that configuration's runs, so that a single run that
went wrong, either way, decides nothing. Two models that share a name and have different ids are two models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from app.results.history.updates import Change
from app.stats.verdict import Ratio, Result


@dataclass(frozen=True)
class BestConfiguration:
    """The best configuration of a row. Figures are medians of its runs, in the metrics' units."""

    config_id: int
    value: float
    public_id: str
    """The run whose value is nearest to the median; of several the newest."""
    runs: int
    figures: Mapping[str, float | None]
    """The median of each metric of the leaderboard by key; None: never measured."""
    result: Result
    """Its newest runs, for verdicts."""


@dataclass(frozen=True)
class LatestRun:
    """The newest run of a row."""

    public_id: str
    at: datetime
    config_id: int
    value: float
    against_best: Ratio | None
    """Its configuration's newest runs over the best configuration; None when it is that one."""
    is_worse: bool
    """Whether its configuration is certainly worse than the best one, which is the best of several by chance, too."""


@dataclass(frozen=True)
class BuildChange:
    """What the newest engine update did to the configuration of the latest run."""

    old_version: str
    new_version: str
    at: datetime
    before: str
    """The public id of the last run with the old version."""
    after: str
    """The public id of the first run with the new version."""
    change: Change
    is_certain: bool
    """Whether the update certainly changed it: by its own runs, or by those of all models it was measured with."""


class BuildResult(NamedTuple):
    """The runs of one series with one version of its engine."""

    version: str
    at: datetime
    """When its first run started."""
    value: float
    """The median of the metric."""
    public_id: str
    """Its newest run."""
    runs: int


@dataclass(frozen=True)
class Row:
    """One model in one quantization on one machine."""

    model: str
    """Its name, in full where it has namesakes."""
    stored_name: str
    """Its name as runs are filtered by it."""
    quantization: str
    """Empty: not stated."""
    machine_id: int
    machine: str
    machine_slug: str
    engine: str
    """The key of the engine of the best configuration."""
    engine_version: str | None
    """The version of that engine; None: its server does not report it."""
    best: BestConfiguration
    particulars: str
    """In which settings the best configuration differs from the others of the row; often empty."""
    latest: LatestRun
    change: BuildChange | None
    trend: Sequence[tuple[float, float]]
    """The last year: the place in it, 0 to 1, and a value of the metric."""
    builds: Sequence[BuildResult]
    """The versions of the engine on today's hardware in order of time, for the settings that were measured with most of
    them."""
    config_ids: Sequence[int]
    """All of its configurations."""
    runs: int
    remote_host: str | None
    """The host that runs the model when the server only forwards requests to it."""

    @property
    def title(self) -> str:
        """Model and quantization."""
        return f"{self.model} {self.quantization}".strip()
