"""The glossary: what each word of the pages means, for the page `/glossary` and wherever the word is shown.

A metric brings its own entry (`app.metrics.base.Term`), and so does a flag of a sample; all others are here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from app.core import i18n
from app.core.i18n import N_, _, first_sentence
from app.metrics import FLAGS, metrics
from app.metrics.base import Metric


@dataclass(frozen=True)
class Entry:
    key: str
    """The anchor of the entry."""
    term: str
    text: str
    formula: str = ""
    names: tuple[str, ...] = ()
    """Further names that find the entry: the keys of the metrics that it explains."""
    former_keys: tuple[str, ...] = ()
    """Anchors of earlier versions, which still lead to it."""

    @property
    def gist(self) -> str:
        """The first sentence of the entry."""
        return first_sentence(self.text)[0]


READER = (
    Entry(
        "token",
        "Token",
        "The piece of text that a model reads and writes: a short word or a part of one. Every model cuts text in "
        "its own way, so the same prompt has a different number of tokens on another model.",
    ),
)

ENGINE = (
    Entry(
        "kv-cache",
        "KV cache",
        "What the model remembers of the tokens before, as a key and a value for each layer. It grows with the "
        "context and is read for every new token, so decode slows down in a long conversation. Its type (f16, "
        "q8_0) decides its size.",
        "layers x KV heads x head size x 2 x bytes per number, for each token",
    ),
    Entry(
        "context",
        "Context",
        "All tokens that the model sees at once: the prompt and the answer so far.",
    ),
    Entry(
        "quantization",
        "Quantization",
        "Weights stored with fewer bits than they were trained with: Q4_K_M takes about 4.85 bits instead of 16. "
        "The model becomes smaller and decode faster, as fewer bytes are read, at some loss of quality.",
        "file size in bits / parameters = bits per weight",
    ),
    Entry(
        "batching",
        "Batching",
        "Computing several requests together. The weights are read once for all of them, so the throughput grows "
        "while each stream loses little, until computing becomes the limit.",
    ),
    Entry(
        "concurrency",
        "Concurrency",
        "How many requests are in progress at once. The server has slots (parallel sequences) for them; a request "
        "without a slot waits in its queue.",
    ),
    Entry(
        "moe",
        "MoE",
        "Mixture of experts: a layer has many small networks, the experts, and a router chooses a few of them for "
        "each token. The model is large in memory, but a token reads only its active parameters; shared experts "
        "are always used.",
        "active parameters = everything but the experts + experts x used / all",
    ),
    Entry(
        "cold",
        "Cold and warm",
        "A cold server has to load the model, and its first request is slow for many small reasons. Results are "
        "measured warm.",
    ),
)

HARDWARE = (
    Entry(
        "roofline",
        "Roofline",
        "A chart of what hardware allows. Work with few operations for each byte it reads is limited by memory "
        "bandwidth, the sloping part; work with many by the compute peak, the flat part.",
        "attainable FLOP/s = min(peak, bandwidth x FLOPs per byte)",
    ),
    Entry(
        "ceiling",
        "Ceiling",
        "The speed that hardware cannot beat. For decode it follows from memory bandwidth and the bytes that a "
        "token must read, for prefill from the compute peak or one reading of the weights. A result above its "
        "ceiling means that an assumption is wrong.",
        "decode ceiling = memory bandwidth / bytes of a token",
    ),
    Entry(
        "bandwidth",
        "Memory bandwidth",
        "How many bytes a device reads from its memory in a second. Measured figures count before those of a "
        "catalogue; a measurement is a lower bound.",
    ),
    Entry(
        "mbu",
        "MBU",
        "Model bandwidth utilisation: the share of its ceiling that decode reached. Good results reach 60 to 85 %.",
        "decode speed x bytes of a token / memory bandwidth",
    ),
    Entry(
        "mfu",
        "MFU",
        "Model FLOP utilisation: the share of the compute peak that prefill used for the model's own arithmetic.",
        "prefill speed x FLOPs of a prompt token / compute peak",
    ),
)

TRUST = (
    Entry(
        "limits",
        "What limits a result",
        "What takes most of TTFT and what slows decode down, as far as it was measured: each with its evidence and a "
        "remedy, the one to try first in front. Where there is no evidence, the page says so.",
    ),
    Entry(
        "held-back",
        "Throttling",
        "A GPU that lowers its clock because it is too hot or has a fault, as its driver reports. A GPU at its power "
        "limit works as designed, and an idle GPU that slows down is not throttled.",
    ),
    Entry(
        "sample",
        "Sample",
        "One request with everything recorded of it. A point is one combination of prompt length, output length and "
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
        "How far samples are from each other. The number after the ± sign is the sample standard deviation.",
    ),
    Entry(
        "interval",
        "95 % interval",
        "Where the true value most likely is: of a hundred such intervals about 95 contain it. It needs three "
        "samples, and more of them make it narrower.",
        "mean of logarithms ± t x standard error (Student's t), as a factor around the value",
    ),
    Entry(
        "warm-up",
        "Warm-up",
        "Requests before those that count: the first ones load the model, compile kernels and fill caches. They are "
        "stored and shown, but never part of a statistic.",
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
        "All that shapes a result besides the prompt: engine, its version, model, quantization, settings and labels. "
        "Each run freezes it, and equal configurations have the same fingerprint.",
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
        "each later run shows its verdict against it.",
    ),
    Entry(
        "hidden",
        "Hidden run",
        "A run that a person excluded from histories and statistics, with a reason. It stays readable and can be "
        "shown again.",
    ),
)

VERDICTS = (
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
        "engine, so only several runs show it. It is estimated from the earlier runs of the machine; with little "
        "history it is combined with an assumption, which the page states.",
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
        "Two results are compared only when suite, output length and concurrency agree; otherwise there is a reason "
        "instead of a verdict.",
    ),
)


SECTIONS: Mapping[str, tuple[Entry, ...]] = {
    N_("What a reader feels"): READER,
    N_("What the engine does"): ENGINE,
    N_("What hardware allows"): HARDWARE,
    N_("What makes a number trustworthy"): TRUST,
    N_("Verdicts of a comparison"): VERDICTS,
}
"""The entries that do not belong to a metric."""
_SECTION_OF_METRICS = {"reader": "What a reader feels", "engine": "What the engine does"}


def sections() -> Mapping[str, tuple[Entry, ...]]:
    """Returns the sections in the reader's language: metrics after the other entries of their section, the flags of a
    sample last."""
    return _sections(i18n.language())


def entry(name: str) -> Entry | None:
    """Finds an entry by its own key or by that of a metric; returns None for an unknown key."""
    return _by_name(i18n.language()).get(name)


@cache
def _sections(_language: str) -> Mapping[str, tuple[Entry, ...]]:
    of_metrics: dict[str, dict[str, Entry]] = {}
    for metric in metrics().values():
        section = _SECTION_OF_METRICS[metric.term.section if metric.term else "reader"]
        added = _metric_entry(metric)
        by_key = of_metrics.setdefault(section, {})
        earlier = by_key.get(added.key)
        by_key[added.key] = replace(earlier, names=(*earlier.names, metric.key)) if earlier else added
    entries = {
        _(title): (*map(_translated, own), *of_metrics.get(title, {}).values()) for title, own in SECTIONS.items()
    }
    return {**entries, _("Flags of a sample"): tuple(map(_flag_entry, FLAGS))}


@cache
def _by_name(language: str) -> Mapping[str, Entry]:
    entries: Iterable[Entry] = (entry for section in _sections(language).values() for entry in section)
    return {name: entry for entry in entries for name in (entry.key, *entry.names, *entry.former_keys)}


def _metric_entry(metric: Metric) -> Entry:
    term = metric.term
    if term is None:
        return Entry(metric.key, metric.title, metric.explanation)
    return _translated(Entry(term.key, term.title, term.text, term.formula, names=(metric.key,)))


def _flag_entry(key: str) -> Entry:
    flag = FLAGS[key]
    former = (f"flag-{flag.former_key}",) if flag.former_key else ()
    text = i18n.joined(_(flag.sentence), _(flag.advice))
    return Entry(f"flag-{key}", flag_name(key).capitalize(), text, former_keys=former)


def _translated(entry: Entry) -> Entry:
    return replace(entry, term=_(entry.term), text=_(entry.text), formula=_(entry.formula) if entry.formula else "")


def flag_name(key: str) -> str:
    """Returns the title of a flag. Samples may have keys of flags that no longer exist; those are returned as they
    are."""
    return _(FLAGS[key].title) if key in FLAGS else key


def without_stop(sentence: str) -> str:
    """Returns a text without its final full stop, for use inside another sentence."""
    return sentence.rstrip(".。")
