"""What a reader feels."""

from app.web.term_entries import Entry

ENTRIES = (
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
        "those GPUs that worked meanwhile. Its reciprocal is decode per watt.",
        "mean power during decode / decode speed",
        ("joules_per_output_token",),
    ),
)
