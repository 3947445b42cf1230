"""The input and the output of the rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from app.core.samples import Sample
from app.metrics import headline_metrics, is_usable, rounds_of
from app.results.ceiling.placement import Placement
from app.results.ceiling.points import PointCeiling

NOTABLE = 0.25
"""The share of a whole from which on a part of it counts."""


ORDER = (
    "swapping",
    "busy_cpu",
    "held_back",
    "loading",
    "thinking",
    "queue",
    "others_prefill",
    "cache",
    "offload",
    "stalls",
    "drafts",
    "kv_cache",
    "shared",
    "power_limit",
    "outside",
    "prompt",
    "bandwidth",
    "other",
    "unsteady",
)
"""The order of limits: first what spoils a result, then what is cheap to change, then what only other hardware
changes."""


@dataclass(frozen=True)
class Limit:
    """One thing that limits a result, with its evidence and what to do about it."""

    key: str
    """The name of its rule; see ORDER."""
    of: Literal["TTFT", "Decode"]
    sentence: str
    evidence: str
    """The figures in words, without a full stop."""
    remedy: str


@dataclass(frozen=True)
class Evidence:
    """What was measured at one point, and what is known of the hardware there."""

    samples: Sequence[Sample]
    ceiling: PointCeiling | None = None
    placement: Placement | None = None
    no_ceiling: str = ""
    """Why there is no ceiling, and what to do about it."""
    alone: Sequence[Sample] = ()
    """For a point with several streams, the samples of the same run and lengths with a single stream."""
    cpu_load_share_before: float | None = None
    """The load of all cores of the server's machine just before the run, 0 to 1."""
    on_cards_share: float | None = None
    """The share of the model that is on cards, 0 to 1, as the server reports it (see the `ServerMetric` named
    `gpu_share`)."""
    engine: str = ""
    """The engine's key; empty when it is unknown."""

    @cached_property
    def measured_samples(self) -> list[Sample]:
        """The samples without warm-ups and without those that reuse the cache."""
        return [sample for sample in self.samples if not sample.is_warmup and not sample.reuses_cache]

    @cached_property
    def usable(self) -> list[Sample]:
        """The measured samples that metrics may use."""
        return [sample for sample in self.measured_samples if is_usable(sample)]

    @cached_property
    def usable_alone(self) -> list[Sample]:
        """The usable ones among the samples of a lone stream."""
        return [sample for sample in self.alone if is_usable(sample)]

    @cached_property
    def reused(self) -> list[Sample]:
        """The samples that reuse the cache."""
        return [sample for sample in self.samples if not sample.is_warmup and sample.reuses_cache]

    @cached_property
    def rounds(self) -> list[list[Sample]]:
        """The measured samples by round; the first stream of each round has the sensor readings."""
        return rounds_of(self.measured_samples)

    @property
    def streams(self) -> int:
        """The concurrency of the point."""
        return self.samples[0].point.concurrency if self.samples else 1


def decodes(samples: Sequence[Sample]) -> list[float]:
    """Returns the decode speeds in tok/s of the samples that have one."""
    return [speed for sample in samples if (speed := headline_metrics(sample)["decode_tokens_per_s"])]
