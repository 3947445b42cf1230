"""Verdicts of a comparison."""

from app.web.term_entries import Entry

ENTRIES = (
    Entry(
        "verdict",
        "Verdict",
        "What a comparison says of a change in one word: better, worse, same or inconclusive. It rests on the ratio "
        "of the medians and its 95 % interval, and is about one setting only where nothing else differs.",
        "ratio = median of the one / median of the base",
    ),
    Entry(
        "noise-floor",
        "Noise floor",
        "By how much one repetition usually differs from the next although nothing was changed. A smaller change is "
        "called neither better nor worse, however many repetitions show it.",
        "standard deviation of the logarithms, the larger one of both sides",
    ),
    Entry(
        "better",
        "Better",
        "The interval of the ratio leaves out 1 on the good side, and the change exceeds the noise floor.",
    ),
    Entry(
        "worse",
        "Worse",
        "The interval of the ratio leaves out 1 on the bad side, and the change exceeds the noise floor.",
    ),
    Entry(
        "same",
        "Same",
        "The whole interval of the ratio lies within 3 % around 1: no difference worth a thought.",
    ),
    Entry(
        "inconclusive",
        "Inconclusive",
        "The samples spread too much to tell. More repetitions settle it; about how many is said beside it.",
    ),
    Entry(
        "comparable",
        "Comparable",
        "Two results may be set side by side only when suite, output length and concurrency agree; otherwise "
        "there is no verdict but a reason.",
    ),
)
