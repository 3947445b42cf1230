"""The entries of the glossary: the words of the field in plain language, one short paragraph each."""

from dataclasses import dataclass

from app.sentences import first_sentence


@dataclass(frozen=True)
class Entry:
    key: str
    """Its anchor."""
    term: str
    text: str
    formula: str = ""
    covers: tuple[str, ...] = ()
    """Keys of the metrics that it explains."""

    @property
    def gist(self) -> str:
        """The first sentence."""
        return first_sentence(self.text)[0]


ANSWER = (
    Entry(
        "token",
        "Token",
        "The piece of text that a model reads and writes: a short word or a part of one. Every model cuts text in "
        "its own way, so the same prompt has a different number of tokens on another model.",
    ),
    Entry(
        "prefill",
        "Prefill",
        "Working through the prompt before the first token of the answer. All tokens of the prompt are computed "
        "together, so it is mostly limited by how much the hardware can compute. Where the server does not state "
        "its own timing, the speed over TTFT is a lower bound.",
        "fresh prompt tokens / prefill time",
        ("prefill_tokens_per_s",),
    ),
    Entry(
        "decode",
        "Decode",
        "Writing the answer, one token after the other. Each token needs all active weights and the KV cache read "
        "from memory once, so it is mostly limited by memory bandwidth.",
        "(n - 1) / (last token - first token)",
        ("decode_tokens_per_s",),
    ),
    Entry(
        "ttft",
        "TTFT",
        "Time to first token: how long a reader waits until anything appears. It holds the way to the server, its "
        "queue, the prefill and one step of decode.",
        "first token of any kind - sending of the request",
        ("ttft_ms",),
    ),
    Entry(
        "ttfa",
        "TTFA",
        "Time to first answer token. A reasoning model thinks before it answers: TTFT sees the first thought, "
        "this the first word of the answer.",
        "first token of the answer - sending of the request",
        ("ttfa_ms",),
    ),
    Entry(
        "tpot",
        "TPOT",
        "Time per output token after the first: decode speed turned upside down.",
        "(last token - first token) / (n - 1)",
        ("tpot_ms",),
    ),
    Entry(
        "itl",
        "ITL",
        "Inter-token latency: the pause between one token and the next, as a reader sees it. p50 is the middle "
        "pause, one in ten is longer than p90, one in a hundred longer than p99. Where an event of the stream "
        "holds several tokens it is called chunk gap.",
        "gaps between token events that follow each other",
        (
            "itl_ms_p50",
            "itl_ms_p90",
            "itl_ms_p99",
            "itl_ms_max",
        ),
    ),
    Entry(
        "e2e",
        "End to end (E2E)",
        "The whole time of a request, from sending it to its last token.",
        "last token - sending of the request = TTFT + (n - 1) x TPOT",
        ("e2e_ms",),
    ),
    Entry(
        "throughput",
        "Throughput",
        "All output tokens over the whole time, prefill included. With several streams at once it counts the "
        "tokens of all of them, so it rises while each single stream gets slower.",
        "output tokens / time",
        ("output_tokens_per_s",),
    ),
    Entry(
        "goodput",
        "Goodput",
        "Requests that were good enough, per second: those that met every limit that was set, such as TTFT below "
        "500 ms and TPOT below 50 ms. Throughput that nobody enjoys does not count.",
        "requests within all limits / time",
        ("goodput_requests_per_s",),
    ),
    Entry(
        "load-time",
        "Load time",
        "How long the server took to bring the model into memory before it could begin. It is kept apart from TTFT.",
        covers=("load_ms",),
    ),
    Entry(
        "energy",
        "Energy per token",
        "What a token of the answer costs in electricity, where a sensor tells the power: of the processors, and of "
        "those cards that worked meanwhile. Its reciprocal is decode per watt.",
        "mean power during decode / decode speed",
        ("joules_per_output_token",),
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
        "How many requests are under way at once. Slots, or parallel sequences, are what the server offers for "
        "them; who finds none waits in its queue.",
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
        "expert-cache",
        "Expert cache",
        "Experts of a large model that are kept in fast memory while the others wait in slower memory. The hit "
        "rate is the share of look-ups that found their expert there.",
        "hits / look-ups",
        ("expert_cache_hit_rate",),
    ),
    Entry(
        "speculative-decoding",
        "Speculative decoding",
        "A small and fast draft proposes several tokens, and the large model checks them in one step. It wins "
        "time when many are accepted; the text stays that of the large model.",
        "acceptance = accepted / drafted tokens",
        ("draft_acceptance",),
    ),
    Entry(
        "cached",
        "Fresh and cached prompts",
        "A server may keep what it computed for a prompt and skip it the next time. A cached prompt has a TTFT of "
        "next to nothing and says little about the hardware, so Roofmark defeats the cache unless a suite asks "
        "for the opposite. Only fresh tokens count for prefill.",
        "fresh tokens = prompt tokens - cached tokens",
        ("ttft_reused_ms",),
    ),
    Entry(
        "cold",
        "Cold and warm",
        "A cold server has to load the model, and its first request is slow for many small reasons. Numbers are "
        "taken warm.",
    ),
)

CEILING = (
    Entry(
        "roofline",
        "Roofline",
        "A chart of what hardware allows. Work that computes little for each byte it reads stands under the "
        "sloping roof of memory bandwidth, work that computes much under the flat roof of the compute peak.",
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
        ("mbu",),
    ),
    Entry(
        "mfu",
        "MFU",
        "Model FLOP utilisation: the share of the compute peak that prefill used for the model's own arithmetic.",
        "prefill speed x FLOPs of a prompt token / compute peak",
        ("mfu",),
    ),
)

TRUST = (
    Entry(
        "limits",
        "What limits a result",
        "What takes most of TTFT and what keeps decode down, as far as it was measured: each with its figures and what "
        "to change, the one to change first in front. Where nothing measured tells, that is said instead.",
    ),
    Entry(
        "held-back",
        "Held back",
        "A card that lowers its clock against its will (throttling), because it is too hot or for a fault, as its "
        "driver says. A card at its power limit does what it is built for; that an idle one slows down is none.",
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

VERDICTS = (
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
