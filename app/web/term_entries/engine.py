"""What the engine does."""

from app.web.term_entries import Entry

ENTRIES = (
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
