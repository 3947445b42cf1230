"""Text in a stream that is not the model's: a gateway's own words while it loads a model or holds a connection open.

The chunks of an answer bear its `id` and `model`; a gateway's words bear neither, or others. A stream whose answer
bears neither is read as it is, so the rule is relative to what the answer itself has.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.engines.protocol.answers import mapping
from app.engines.protocol.openai_chunk import finish_reason, first_choice, timings_of, usage_of


class Origin(NamedTuple):
    """What a chunk bears of the answer that it belongs to."""

    id: str
    model: str
    """Empty, as `id`, where the chunk has none."""
    has_token: bool
    opens: bool
    """The chunk may be the first one of an answer: it has token text, or a role without an end."""
    ends: bool = False
    """It says how the answer ended."""
    counts: bool = False
    """It has the answer's usage or times."""

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
        finish_reason(chunk) is not None,
        bool(usage_of(chunk) or timings_of(chunk)),
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
    own = _own(named_texts or openers, origins)
    ids, models = Counter(origin.id for origin in origins), Counter(origin.model for origin in origins)
    opening = next((place for place, origin in enumerate(origins) if _is_role_of(origin, own)), 0)

    def is_strange(place: int, origin: Origin) -> bool:
        if not origin.is_named:
            return True
        if origin.id and origin.id == own.id:
            return False
        # a gateway may call itself by the model that was asked for, but the answer opens later, by its own id
        if place < opening and origin.id:
            return True
        if origin.model and origin.model == own.model:
            return False
        # an id that each chunk has anew says nothing
        return bool(
            (origin.id and own.id and ids[own.id] > 1) or (origin.model and own.model and models[own.model] > 1)
        )

    strange = [place for place, origin in enumerate(origins) if origin.has_token and is_strange(place, origin)]
    if is_named or len(named_texts) > 1:
        return frozenset(strange)
    start = next(place for place, origin in enumerate(origins) if origin.opens and not is_strange(place, origin))
    return frozenset(place for place in strange if place < start)


def _own(candidates: Sequence[Origin], origins: Sequence[Origin]) -> Origin:
    """The last of the candidates that bears what the answer's counts, or else its end, bears; else the last one."""
    named = [origin for origin in origins if origin.is_named]
    end = next((origin for origin in named if origin.counts), None)
    end = end or next((origin for origin in named if origin.ends), candidates[-1])
    same_id = [origin for origin in candidates if origin.id and origin.id == end.id]
    same_model = [origin for origin in candidates if origin.model and origin.model == end.model]
    return (same_id or same_model or candidates)[-1]


def _is_role_of(origin: Origin, own: Origin) -> bool:
    """Whether a chunk has a role and no text, and bears the id of the answer's text."""
    return origin.opens and not origin.has_token and bool(own.id) and origin.id == own.id
