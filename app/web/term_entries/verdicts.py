"""Verdicts of a comparison."""

from app.web.term_entries import Entry

ENTRIES = (
    Entry(
        "verdict",
        "Verdict",
        "What a comparison concludes, in one word: better, worse, same, mixed or inconclusive. It looks at TTFT, "
        "prefill and decode of the main point together, corrected for three looks. It is about one setting only where "
        "nothing else differs and nothing is unknown.",
        "ratio = median of the one / median of the base",
    ),
    Entry(
        "run-scatter",
        "Scatter between runs",
        "By how much runs of one unchanged configuration differ. Repetitions of one run share the same start of the "
        "engine, so only runs say it. It is estimated from the earlier runs of the machine; with little history it is "
        "combined with an assumption, which the page names.",
        "variance of a run's median = between-run variance + repetition variance / repetitions",
    ),
    Entry(
        "better",
        "Better",
        "The 95 % interval of the ratio excludes 1 on the good side and reaches beyond what counts as the same.",
    ),
    Entry(
        "worse",
        "Worse",
        "The 95 % interval of the ratio excludes 1 on the bad side and reaches beyond what counts as the same.",
    ),
    Entry(
        "same",
        "Same",
        "The whole interval of the ratio lies within 3 % of 1 (ROOFMARK_SAME_WITHIN), however certain the difference.",
    ),
    Entry(
        "mixed",
        "Mixed",
        "Some metrics are better and others worse.",
    ),
    Entry(
        "inconclusive",
        "Inconclusive",
        "The runs differ too much to tell, or one of them was disturbed. More runs settle the first; the page says "
        "about how many.",
    ),
    Entry(
        "comparable",
        "Comparable",
        "Two results may be set side by side only when suite, output length and concurrency agree; otherwise "
        "there is no verdict but a reason.",
    ),
)
