"""What a page says about which part of the cache each layer reads."""

import pytest

from app.ceiling.hf_config import from_config
from app.web.calculator import attention_words
from tests.ceiling.families import FAMILIES


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("qwen3-14b", ["40 see the whole context, 1,024 + 1,024 values per token"]),
        ("deepseek-v3.2", ["61 see 2,048 picked tokens, 576 values per token"]),
        (
            "llama-4-scout",
            [
                "36 see their chunk of 8,192 tokens, 1,024 + 1,024 values per token",
                "12 see the whole context, 1,024 + 1,024 values per token",
            ],
        ),
        (
            "deepseek-v4-flash",
            [
                "2 see the last 128 tokens, 512 values per token",
                "21 see the last 128 tokens and 512 picked entries, one for each 4 tokens, 512 values per token",
                "20 see the last 128 tokens and an entry for each 128 tokens, 512 values per token",
            ],
        ),
        ("kimi-linear-48b", ["7 see the whole context, 576 values per token", "20 without attention"]),
    ],
)
def test_which_part_of_the_cache_is_read(family: str, words: list[str]) -> None:
    assert attention_words(from_config(FAMILIES[family].config)) == words
