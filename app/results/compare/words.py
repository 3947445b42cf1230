"""How a change is worded: pages, commands, shares, their pictures and notifications all take it from here.

A speed is slower or faster, a time longer or shorter, any other quantity lower or higher. The sign says whether that is
good, so that no colour is needed.
"""

from collections.abc import Mapping

from app.core.i18n import N_, _, enumerated, joined, lower_first
from app.core.units import format_quantity, format_size
from app.metrics import metrics
from app.results.compare.result import Comparison
from app.stats.verdict import Ratio, Verdict, overall

SIGNS: Mapping[str, str] = {"better": "▲", "worse": "▼", "same": "=", "inconclusive": "?", "mixed": "◆"}
"""A sign for each verdict."""
LEGEND: Mapping[str, str] = {
    "better": N_("better"),
    "worse": N_("worse"),
    "same": N_("the same"),
    "inconclusive": N_("inconclusive"),
    "mixed": N_("mixed"),
}
"""What the signs mean."""

_SPEED = (N_("{percent} % slower"), N_("{percent} % faster"))
_TIME = (N_("{percent} % shorter"), N_("{percent} % longer"))
_AMOUNT = (N_("{percent} % lower"), N_("{percent} % higher"))


def change_words(key: str, ratio: float) -> str:
    """Returns the change of a metric in words; `ratio` is over the value before.

    >>> change_words("decode_tokens_per_s", 0.49), change_words("ttft_ms", 1.12), change_words("ttft_ms", 1)
    ('51 % slower', '12 % longer', 'unchanged')
    """
    return unit_change_words(metrics()[key].unit, ratio)


def unit_change_words(unit: str, ratio: float) -> str:
    """Returns the same for any quantity of this unit.

    >>> unit_change_words("tok/s", 0.49), unit_change_words("%", 1.12)
    ('51 % slower', '12 % higher')
    """
    percent = format_size(ratio - 1)
    if percent == "0.0":
        return _("unchanged")
    less, more = _pair(unit)
    return _(more if ratio > 1 else less, percent=percent)


def metric_change(key: str, ratio: float) -> str:
    """Returns the change of a metric with its name.

    >>> metric_change("decode_tokens_per_s", 0.923), metric_change("joules_per_output_token", 1.5)
    ('decode 7.7 % slower', 'energy per token 50 % higher')
    """
    return _named(key, change=change_words(key, ratio))


def ratio_words(key: str, ratio: Ratio) -> str:
    """Returns what may be concluded about one metric: `51 % slower`, `the same`, `5.1 % slower (inconclusive)`."""
    if ratio.verdict is Verdict.SAME:
        return _("the same")
    change = change_words(key, ratio.value)
    return _("{change} (inconclusive)", change=change) if ratio.verdict is Verdict.INCONCLUSIVE else change


def verdict_words(ratios: Mapping[str, Ratio]) -> str:
    """Returns what may be concluded about several metrics together, such as `decode 51 % slower and TTFT 12 % longer;
    prefill the same`; what changed comes first, the largest change before the others. Empty without ratios."""
    settled = [key for key, ratio in ratios.items() if ratio.verdict in (Verdict.BETTER, Verdict.WORSE)]
    settled.sort(key=lambda key: -_size(ratios[key]))
    same = [key for key, ratio in ratios.items() if ratio.verdict is Verdict.SAME]
    changed = enumerated(_named(key, change=ratio_words(key, ratios[key])) for key in settled) if settled else ""
    alike = _named(*same, change=_("the same")) if same else ""
    unclear = [
        _named(key, change=change_words(key, ratio.value))
        for key, ratio in ratios.items()
        if ratio.verdict is Verdict.INCONCLUSIVE
    ]
    open_words = _("perhaps {changes}", changes=enumerated(unclear)) if unclear else ""
    return joined(changed, alike, open_words, by="; ")


def brief_words(ratios: Mapping[str, Ratio]) -> str:
    """Returns the same in a few words for a list: the largest settled change, of a mixed verdict one of each kind."""
    verdict = overall(ratio.verdict for ratio in ratios.values())
    if verdict not in (Verdict.BETTER, Verdict.WORSE, Verdict.MIXED):
        return _(LEGEND[verdict]) if verdict else ""
    largest = {
        side: max((key for key, ratio in ratios.items() if ratio.verdict is side), key=lambda key: _size(ratios[key]))
        for side in (Verdict.WORSE, Verdict.BETTER)
        if any(ratio.verdict is side for ratio in ratios.values())
    }
    return joined(*(metric_change(key, ratios[key].value) for key in largest.values()), by=", ")


def sign(verdict: Verdict | str | None) -> str:
    """Returns the sign of a verdict; empty without one."""
    return SIGNS[verdict] if verdict else ""


def best_words(comparison: Comparison) -> str:
    """Returns which of several subjects has the best decode speed, and against the base; empty for two, and where no
    decode speed is known."""
    row = next((row for row in comparison.main_rows if row.metric == "decode_tokens_per_s"), None)
    if row is None or row.best is None or len(comparison.subjects) == 2:
        return ""
    cell, name, base = row.cells[row.best], comparison.subjects[row.best].name, comparison.subjects[0].name
    figure = format_quantity(cell.value, row.unit)
    if cell.ratio is None:
        return _("{name} decodes fastest, at {figure}.", name=name, figure=figure)
    change = ratio_words(row.metric, cell.ratio)
    if cell.ratio.verdict is Verdict.SAME:
        return _("{name} decodes fastest, at {figure}, about the same as {base}.", name=name, figure=figure, base=base)
    return _(
        "{name} decodes fastest, at {figure}: {change} than {base}.", name=name, figure=figure, change=change, base=base
    )


def incomparable_words(comparison: Comparison, is_named: bool = True) -> tuple[str, ...]:
    """Returns what makes subjects incomparable, or compares more than it seems: other suites, and other machines; their
    names only with `is_named`."""
    suites, machines = (
        list(dict.fromkeys(getattr(subject, part) for subject in comparison.subjects))
        for part in ("suite_key", "machine")
    )
    sentences = []
    if len(suites) > 1:
        named = _("They cannot be compared: they are of different suites, {names}.", names=enumerated(suites))
        sentences.append(named if is_named else _("They cannot be compared: they are of different suites."))
    if len(machines) > 1:
        named = _(
            "They are of different machines, {names}, so a difference may be the machine's.", names=enumerated(machines)
        )
        unnamed = _("They are of different machines, so a difference may be the machine's.")
        sentences.append(named if is_named else unnamed)
    return tuple(sentences)


def _pair(unit: str) -> tuple[str, str]:
    if unit.endswith("/s"):
        return _SPEED
    return _TIME if unit == "ms" else _AMOUNT


def _named(*keys: str, change: str) -> str:
    names = enumerated(lower_first(metrics()[key].title) for key in keys)
    return _("{metric} {change}", metric=names, change=change)


def _size(ratio: Ratio) -> float:
    """Returns how large a change is: half is as large as double."""
    return max(ratio.value, 1 / ratio.value) if ratio.value > 0 else float("inf")
