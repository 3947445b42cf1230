"""From a sentence back to the message that it was made of, and to the values in it.

Whatever is stored is stored in English, made of messages as `{n} of {all} samples`. To say it in another language its
message has to be found again: the one with the most text of its own among those that the whole sentence fits.
"""

import re
import string
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

_BREAK = re.compile(r"(?<=[.!?]) (?=[A-Z])|(?<=[。！？])(?=.)")
_NUMBER = re.compile(r"[-+−±]?[\d,]*\.?\d+(e[-+]?\d+)?( ?(%|[kMGT]?B|m?s|min|tok/s))?")
"""With a unit, if it has one."""
_FEWEST_LETTERS = 8
"""A message with less text of its own says too little to be told from names: its values must be numbers."""
_START = 2
"""Characters by which messages are looked up."""


def first_sentence(text: str) -> tuple[str, str]:
    """A sentence and the rest: it ends where a capital letter follows, in Chinese with its own full stop."""
    first, *rest = _BREAK.split(text, maxsplit=1)
    return first, "".join(rest)


def sentences(text: str) -> list[str]:
    return _BREAK.split(text)


@dataclass(frozen=True)
class Field:
    name: str
    is_quoted: bool
    """As `{name!r}` shows it."""
    is_number: bool

    def takes(self, value: str) -> bool:
        if self.is_quoted:
            return len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        return not self.is_number or _NUMBER.fullmatch(value) is not None


@dataclass(frozen=True)
class Message:
    """`texts` stand before, between and after the `fields`, so there is one more of them."""

    id: str
    texts: tuple[str, ...]
    fields: tuple[Field, ...]

    def values(self, sentence: str) -> dict[str, str] | None:
        """By name, as they stand in the sentence; None when it was not made of this message."""
        first, last = self.texts[0], self.texts[-1]
        if len(sentence) < len(first) + len(last) or not (sentence.startswith(first) and sentence.endswith(last)):
            return None
        at, end = len(first), len(sentence) - len(last)
        found: dict[str, str] = {}
        for place, field in enumerate(self.fields, 1):
            is_last = place == len(self.fields)
            until = end if is_last else sentence.find(self.texts[place], at, end)
            value = sentence[at:until]
            if until < 0 or not field.takes(value) or found.setdefault(field.name, value) != value:
                return None
            at = until + len(self.texts[place])
        return found

    @staticmethod
    def filled(translation: str, values: Mapping[str, str]) -> str:
        """With the values as they were said: they are formatted already."""
        return "".join(text + values.get(name or "", "") for text, name, _, _ in string.Formatter().parse(translation))

    def is_within(self, values: Mapping[str, str]) -> bool:
        """Whether no value goes beyond the end of a sentence, and none that the message begins with beyond a colon."""
        first = "" if self.texts[0] else values[self.fields[0].name]
        return ": " not in first and not any(_BREAK.search(value) for value in values.values())

    @cached_property
    def weight(self) -> int:
        return sum(letter.isalpha() for text in self.texts for letter in text)


def message(said: str, *, counts: bool = False) -> Message | None:
    """None for what has no values, or has others than by their name alone. In one that `counts`, `{n}` is a number."""
    if "%{" in said or "%(" in said:  # of charts and templates
        return None
    try:
        parsed = list(string.Formatter().parse(said))
    except ValueError:  # braces that mean something else
        return None
    texts, fields = [""], []
    for text, name, spec, conversion in parsed:
        texts[-1] += text
        if name is None:
            continue
        if not name.isidentifier():
            return None
        fields.append(Field(name, conversion == "r", bool(spec) or (counts and name == "n")))
        texts.append("")
    if not fields or not all(texts[1:-1]):  # where one value ends and the next begins, nobody can tell
        return None
    made = Message(said, tuple(texts), tuple(fields))
    if made.weight < _FEWEST_LETTERS:
        made = replace(made, fields=tuple(replace(field, is_number=True) for field in fields))
    return made if made.weight else None


def compiled(catalogue: bytes) -> Iterator[list[str]]:
    """The messages of a compiled catalogue (.mo), each as one form, or two when it counts.

    https://www.gnu.org/software/gettext/manual/html_node/MO-Files.html
    """
    count, table = struct.unpack_from("<2I", catalogue, 8)
    for place in range(count):
        length, start = struct.unpack_from("<2I", catalogue, table + 8 * place)
        if length:  # the empty one is the head of the catalogue
            yield catalogue[start : start + length].decode().split("\0")


class Messages:
    """Those of a catalogue, to find again what a sentence was made of."""

    def __init__(self, plain: Iterable[str], counting: Iterable[str]) -> None:
        self._by_start: dict[str, list[Message]] = defaultdict(list)
        made = [*(message(each) for each in plain), *(message(each, counts=True) for each in counting)]
        for each in filter(None, made):
            self._by_start[each.texts[0][:_START]].append(each)

    def of(self, sentence: str) -> Iterator[tuple[Message, dict[str, str]]]:
        """Every message that it may be made of, that with the most text of its own first."""
        starts = {sentence[:length] for length in range(_START + 1)}
        possible = (each for start in starts for each in self._by_start.get(start, ()))
        fitting = [(each, values) for each in possible if (values := each.values(sentence)) is not None]
        return iter(sorted(fitting, key=lambda found: -found[0].weight))
