"""How a benchmark speaks."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    what: str
    measured: float
    yardstick: float
    unit: str
    """Of `measured` and `yardstick`; ratios are of the two."""
    goal: str
    reached: bool

    def __str__(self) -> str:
        ratio = self.measured / self.yardstick if self.yardstick else float("inf")
        mark = "ok " if self.reached else "!! "
        return (
            f"{mark} {self.what:<62} {self.measured:>10.3f} {self.unit:<6} "
            f"against {self.yardstick:>10.3f} {self.unit:<6} ratio {ratio:6.3f}   goal: {self.goal}"
        )


@dataclass(frozen=True)
class Budget:
    """What is not to be larger than so much."""

    what: str
    measured: float
    most: float
    unit: str

    @property
    def reached(self) -> bool:
        return self.measured <= self.most

    def __str__(self) -> str:
        mark = "ok " if self.reached else "!! "
        return (
            f"{mark} {self.what:<62} {self.measured:>10,.1f} {self.unit:<6} of at most {self.most:>7,.0f} {self.unit}"
        )


def at_most(what: str, measured: float, yardstick: float, unit: str, factor: float) -> Figure:
    return Figure(what, measured, yardstick, unit, f"at most {factor:g} x", measured <= factor * yardstick)


def in_turn(first: Callable[[], float], second: Callable[[], float], rounds: int) -> tuple[float, float]:
    """Medians of two measurements taken A B A B, so that a drifting machine touches both alike; one warm-up each."""
    first(), second()
    pairs = [(first(), second()) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def medians(rows: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.median(column) for column in zip(*rows, strict=True)]
