"""What makes a number trustworthy."""

from app.web.term_entries import Entry

ENTRIES = (
    Entry(
        "limits",
        "What limits a result",
        "What takes most of TTFT and what keeps decode down, as far as it was measured: each with its figures and what "
        "to change, the one to change first in front. Where nothing measured tells, that is said instead.",
    ),
    Entry(
        "held-back",
        "Held back",
        "A GPU that lowers its clock against its will (throttling), because it is too hot or for a fault, as its "
        "driver says. A GPU at its power limit does what it is built for; that an idle one slows down is none.",
    ),
    Entry(
        "sample",
        "Sample",
        "One request with all that was seen of it. A point is one combination of prompt length, output length and "
        "concurrency; each is measured several times.",
    ),
    Entry(
        "median",
        "Median",
        "The value in the middle of all samples. One sample that went wrong hardly moves it, which is why it is "
        "the value shown.",
    ),
    Entry(
        "spread",
        "Spread",
        "How far samples are from each other. What stands behind the ± sign is the sample standard deviation.",
    ),
    Entry(
        "interval",
        "95 % interval",
        "Where the true value most likely is: of a hundred such intervals about 95 hold it. It needs three "
        "samples, and more of them make it narrower.",
        "mean of logarithms ± t x standard error (Student's t), as a factor around the value",
    ),
    Entry(
        "warm-up",
        "Warm-up",
        "Requests before those that count: they load, compile and fill what only the first one needs. They are "
        "kept and shown, but never in a statistic.",
    ),
    Entry(
        "slope",
        "Slope",
        "Prefill between two prompt lengths: what the extra tokens took. Everything that is the same for both, "
        "such as network and chat template, cancels out.",
        "more prompt tokens / more TTFT",
    ),
    Entry(
        "configuration",
        "Configuration",
        "All that shapes a result besides the prompt: engine, its version, model, quantization, settings and "
        "labels. Each run freezes it, and its fingerprint is the same wherever it is the same.",
    ),
    Entry(
        "suite",
        "Suite",
        "A fixed prompt, or several, with the length of the answer and the number of repetitions. Only results of "
        "the same suite are compared.",
    ),
    Entry(
        "baseline",
        "Baseline",
        "The run that every later one of the same machine, model and suite is compared with. A person pins it, and "
        "the verdict against it stands beside each later run.",
    ),
    Entry(
        "hidden",
        "Hidden run",
        "A run that a person took out of histories and statistics, with a reason. It stays readable and can come back.",
    ),
)
