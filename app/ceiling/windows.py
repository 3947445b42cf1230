"""Which layers slide: see no more than a window of the context."""

from app.core.i18n import _

FULL_EVERY = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gemma4": 6,
    "gemma_embedding": 6,
    "gpt_oss": 2,
    "cohere2": 4,
    "exaone4": 4,
    "exaone_moe": 4,
    "olmo2": 4,
    "olmo3": 4,
    "afmoe": 4,
    "llama4": 4,
    "smallthinker": 4,
    "recurrent_gemma": 3,
}
"""Families whose files have a sliding window but no pattern: each n-th layer sees everything."""


def slides_by_period(every: int, blocks: int) -> list[bool]:
    """Each `every`-th layer sees everything, the others slide; 0: all slide."""
    return [not every or (index + 1) % every != 0 for index in range(blocks)]


def slides_by_default(family: str, window: int, blocks: int) -> tuple[list[bool], bool, str]:
    """For a model that has a window but no pattern; whether the pattern is unknown, and what is taken for granted."""
    name = family.removesuffix("_text").replace("-", "_").replace("gptoss", "gpt_oss")
    if every := FULL_EVERY.get(name):
        sentence = _("no pattern beside the sliding window: 1 layer in {every} sees all", every=every)
        return slides_by_period(every, blocks), False, sentence
    sentence = _(
        "there is a sliding window of {window:,} tokens but no pattern, so all layers count as sliding, which "
        "reads the fewest bytes",
        window=window,
    )
    return [True] * blocks, True, sentence
