"""Text in a stream that is not the model's: a gateway's own words while it loads a model or holds a connection open.

The chunks of an answer bear its `id` and `model`; a gateway's words bear neither, or others. A stream whose answer
bears neither is read as it is, so the rule is relative to what the answer itself has.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.engines.protocol.answers import mapping
from app.engines.protocol.openai_chunk import finish_reason, first_choice


class Origin(NamedTuple):
    """What a chunk bears of the answer that it belongs to."""

    id: str
    model: str
    """Empty, as `id`, where the chunk has none."""
    has_token: bool
    opens: bool
    """The chunk may be the first one of an answer: it has token text, or a role without an end."""

    @property
    def is_named(self) -> bool:
        return bool(self.id or self.model)


def origin_of(chunk: Mapping[str, Any], *, has_token: bool) -> Origin:
    identifier, model = chunk.get("id"), chunk.get("model")
    has_role = bool(mapping(first_choice(chunk).get("delta")).get("role"))
    return Origin(
        "" if identifier is None else str(identifier).strip(),
        model.strip() if isinstance(model, str) else "",
        has_token,
        has_token or (has_role and finish_reason(chunk) is None),
    )


def chatter_in(origins: Sequence[Origin], *, is_named: bool = False) -> frozenset[int]:
    """The positions of the chunks whose token text is not the model's.

    `is_named`: the chunks of an answer are known to bear a name, so that text without one is chatter even where no
    answer follows it. Elsewhere text without a name is chatter in front of an answer that bears one, and among its
    text; but behind the only named text it is the answer's: some servers name an answer in its first chunk only.

    >>> words, first, more = Origin("", "", True, True), Origin("a", "m", True, True), Origin("a", "m", True, True)
    >>> sorted(chatter_in([words, words, first, words, more])), sorted(chatter_in([first, words, words]))
    ([0, 1, 3], [])
    """
    openers = [origin for origin in origins if origin.is_named and origin.opens]
    named_texts = [origin for origin in openers if origin.has_token]
    if not openers:
        return frozenset(place for place, origin in enumerate(origins) if is_named and origin.has_token)
    own = (named_texts or openers)[-1]
    ids, models = Counter(origin.id for origin in origins), Counter(origin.model for origin in origins)

    def is_strange(origin: Origin) -> bool:
        if not origin.is_named:
            return True
        if (origin.id and origin.id == own.id) or (origin.model and origin.model == own.model):
            return False
        # an id that each chunk has anew says nothing
        return bool(
            (origin.id and own.id and ids[own.id] > 1) or (origin.model and own.model and models[own.model] > 1)
        )

    strange = [place for place, origin in enumerate(origins) if origin.has_token and is_strange(origin)]
    if is_named or len(named_texts) > 1:
        return frozenset(strange)
    start = next(place for place, origin in enumerate(origins) if origin.opens and not is_strange(origin))
    return frozenset(place for place in strange if place < start)
