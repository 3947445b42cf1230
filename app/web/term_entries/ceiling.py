"""What hardware allows."""

from app.web.term_entries import Entry

ENTRIES = (
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
