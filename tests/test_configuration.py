from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.config_settings import IDENTITY_SETTINGS, SETTINGS, parse_setting, parse_setting_value
from app.core.configuration import Snapshot, describe_changes
from app.core.errors import BadInput

CIRCUMSTANCES = [key for key in (*SETTINGS, "free") if key not in IDENTITY_SETTINGS]
"""What tells models apart is said as one change: tests/runner/test_identity.py."""
BASE = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q4_K_M", {"context": 4096, "cards": 1}, ("undervolted",))


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("cards=2", ("cards", 2)),
        ("context=131,072", ("context", 131072)),
        ("kv_type_k=q8_0", ("kv_type_k", "q8_0")),
        ("my.key=a=b", ("my.key", "a=b")),
        ("CARDS = 2 ", ("cards", 2)),
        ("cards=", ("cards", None)),
    ],
)
def test_settings_as_typed(text: str, parsed: tuple[str, object]) -> None:
    assert parse_setting(text) == parsed


@pytest.mark.parametrize(
    "text", ["cards", "=2", "cards=two", "cards=-1", "cards=1.5", "cards=1,5", "9x=1", "a b=1", "x=" + "y" * 600]
)
def test_malformed_settings_are_one_sentence(text: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_setting(text)
    assert "\n" not in str(error.value)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        key, _ = parse_setting(text)
    except BadInput:  # refused in a sentence, as the test allows
        return
    assert key == key.lower()


@pytest.mark.parametrize("key", [key for key, setting in SETTINGS.items() if setting.type is int])
def test_whole_numbers_are_whole(key: str) -> None:
    assert parse_setting_value(key, " 8 ") == 8
    with pytest.raises(BadInput, match="whole number"):
        parse_setting_value(key, "8.5")


def test_a_fingerprint_is_the_content() -> None:
    same = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q4_K_M", {"cards": 1, "context": 4096}, ("undervolted",))
    assert same.fingerprint == BASE.fingerprint
    for change in (
        {"engine": "vllm"},
        {"engine_version": "b6302"},
        {"model": "Qwen3-4B"},
        {"quantization": None},
        {"settings": {"context": 4096, "cards": 2}},
        {"labels": ()},
    ):
        assert replace(BASE, **change).fingerprint != BASE.fingerprint


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quantization": "IQ2_XS"}, "Q4_K_M → IQ2_XS"),
        ({"engine_version": "b6400"}, "llama.cpp b6301 → b6400"),
        ({"engine": "ollama", "engine_version": "0.30"}, "llama.cpp b6301 → ollama 0.30"),
        ({"model": "gpt-oss-20b"}, "Qwen3-8B → gpt-oss-20b"),
        ({"settings": {"context": 8192, "cards": 1}}, "Context 4,096 → 8,192"),
        ({"settings": {"context": 4096}}, "GPUs 1 → not stated"),
        ({"settings": {**BASE.settings, "kv_type_k": "q8_0"}}, "KV cache type K not stated → q8_0"),
        ({"settings": {**BASE.settings, "fan": "loud"}}, "fan not stated → loud"),
        ({"labels": ("stock",)}, "label undervolted removed"),
        ({"quantization": None}, "Q4_K_M → unknown quantization"),
    ],
)
def test_a_change_in_words(change: dict[str, object], words: str) -> None:
    assert words in describe_changes(BASE, replace(BASE, **change))  # type: ignore[arg-type]  # as above


def test_nothing_changed_has_no_words() -> None:
    assert describe_changes(BASE, BASE) == []


@given(
    st.dictionaries(st.sampled_from(CIRCUMSTANCES), st.integers() | st.text() | st.booleans()),
    st.dictionaries(st.sampled_from(CIRCUMSTANCES), st.integers() | st.text() | st.booleans()),
)
def test_two_configurations_differ_in_words_exactly_when_their_settings_do(
    then: dict[str, object], today: dict[str, object]
) -> None:
    phrases = describe_changes(replace(BASE, settings=then), replace(BASE, settings=today))
    different = {key for key in then.keys() | today.keys() if then.get(key) != today.get(key)}
    assert len(phrases) == len(different)
