"""What was said in English and is shown later is found in the catalogue again, with the values that it was given."""

import string
from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from markupsafe import Markup

from app.core import i18n, sentences
from app.core.i18n import N_, translated
from app.core.sentences import Message
from app.core.units import plural
from app.engines.http.problems import with_words
from tests import messages

CHINESE = "zh-Hant"
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_/\-]{0,20}", fullmatch=True) | st.text("模型機器伺服", min_size=1)
NUMBERS = st.integers(-(10**9), 10**9).map("{:,}".format) | st.floats(0, 1e6).map("{:.2f}".format)


def _translations() -> list[tuple[Message, str]]:
    """Every message that has values, with what it is in Chinese."""
    found = []
    for each in messages.catalogue(CHINESE):
        forms, said = (each.id,) if isinstance(each.id, str) else each.id, each.string or ""
        for form in forms:
            if form and (made := sentences.message(form, counts=len(forms) > 1)):
                found.append((made, said if isinstance(said, str) else said[0]))
    return found


MADE = _translations()


WHOLE = [(made, translation) for made, translation in MADE if made.id[0].isupper() and made.id.endswith(".")]
"""Those that are whole sentences, so that what follows begins anew."""


@st.composite
def said(draw: st.DrawFn, among: list[tuple[Message, str]] = MADE) -> tuple[str, str]:
    """An English sentence with values in it, and the same in Chinese."""
    made, translation = draw(st.sampled_from(among))
    values = {field.name: draw(_values(field)) for field in made.fields}
    return _filled(made.id, values), _filled(translation, values)


def _values(field: sentences.Field) -> st.SearchStrategy[str]:
    return NAMES.map(repr) if field.is_quoted else NUMBERS if field.is_number else NAMES


def _filled(text: str, values: Mapping[str, str]) -> str:
    """As str.format, with values that are formatted already."""
    return "".join(before + (values[name] if name else "") for before, name, *_ in string.Formatter().parse(text))


@given(said())
def test_a_sentence_is_said_again_with_its_values(made: tuple[str, str]) -> None:
    with i18n.use(CHINESE):
        assert translated(made[0]) == made[1]
    assert translated(made[0]) == made[0]


@given(said(WHOLE), said(WHOLE))
def test_several_sentences_are_said_one_by_one(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume(len(sentences.sentences(one[0])) == len(sentences.sentences(other[0])) == 1)
    with i18n.use(CHINESE):
        assert translated(f"{one[0]} {other[0]}") == one[1] + other[1]


@given(st.text(), said())
def test_no_text_is_too_strange(text: str, made: tuple[str, str]) -> None:
    with i18n.use(CHINESE):
        assert (translated(text) == "") == (text == "")
        assert translated(f"{made[0]}: {text}")
    assert translated(text) == text


@pytest.mark.parametrize(
    "name", ["Night and Day", "Heart of Gold", "model: x", "x removed", "Fast runs", "done. it is."]
)
def test_names_are_not_taken_for_messages(name: str) -> None:
    assert len(MADE) > 300
    with i18n.use(CHINESE):
        assert translated(name) == name


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("The server is ready.", "伺服器已就緒。"),
        ("The server has no /props (HTTP 404).", "伺服器沒有 /props（HTTP 404）。"),
        ("The server has no /props (HTTP 404): no such path.", "伺服器沒有 /props（HTTP 404）：no such path."),
        ("The connection was lost after 1 token event.", "連線中斷（在 1 個 token 事件之後）。"),
        ("The connection was lost after 2,000 token events.", "連線中斷（在 2,000 個 token 事件之後）。"),
        ("No sample was complete: The server sent an empty answer.", "沒有完整的樣本：伺服器傳回空的回應。"),
        ("x.gguf: it ends within its header", "x.gguf：它在檔頭中就結束了"),
        ("sample 2 of 5, point 1 of 3", "樣本 2/5，測點 1/3"),
        ("The server is ready. It said so. Waiting for 3 s.", "伺服器已就緒。It said so. 已等待 3 秒。"),
        ("The machine is not idle (53% of it)", "The machine is not idle (53% of it)"),
        ("llama runner process has terminated: exit status 2", "llama runner process has terminated: exit status 2"),
    ],
)
def test_what_is_stored(english: str, chinese: str) -> None:
    with i18n.use(CHINESE):
        assert translated(english) == chinese
        assert translated(chinese) == chinese


def test_a_server_s_own_words_stay_as_it_said_them() -> None:
    words = "Model is Loading. Failed to read <b>the</b> file; Try again"
    error = with_words(N_("The server is busy (HTTP 429)"), words)
    with i18n.use(CHINESE):
        assert translated(error) == f"伺服器忙碌中（HTTP 429）：{words}."


@pytest.mark.parametrize("words", ["Permission denied", "The server is ready", "Permission denied; no such file"])
def test_even_if_they_are_those_of_a_message(words: str) -> None:
    told = (with_words(N_("The server is busy (HTTP 429)"), words), f"nvidia-smi complained: {words}")
    with i18n.use(CHINESE):
        assert [translated(each) for each in told] == [
            f"伺服器忙碌中（HTTP 429）：{words}.",
            f"nvidia-smi 表示：{words}",
        ]


def test_markup_is_text() -> None:
    with i18n.use(CHINESE):
        said = translated(Markup("There is no machine called '<script>'."))  # what is tested
    assert type(said) is str
    assert said == "沒有名為 '<script>' 的機器。"


def test_marking_stays_english_whoever_asks() -> None:
    with i18n.use(CHINESE):
        kept = N_("The server is working on {others}.", others="3 other requests")
        assert kept == "The server is working on 3 other requests."
        assert translated(kept) == f"伺服器正在處理 {plural(3, 'other request')}。"
