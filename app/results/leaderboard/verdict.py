"""What is certain about the rows of a leaderboard, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.i18n import N_, _, enumerated
from app.core.units import format_quantity
from app.metrics.base import Metric
from app.results.compare.words import change_words
from app.results.leaderboard.board import Leaderboard
from app.results.leaderboard.rows import Row
from app.stats.verdict import Ratio, Verdict, judge

MOST_COMPARED = 6
"""The most rows among which the best is looked for: a row further down is not it."""
MOST_NAMED = 3

_LEADS = {
    "decode_tokens_per_s": N_("Fastest here"),
    "prefill_tokens_per_s": N_("Fastest prefill here"),
    "ttft_ms": N_("Shortest TTFT here"),
}


@dataclass(frozen=True)
class Ranking:
    """Rows compared with the best one of them."""

    rows: Sequence[Row]
    """The best first."""
    ratios: Sequence[Ratio]
    """Each row after the first over the first, corrected for their number."""

    @property
    def leaders(self) -> list[Row]:
        """The best row, and those that are not certainly worse."""
        others = [
            row for row, ratio in zip(self.rows[1:], self.ratios, strict=True) if ratio.verdict is not Verdict.WORSE
        ]
        return [*self.rows[:1], *others]

    def ratio_of(self, row: Row) -> Ratio | None:
        """Returns a row over the best one; None for the best one itself."""
        return next((ratio for other, ratio in zip(self.rows[1:], self.ratios, strict=True) if other is row), None)


def ranking(rows: Sequence[Row], metric: Metric) -> Ranking:
    """Compares rows, of which the best is first, with that one."""
    if not rows:
        return Ranking((), ())
    results = {str(place): (rows[0].best.result, row.best.result) for place, row in enumerate(rows) if place}
    better: Mapping[str, str] = dict.fromkeys(results, metric.better)
    ratios = judge(results, better)  # type: ignore[arg-type]  # a literal from the metric
    return Ranking(rows, [ratios[place] for place in results])


def verdict_words(board: Leaderboard) -> list[str]:
    """Returns what is the best here and by how much, and how many rows did better before; empty without rows."""
    rows, metric = board.by_speed[:MOST_COMPARED], board.view.metric
    if not rows:
        return []
    ranked = ranking(rows, metric)
    below = sum(row.latest.is_worse for row in board.by_speed)
    sentences = [_best(ranked, metric)]
    if below:
        sentences.append(
            _(
                "{count} of {all} did better before: their latest configuration is worse than their best one, and not "
                "by chance.",
                count=below,
                all=len(board.by_speed),
            )
        )
    return sentences


def _best(ranked: Ranking, metric: Metric) -> str:
    lead = _(_LEADS[metric.key]) if metric.key in _LEADS else _("Best {metric} here", metric=metric.title)
    leaders, rows = ranked.leaders, ranked.rows
    if len(leaders) > 1:
        return _(
            "{lead}, without a certain difference: {rows}.",
            lead=lead,
            rows=enumerated(
                _("{row} ({value})", row=place_words(row), value=value_words(row, metric))
                for row in leaders[:MOST_NAMED]
            ),
        )
    if len(rows) == 1:
        return _("{lead}: {row}, {value}.", lead=lead, row=place_words(rows[0]), value=value_words(rows[0], metric))
    return _(
        "{lead}: {row}, {value}, {change} than {next}.",
        lead=lead,
        row=place_words(rows[0]),
        value=value_words(rows[0], metric),
        change=change_words(metric.key, 1 / ranked.ratios[0].value),
        next=place_words(rows[1]),
    )


def place_words(row: Row) -> str:
    """Returns model, quantization and machine in words."""
    return _("{model} on {machine}", model=row.title, machine=row.machine)


def value_words(row: Row, metric: Metric) -> str:
    """Returns the best of a row with its unit."""
    return format_quantity(row.best.value, metric.unit)
