"""What ratios and the scatter between runs mean, in sentences of the reader's language."""

from collections.abc import Iterable, Mapping

from app.core.i18n import N_, _, enumerated, joined, lower_first, ngettext
from app.core.units import plural
from app.metrics import metrics
from app.results.compare.result import Comparison
from app.stats.runs import RunScatter
from app.stats.verdict import MANY_RUNS, Ratio, Verdict


def ratio_note(ratio: Ratio) -> str:
    """What would settle an inconclusive ratio; empty for any other, and where a disturbance is why."""
    if ratio.verdict is not Verdict.INCONCLUSIVE:
        return ""
    if ratio.additional_runs_needed is not None:
        return _about(ratio.additional_runs_needed)
    return ""


def runs_to_settle(ratios: Iterable[Ratio]) -> int | None:
    """How many more runs of each would settle all of them; None where none is open, or one needs too many."""
    needed = [ratio.additional_runs_needed for ratio in ratios if ratio.verdict is Verdict.INCONCLUSIVE]
    return None if not needed or None in needed else max(runs for runs in needed if runs is not None)


def settle_words(ratios: Iterable[Ratio]) -> str:
    """What would settle an inconclusive comparison; empty where nothing is open."""
    ratios = list(ratios)
    if all(ratio.verdict is not Verdict.INCONCLUSIVE for ratio in ratios):
        return ""
    runs = runs_to_settle(ratios)
    if runs is None:
        return _("More than {many} more runs of each would be needed to settle it.", many=MANY_RUNS)
    return _about(runs)


def _about(runs: int) -> str:
    return ngettext("About {n} more run of each would settle it.", "About {n} more runs of each would settle it.", runs)


def unsound_words(reasons: Iterable[str]) -> str:
    """Why a verdict is inconclusive whatever the figures say; empty without a reason."""
    reasons = list(reasons)
    return _("No verdict can rest on it: {reasons}.", reasons=enumerated(reasons)) if reasons else ""


def unsound_run_words(reasons: Iterable[str]) -> str:
    """Why no verdict can rest on a run by itself; empty without a reason."""
    reasons = list(reasons)
    return _("No verdict can rest on this run: {reasons}.", reasons=enumerated(reasons)) if reasons else ""


def scatter_words(scatters: Mapping[str, RunScatter]) -> str:
    """How much runs of one configuration differ, by metric: which part is history and which assumed."""
    seen = {key: scatter for key, scatter in scatters.items() if scatter.history_deviation is not None}
    assumed = {key: scatter.assumed_deviation for key, scatter in scatters.items() if scatter.assumed_deviation}
    local = {key: scatter for key, scatter in seen.items() if not scatter.is_elsewhere}
    elsewhere = {key: scatter for key, scatter in seen.items() if scatter.is_elsewhere}
    n_all = len(scatters)
    return joined(
        _history_sentence(
            N_("Runs of one configuration differ by {figures} here ({configurations}, {runs})."), local, n_all
        ),
        _history_sentence(
            N_("Runs of one configuration differ by {figures} on other machines ({configurations}, {runs})."),
            elsewhere,
            n_all,
        ),
        _assumption_sentence(
            N_("That is a short history, so it is combined with an assumed {figures}."),
            {key: deviation for key, deviation in assumed.items() if key in seen},
            n_all,
        ),
        _assumption_sentence(
            N_("The rest has no history yet: runs are assumed to differ by {figures}.")
            if seen
            else N_("No history yet: runs of one configuration are assumed to differ by {figures}."),
            {key: deviation for key, deviation in assumed.items() if key not in seen},
            n_all,
        ),
    )


def pair_scatter_words(comparison: Comparison, place: int) -> str:
    """How much runs differ, as the verdict on the `place`-th subject assumes it; two machines have a sentence each."""
    sides = comparison.subjects[0], comparison.subjects[place]
    if sides[0].machine == sides[1].machine:
        return scatter_words(comparison.main_scatters(place))
    texts = [scatter_words(comparison.main_scatters(side_place)) for side_place in (0, place)]
    named = zip(sides, texts, strict=True)
    return joined(*(_("On {machine}: {sentence}", machine=side.machine, sentence=text) for side, text in named if text))


def _history_sentence(message: str, scatters: Mapping[str, RunScatter], n_all: int) -> str:
    if not scatters:
        return ""
    return _(
        message,
        figures=_figures({key: scatter.history_deviation for key, scatter in scatters.items()}, n_all),
        configurations=plural(max(scatter.configurations for scatter in scatters.values()), "configuration"),
        runs=plural(max(scatter.runs for scatter in scatters.values()), "run"),
    )


def _assumption_sentence(message: str, deviations: Mapping[str, float | None], n_all: int) -> str:
    return _(message, figures=_figures(deviations, n_all)) if deviations else ""


def _figures(deviations: Mapping[str, float | None], n_all: int) -> str:
    """`2.1 % (decode) and 3 % (prefill)`; the same figure for all `n_all` metrics once."""
    texts = {key: _percent(deviation) for key, deviation in deviations.items() if deviation is not None}
    if len(set(texts.values())) == 1 and len(texts) == n_all:
        return next(iter(texts.values()))
    return enumerated(
        _("{figure} ({metric})", figure=text, metric=lower_first(_(metrics()[key].title)))
        for key, text in texts.items()
    )


def _percent(deviation: float) -> str:
    return _("less than 0.1 %") if deviation < 0.001 else f"{100 * deviation:.2g} %"
