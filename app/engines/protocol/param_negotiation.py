"""Which optional fields a server takes: what earlier requests taught, and what a refusal teaches now.

Fields are named as the body nests them: `stream_options.include_usage`. A server that refuses a name refuses everything
below it. What was refused is left out, remembered for the server until another version of it answers, and not sent
again.

Three fields that some servers have are never asked for. `timings_per_token` (llama.cpp) more than doubles the bytes of
each event, and the server formats them between two tokens, to say before the end what the end says anyway.
`return_progress` (there too) makes the role chunk leave before the first token, so that it no longer tells of tokens
without text. `return_token_ids` (vLLM) counts the tokens of an event no better than `continuous_usage_stats`, which is
asked for. Nor does a request speak of tools or of how much to reason: what is measured is what the server does by
itself.
"""

from collections.abc import Collection, Mapping
from typing import Any

from app.engines.http import Answer
from app.engines.protocol.error_parsing import refused_fields, says_nothing_of

REMEMBERED_AS = "refused_fields"
# the same thing under another name; never both at once
_OTHER_NAMES = {"max_tokens": "max_completion_tokens"}
_LIKELIEST = "stream_options"
"""Of all fields the one that strict servers refuse most, some without naming it."""


class Negotiation:
    """Lasts for one request and its repetitions."""

    def __init__(self, capabilities: Mapping[str, Any]) -> None:
        known = capabilities.get(REMEMBERED_AS)
        self._refused = {name for name in known if isinstance(name, str)} if isinstance(known, list) else set()
        self._lacking = {name for name, has in capabilities.items() if has is False}
        self._tried: set[str] = set()
        self.learned: dict[str, Any] = {}
        """Capabilities to remember; empty when nothing new was learned."""

    def takes(self, field: str) -> bool:
        """Whether nothing is known against it: neither a refusal, nor that this version does not have it."""
        return not any(name in self._refused or name in self._lacking for name in _with_parents(field))

    def accepted(self, optional: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the fields that the server takes, each under the name that it takes."""
        named = {
            _OTHER_NAMES.get(name, name) if name in self._refused else name: value for name, value in optional.items()
        }
        return {name: value for name, value in named.items() if self.takes(name)}

    def learn(self, answer: Answer, sent: Mapping[str, Any], required: Collection[str] = ()) -> bool:
        """Whether a refusal says which of the fields `sent` to leave out, so that asking again makes sense.

        `required`: the fields sent besides, which cannot be left out.
        """
        newly = refused_fields(answer, sent)
        has_likeliest = any(name.startswith(f"{_LIKELIEST}.") for name in sent)
        if not newly and has_likeliest and says_nothing_of(answer, {*sent, *required}):
            newly = {_LIKELIEST}
        newly -= self._tried
        self._tried |= newly
        if not newly or any({name, other} <= self._tried for name, other in _OTHER_NAMES.items()):
            return False
        self._refused |= newly
        for pair in ({name, other} for name, other in _OTHER_NAMES.items()):
            if pair <= self._refused:
                # a server that changed its mind since the lesson was learned: the name refused now gives way
                self._refused -= pair - newly
        self.learned = {REMEMBERED_AS: sorted(self._refused)}
        return True


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body that dotted names mean.

    >>> nested({"model": "m", "stream_options.include_usage": True})
    {'model': 'm', 'stream_options': {'include_usage': True}}
    """
    body: dict[str, Any] = {}
    for name, value in fields.items():
        *parents, leaf = name.split(".")
        inner = body
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[leaf] = value
    return body


def _with_parents(field: str) -> list[str]:
    parts = field.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]
