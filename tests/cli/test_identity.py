"""Two different things are never one configuration, nor is one thing two: the whole way, through the command line."""

import json
from typing import Any

import pytest

from tests import model_servers
from tests.cli.processes import Roofmark
from tests.engines.written import llamaswap
from tests.replay import serve

GEMMA = "ggml-org/gemma-3-4b-it-GGUF"


def run(roofmark: Roofmark, url: str, *more: str) -> dict[str, Any]:
    counts = ("--reps", "1", "--warmup", "1")
    result = roofmark("run", "--url", url, *counts, "--json", *more)
    assert result.returncode == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)["run"]
    return document


def compare(roofmark: Roofmark, *names: str) -> str:
    result = roofmark("compare", *names)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_models_of_a_router(roofmark: Roofmark) -> None:
    router = model_servers.router()
    with serve(router.routes) as replay:
        probed = json.loads(roofmark("probe", replay.url, "--json").stdout)
        assert router.loads == []  # asking loads nothing
        first, again = (run(roofmark, replay.url, "--model", f"{GEMMA}:Q4_K_M") for _ in range(2))
        q8 = run(roofmark, replay.url, "--model", f"{GEMMA}:Q8_0")
    assert [model["id"] for model in probed["models"]] == [f"{GEMMA}:Q8_0", f"{GEMMA}:Q4_K_M"]
    assert [model["quantization"] for model in probed["models"]] == ["Q8_0", "Q4_K_M"]
    assert [model["context_tokens"] for model in probed["models"]] == [8192, 8192]
    assert first["config"]["fingerprint"] == again["config"]["fingerprint"] != q8["config"]["fingerprint"]
    assert (first["config"]["quantization"], q8["config"]["quantization"]) == ("Q4_K_M", "Q8_0")
    assert first["config"]["settings"] == {
        "batch": 1024,
        "context": 8192,
        "flash_attention": "on",
        "gpu_layers": 99,
        "kv_type_k": "q8_0",
        "kv_type_v": "q8_0",
        "model_file": "/m/gemma-3-4b-it-Q4_K_M.gguf",
        "model_id": f"{GEMMA}:Q4_K_M",
        "parallel": 2,
        "threads": 8,
    }
    words = compare(roofmark, first["id"], q8["id"])
    assert "Q4_K_M" in words
    assert "the same thing was measured again" not in words


def test_the_model_that_a_router_has_loaded_is_the_default(roofmark: Roofmark) -> None:
    router = model_servers.router()
    with serve(router.routes) as replay:
        document = run(roofmark, replay.url)
    assert document["config"]["quantization"] == "Q8_0"
    assert router.loads == []


def test_backends_of_a_gateway(roofmark: Roofmark) -> None:
    with serve(model_servers.openai_at("/v1", {"gpu0/llama-3-8b": 2, "cpu/llama-3-8b": 6})) as replay:
        fast = run(roofmark, replay.url, "--model", "gpu0/llama-3-8b")
        slow = run(roofmark, replay.url, "--model", "cpu/llama-3-8b")
        again = run(roofmark, replay.url, "--model", "gpu0/llama-3-8b")
        vague = roofmark("run", "--url", replay.url, "--model", "llama-3-8b")
        probed = roofmark("probe", replay.url).stdout
    assert fast["config"]["model"] == slow["config"]["model"] == "llama-3-8b"
    assert again["config"]["fingerprint"] == fast["config"]["fingerprint"] != slow["config"]["fingerprint"]
    words = compare(roofmark, fast["id"], slow["id"])
    assert "gpu0/llama-3-8b → cpu/llama-3-8b" in words
    assert "the same thing was measured again" not in words
    assert vague.returncode == 1
    assert "gpu0/llama-3-8b, cpu/llama-3-8b" in vague.stderr + vague.stdout
    assert "gpu0/llama-3-8b" in probed
    listed = roofmark("runs").stdout
    assert "gpu0/llama-3-8b" in listed
    assert "cpu/llama-3-8b" in listed


def test_a_probe_names_the_engine_behind_a_gateway(roofmark: Roofmark) -> None:
    gateway = llamaswap.gateway()
    with serve(gateway.routes) as replay:
        probed = roofmark("probe", replay.url)
    assert probed.returncode == 0, probed.stderr
    assert "llama-swap 250" in probed.stdout
    assert "qwen (llama.cpp b10068-abc, Q4_K_M, context 8,192 tokens, 5.03 GB)" in probed.stdout
    assert "attic/qwen3-coder-480b" not in probed.stdout
    assert "runs at attic, not here" in probed.stdout
    assert "\n    kv_type_k: q8_0\n" in probed.stdout  # of the command line of the backend
    assert gateway.loads == []


def test_quantizations_of_lm_studio(roofmark: Roofmark) -> None:
    loaded = {"google/gemma-3-12b@q8_0"}
    with serve(model_servers.lmstudio(loaded)) as replay:
        four = run(roofmark, replay.url, "--model", "google/gemma-3-12b@q4_k_m")
        eight = run(roofmark, replay.url, "--model", "google/gemma-3-12b@q8_0")
        again = run(roofmark, replay.url, "--model", "google/gemma-3-12b@q4_k_m")
    assert four["config"]["model"] == eight["config"]["model"] == "gemma-3-12b"
    assert (four["config"]["quantization"], eight["config"]["quantization"]) == ("Q4_K_M", "Q8_0")
    # read after the first request had loaded it
    assert four["config"]["settings"]["context"] == eight["config"]["settings"]["context"] == 4096
    assert again["config"]["fingerprint"] == four["config"]["fingerprint"]
    words = compare(roofmark, "previous", "latest")
    assert "Differs: Quantization Q8_0 → Q4_K_M." in words
    assert "Quantization Q8_0 → Q4_K_M" in words


@pytest.mark.parametrize(
    ("prefix", "typed"),
    [
        ("", "/chat/completions"),
        ("", ""),
        ("/api/v3", "/api/v3"),
        ("/v3", "/v3/chat/completions"),
        ("/api/paas/v4", "/api/paas/v4/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/api", "/api"),
    ],
)
def test_an_api_at_any_path(roofmark: Roofmark, prefix: str, typed: str) -> None:
    with serve(model_servers.openai_at(prefix, {"m": 2})) as replay:
        probed = roofmark("probe", replay.url + typed)
        assert probed.returncode == 0, probed.stderr
        once, twice = (run(roofmark, replay.url + typed) for _ in range(2))
        stored = run(roofmark, replay.url + typed, "--model", "m")
    fingerprints = {document["config"]["fingerprint"] for document in (once, twice, stored)}
    assert len(fingerprints) == 1
    assert len({document["server"]["slug"] for document in (once, twice, stored)}) == 1
    assert {request.path for request in replay.requests if request.method == "POST"} <= {
        f"{prefix}/chat/completions",
        # asked while it was not yet known where it is
        "/v1/chat/completions",
        "/api/v1/chat/completions",
    }
