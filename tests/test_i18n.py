"""Messages are data: a text is stored as what it was made of, and read in whatever language somebody speaks."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import i18n
from app.core.errors import BadInput
from app.core.i18n import Text, _, dumps, english, enumerated, joined, loads, localized, restored_text, stored_text
from app.core.units import plural
from app.engines.http.problems import with_words

CHINESE = "zh-Hant"
LOST = "連線中斷（在 2,000 個 token 事件之後）。"


def lost() -> str:
    when = i18n.ngettext("after {n} token event", "after {n} token events", 2000)
    return _("The connection was lost {when}.", when=when)


def test_a_message_is_stored_with_its_values_and_read_in_any_language() -> None:
    stored = dumps({"error": lost()})
    assert json.loads(stored)["error"] == {
        "id": "The connection was lost {when}.",
        "params": {"when": {"id": "after {n} token event", "plural": "after {n} token events", "params": {"n": 2000}}},
    }
    assert loads(stored) == {"error": "The connection was lost after 2,000 token events."}
    with i18n.use(CHINESE):
        assert loads(stored) == {"error": LOST}


def test_whoever_makes_it_the_same_is_stored() -> None:
    with i18n.use(CHINESE):
        stored, text = dumps(lost()), lost()
    assert (stored, text, english(text)) == (dumps(lost()), LOST, lost())


@pytest.mark.parametrize("words", ["Runs", "The server is ready.", "Permission denied; no such file"])
def test_a_plain_text_stays_as_it_is(words: str) -> None:
    error = with_words(_("The server is busy (HTTP 429)"), words)
    with i18n.use(CHINESE):
        assert loads(dumps([words])) == [words]
        assert restored_text(stored_text(words)) == words
        assert localized(error) == f"伺服器忙碌中（HTTP 429）：{words.rstrip('.')}。"


@given(st.text() | st.text().map('{{"id": {}'.format))
def test_a_column_gives_back_any_text(text: str) -> None:
    assert restored_text(stored_text(text)) == text


@pytest.mark.parametrize(
    "stored",
    [
        {"id": "{n.__class__}", "params": {"n": 1}},
        {"id": "{n:>999999999}", "params": {"n": 1}},
        {"id": "{missing} {0}", "params": {"n": 1}},
        {"id": "{n:,}", "params": {"n": "x"}},
        {"id": "{n} run", "plural": "{n} runs", "params": {}},
        {"id": "{lower_first}", "params": {}},
        {"id": "100 %}", "params": {"n": 1}},
    ],
)
def test_a_message_that_makes_no_sense_is_shown_as_it_is(stored: dict[str, Any]) -> None:
    assert loads(json.dumps(stored)) == stored["id"]


@pytest.mark.parametrize(
    "value", [{"id": 1, "params": {}}, {"id": "x", "params": []}, {"id": "x", "params": {}, "a": 1}]
)
def test_other_objects_are_no_messages(value: dict[str, Any]) -> None:
    assert loads(json.dumps(value)) == value


def test_sentences_and_clauses_are_joined_as_the_language_joins_them() -> None:
    def joined_texts() -> list[str]:
        ready = _("The server is ready.")
        return [
            joined(ready, "", ready),
            joined("a", "b", "c", by="; "),
            joined(_("Model"), "x", by=": "),
            enumerated(["a", "b", "c"]),
            i18n.as_sentence(_("weights")),
            i18n.lower_first(_("Decode")),
            plural(3000, "run"),
        ]

    sentences = joined_texts()
    assert sentences == [
        "The server is ready. The server is ready.", "a; b; c", "Model: x", "a, b and c", "Weights.", "decode",
        "3,000 runs",
    ]  # fmt: skip
    with i18n.use(CHINESE):
        translations = joined_texts()
        assert translations == localized(sentences) == loads(dumps(sentences))
    assert translations[:4] == ["伺服器已就緒。伺服器已就緒。", "a；b；c", "模型：x", "a、b 與 c"]


def test_an_error_inside_of_a_message_is_a_message() -> None:
    sentence = _("No sample was complete: {error}", error=BadInput(_("The server sent an empty answer.")))
    with i18n.use(CHINESE):
        assert localized(sentence) == "沒有完整的樣本：伺服器傳回空的回應。"


def test_a_number_that_json_has_not_leaves_the_sentence() -> None:
    assert json.loads(dumps(_("{percent:.0f} %", percent=float("inf")))) == "inf %"


def test_a_copy_is_a_message_too() -> None:
    text = copy.deepcopy(lost())
    assert isinstance(text, Text)
    assert dumps(text) == dumps(lost())
