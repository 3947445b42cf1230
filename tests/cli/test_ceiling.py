"""`roofmark ceiling` as a person and a script meet it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.errors import RoofmarkError
from tests.ceiling.files import SMALL, dense, write_gguf
from tests.ceiling.models import MODELS

KEYS = [
    "weight_bytes_per_token",
    "kv_bytes_per_token",
    "kv_bytes",
    "step_bytes",
    "decode_ceiling_tokens_per_s",
    "prefill_ceiling_tokens_per_s",
    "ttft_floor_ms",
    "bound",
    "params_total",
    "params_active",
    "assumptions",
]


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["Llama-3.1-8B"]))
    return str(path)


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["ceiling", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_document(config: str) -> None:
    numbers = ["--bandwidth", "1008", "--tflops", "165.2", "--context", "8192", "--bits", "4.85"]
    document = json.loads(call(config, *numbers, "--json"))
    assert list(document) == KEYS
    assert document["decode_ceiling_tokens_per_s"] == pytest.approx(179.24, rel=0.005)
    assert document["prefill_ceiling_tokens_per_s"] == pytest.approx(10256, rel=0.005)
    assert document["ttft_floor_ms"] == pytest.approx(798.7, rel=0.005)
    assert document["bound"] == "compute"
    assert document["kv_bytes"] == 8192 * document["kv_bytes_per_token"] == 1_073_741_824
    assert document["step_bytes"] == document["weight_bytes_per_token"] + document["kv_bytes"]
    smaller = json.loads(call(config, *numbers, "--kv", "q8_0", "--batch", "4", "--json"))
    assert smaller["step_bytes"] == smaller["weight_bytes_per_token"] + 4 * smaller["kv_bytes"]


def test_what_is_unknown_is_null_with_a_reason(config: str) -> None:
    document = json.loads(call(config, "--bandwidth", "1008", "--json"))
    assert document["prefill_ceiling_tokens_per_s"] is document["ttft_floor_ms"] is document["bound"] is None
    assert any("peak" in sentence for sentence in document["assumptions"])


def test_words_for_a_person(tmp_path: Path, config: str) -> None:
    text = call(config, "--bandwidth", "1008 GB/s", "--tflops", "165.2", "--context", "512")
    assert "66.9 tok/s = 1,008 GB/s / 15.1 GB" in text
    assert "compute binds" in text
    assert "512 tokens in the cache (f16)" in text
    model = write_gguf(tmp_path / "m.gguf", "llama", SMALL, dense())
    assert "934 kB at 5.18 bits per weight" in call(str(model), "--bandwidth", "20")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["absent.gguf", "--bandwidth", "100"], "no file absent.gguf"),
        (["CONFIG", "--bandwidth", "fast"], "no bandwidth"),
        (["CONFIG", "--bandwidth", "0"], "makes no sense"),
        (["CONFIG", "--bandwidth", "100", "--tflops", "-1"], "make no sense"),
        (["CONFIG", "--bandwidth", "100", "--context", "-1"], "makes no sense"),
        (["CONFIG", "--bandwidth", "100", "--batch", "0"], "makes no sense"),
        (["CONFIG", "--bandwidth", "100", "--kv", "q9_9"], "no KV cache type"),
        (["CONFIG", "--bandwidth", "100", "--bits", "nan"], "nan bits per weight make no sense"),
        (["CONFIG", "--bandwidth", "100", "--bits", "-4"], "make no sense"),
    ],
)
def test_wrong_things_are_one_sentence(config: str, arguments: list[str], why: str) -> None:
    with pytest.raises(RoofmarkError, match=why) as caught:
        call(*(config if one == "CONFIG" else one for one in arguments))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
