"""Which optional fields a server accepts, learned from earlier requests and from a refusal now.

Fields are named as the body nests them: `stream_options.include_usage`. A server that refuses a name refuses everything
below it. A refused field is left out, remembered for the server until another version of it answers, and not sent
again.

Three fields that some servers have are never sent. `timings_per_token` (llama.cpp) more than doubles the bytes of each
event, which the server formats between two tokens, and the end of the stream has the same figures. `return_progress`
(llama.cpp) makes the role chunk leave before the first token, so that it no longer marks tokens without text.
`return_token_ids` (vLLM) counts the tokens of an event no better than `continuous_usage_stats`, which is sent. Nor does
a request mention tools or reasoning effort: the server's own defaults are measured.
"""

from collections.abc import Collection, Mapping
from typing import Any

from app.engines.http import Answer
from app.engines.protocol.error_parsing import names_no_field, refused_fields

REMEMBERED_AS = "refused_fields"
# another name of the same field; never both at once
_ALIASES = {"max_tokens": "max_completion_tokens"}
_USUAL_SUSPECT = "stream_options"
"""The field that strict servers refuse most, some without naming it."""


class Negotiation:
    """What is known of a server's fields, during one request and its repetitions."""

    def __init__(self, capabilities: Mapping[str, Any]) -> None:
        refused = capabilities.get(REMEMBERED_AS)
        self._refused = {name for name in refused if isinstance(name, str)} if isinstance(refused, list) else set()
        self._missing = {name for name, value in capabilities.items() if value is False}
        self._tried: set[str] = set()
        self.learned_capabilities: dict[str, Any] = {}
        """Capabilities to remember; empty when nothing new was learned."""

    def accepts(self, field: str) -> bool:
        """Whether a field may be sent: it was never refused, and this version is not known to lack it."""
        return not any(name in self._refused or name in self._missing for name in _with_parents(field))

    def accepted(self, optional: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that the server accepts, each under the name that it accepts."""
        fields = {
            _ALIASES.get(name, name) if name in self._refused else name: value for name, value in optional.items()
        }
        return {name: value for name, value in fields.items() if self.accepts(name)}

    def learn(self, answer: Answer, sent: Mapping[str, Any], required: Collection[str] = ()) -> bool:
        """Whether a refusal says which of the fields `sent` to leave out, so that another attempt makes sense.

        `required`: the fields sent besides, which cannot be left out.
        """
        newly = refused_fields(answer, sent)
        has_suspect = any(name.startswith(f"{_USUAL_SUSPECT}.") for name in sent)
        if not newly and has_suspect and names_no_field(answer, {*sent, *required}):
            newly = {_USUAL_SUSPECT}
        newly -= self._tried
        self._tried |= newly
        if not newly or any({name, alias} <= self._tried for name, alias in _ALIASES.items()):
            return False
        self._refused |= newly
        for pair in ({name, alias} for name, alias in _ALIASES.items()):
            if pair <= self._refused:
                # the server changed its mind since the first refusal: the name that it refuses now stays refused
                self._refused -= pair - newly
        self.learned_capabilities = {REMEMBERED_AS: sorted(self._refused)}
        return True


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON body that a mapping with dotted names means.

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
