"""The calculator: everything in the address, one sentence for everything that makes no sense."""

import html
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from app.core.errors import BadInput
from app.db import machines
from app.db.database import Database
from app.db.devices import KnownDevices
from app.db.tables import Run
from app.hardware.catalogue import built_in
from app.web.calculator import calculate, pack_config
from app.web.forms import Fields
from tests.ceiling.models import MODELS
from tests.seed import seed
from tests.web.notebook import text_of

KNOWN = KnownDevices((), built_in())
TYPED = {"bandwidth": "100", "total": "8", "bits": "8"}


def ask(client: TestClient, query: Mapping[str, str], status: int = 200) -> str:
    answer = client.get("/ceiling", params=query)
    assert answer.status_code == status
    return text_of(answer.text)


def test_without_anything_it_shows_an_example(client: TestClient) -> None:
    text = ask(client, {})
    assert "Example" in text
    assert re.search(r"192 tok/s = 936 GB/s / 4.87 GB", text)


def test_typed_figures(client: TestClient) -> None:
    text = ask(client, TYPED)
    assert "12.5 tok/s = 100 GB/s / 8.00 GB" in text
    assert "The device's peak TFLOP/s are unknown" in text
    assert "as typed" in text


def test_what_is_typed_stands_before_the_catalogue(client: TestClient) -> None:
    text = ask(client, {**TYPED, "device": "rtx 3090", "bandwidth": "800"})
    assert "100 tok/s = 800 GB/s / 8.00 GB" in text
    assert "corrected as typed" in text


def test_kv_type_and_batch(client: TestClient) -> None:
    layers = {"layers": "32", "kv_heads": "8", "head_dim": "128"}
    assert "9.07 GB = 8.00 GB weights + 1.07 GB KV cache" in ask(client, {**TYPED, **layers})
    assert "+ 4 x 570 MB KV cache" in ask(client, {**TYPED, **layers, "kv": "q8_0", "batch": "4"})


def test_an_estimate_is_called_one(client: TestClient) -> None:
    shape = {**MODELS["Llama-3.1-8B"], "warp_heads": 8}
    doubted = ask(client, {"bandwidth": "100", "config": pack_config(json.dumps(shape))})
    assert "An estimate, not a bound: Roofmark does not understand warp_heads" in doubted
    del shape["warp_heads"]
    assert "not a bound" not in ask(client, {"bandwidth": "100", "config": pack_config(json.dumps(shape))})
    assert "not a bound: the figures" in ask(client, TYPED)


def test_experts_of_unknown_use_are_asked_for(client: TestClient) -> None:
    shape = {key: value for key, value in MODELS["Qwen3-30B-A3B"].items() if key != "num_experts_per_tok"}
    problem = ask(client, {"bandwidth": "100", "config": pack_config(json.dumps(shape))}, 422)
    assert "how many of its 128 experts a token uses is unknown" in problem
    assert "type the active parameters" in problem


LARGE = {"device": "rtx 3090", "total": "70", "bits": "16"}


def test_a_model_larger_than_the_device_is_said(client: TestClient) -> None:
    text = ask(client, LARGE)
    assert "The model does not fit: weights and KV cache take 140 GB" in text
    assert "GeForce RTX 3090 holds 25.8 GB; the bandwidth of system memory is unknown: enter it" in text
    assert "tok/s = 936 GB/s" not in text


def test_the_best_split_of_a_model_that_does_not_fit(client: TestClient) -> None:
    text = ask(client, {**LARGE, "ram_bandwidth": "60"})
    on_card = 24 * 1.073741824
    speed = 1 / (on_card / 936.2 + (140 - on_card) / 60)
    assert f"{speed:.3f} tok/s = 1 / (25.8 GB / 936 GB/s + 114 GB / 60.0 GB/s)" in text
    assert "The ceiling is that of the best split: 114 GB of what a token reads stay in system memory" in text


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"gpu_layers": "16"}, "16 of 32 layers are on GPUs"),
        ({"gpu_layers": "-2"}, "Layers on GPU must be a whole number, neither negative"),
        ({"n_cpu_moe": "many"}, "must be a whole number"),
        ({"override_tensor": "[=CPU"}, "not understood, so those tensors are taken to be on the device: [=CPU"),
    ],
)
def test_what_is_in_system_memory_can_be_typed(client: TestClient, typed: dict[str, str], words: str) -> None:
    layers = {"layers": "32", "kv_heads": "8", "head_dim": "128", "ram_bandwidth": "60"}
    is_wrong = "must be" in words
    assert words in ask(client, {**TYPED, **layers, **typed}, 422 if is_wrong else 200)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"bandwidth": ""}, "Pick a device or type a bandwidth"),
        ({"bandwidth": "fast"}, "The bandwidth must be a number"),
        ({"bandwidth": "1e30"}, "absurdly large"),
        ({"device": "m3 max"}, "matches several devices"),
        ({"device": "abacus 9"}, "Neither the catalogue nor a machine has a device 'abacus 9'"),
        ({"total": ""}, "Type the model's parameters, or paste its config.json."),
        ({"active": "9"}, "Active parameters must be"),
        ({"bits": ""}, "Bits per weight are missing"),
        ({"bits": "Q99"}, "Bits per weight must be a number"),
        ({"bits": "4000"}, "bits per weight make no sense"),
        ({"kv": "f" * 50}, "is not a KV cache type"),
        ({"batch": "-1"}, "makes no sense"),
        ({"layers": "0", "kv_heads": "8", "head_dim": "1"}, "must be numbers above zero"),
        ({"config": "x"}, "The link is damaged"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(client: TestClient, changed: dict[str, str], text: str) -> None:
    assert text in ask(client, {**TYPED, **changed}, 422)


def test_a_pasted_config_becomes_a_part_of_the_address(client: TestClient) -> None:
    config = {**MODELS["Qwen3-30B-A3B"], "_name_or_path": "somebody/private", "eos_token_id": [1, 2]}
    sent = {"text": json.dumps(config), "device": "strix halo", "kv": "f16", "total": "8"}
    answer = client.post("/ceiling", data=sent, follow_redirects=False)
    assert answer.status_code == 303
    query = {key: values[0] for key, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
    assert set(query) == {"device", "kv", "config"}
    text = ask(client, {**query, "bits": "Q4_K_M"})
    assert "qwen3_moe 30.5 B parameters, 3.04 B active" in text
    assert "139 tok/s = 256 GB/s / 1.84 GB" in text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "This is not valid JSON"),
        ("[" * 100_000, "This is not valid JSON"),
        ("[1]", "It is JSON, but not the config.json"),
        ('{"a": 1}', "This is not the config.json of a language model"),
        (" " * 300_000, "It is larger than any config.json"),
    ],
)
def test_what_is_no_config_is_one_sentence_and_stays(client: TestClient, text: str, sentence: str) -> None:
    answer = client.post("/ceiling", data={"text": text})
    assert answer.status_code == 422
    assert sentence in text_of(answer.text)


def test_a_bomb_in_a_link_is_refused() -> None:
    import base64
    import zlib

    bomb = base64.urlsafe_b64encode(zlib.compress(b" " * 3_000_000, 9)).decode()
    with pytest.raises(BadInput, match="incomplete"):
        calculate(Fields([("bandwidth", "1"), ("config", bomb)]), KNOWN)


@given(st.dictionaries(st.sampled_from(["device", "bandwidth", "tflops", "total", "bits", "kv", "batch", "config",
       "layers", "kv_heads", "head_dim", "active"]), st.text(max_size=12) | st.integers().map(str)))  # fmt: skip
def test_any_address_gives_ceilings_or_one_sentence(query: dict[str, str]) -> None:
    with suppress(BadInput):  # the one error that it may raise
        calculate(Fields([*query.items()]), KNOWN)


def test_every_worked_model_fits_a_link() -> None:
    shapes: list[dict[str, Any]] = list(MODELS.values())
    assert all(len(pack_config(json.dumps(shape))) < 1000 for shape in shapes)


def test_measured_models_and_machines_devices_are_presets(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=8, configs_used=4, detailed=0)
    page = client.get("/ceiling").text
    assert '<option value="RTX 3090 on 2×3090"></option>' in page
    assert '<option value="1">Qwen3-30B-A3B Q8_0</option>' in page
    text = ask(client, {"model": "1", "device": "Radeon 8060S on strix-halo"})
    assert "79.2 tok/s = 256 GB/s / 3.23 GB" in text
    assert "qwen3_moe 30.5 B parameters" in text
    as_if = ask(client, {"model": "1", "device": "Radeon 8060S on strix-halo", "as_bits": "Q4_K_M"})
    assert "139 tok/s = 256 GB/s / 1.84 GB" in as_if
    assert "its weights scaled to 4.85 bits each instead of 8.50" in as_if
    for wrong in ("9", "x"):
        assert "That model has no ceiling any more" in ask(client, {"model": wrong, "bandwidth": "100"}, 422)


@pytest.mark.parametrize("place", [0, 3, 4])
def test_a_run_opens_in_the_calculator_with_its_own_ceiling(client: TestClient, database: Database, place: int) -> None:
    """One card, and two cards in parallel with K and V of different types."""
    with database.write() as session:
        ids = seed(session, runs=8, configs_used=7, detailed=8)
        rows = {run.config_id: run.public_id for run in session.exec(select(Run)).all()}
    run = rows.get(place + 1, ids[0])
    page = client.get(f"/runs/{run}").text
    link = re.search(r'href="(/ceiling\?model=[^"]+)">Open in the calculator', page)
    ceiling = re.search(r"([\d.]+) GB weights", text_of(page))
    assert link is not None
    assert ceiling is not None
    answer = client.get(html.unescape(link[1]))
    assert answer.status_code == 200
    assert f"{ceiling[1]} GB" in text_of(answer.text)


def test_a_run_of_a_machine_that_is_gone_takes_its_figures_along(client: TestClient, database: Database) -> None:
    with database.write() as session:
        (run,) = seed(session, runs=1, configs_used=1, detailed=1)
        machines.archive_machine(session, "strix-halo")
    link = re.search(r'href="(/ceiling\?[^"]+)">Open in the calculator', client.get(f"/runs/{run}").text)
    assert link is not None
    assert html.unescape(link[1]) == "/ceiling?model=1&kv=f16&bandwidth=256&tflops=59"
