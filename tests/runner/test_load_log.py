"""Settings of a configuration that its server's log states."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.ceiling.geometry import Geometry, Part, Source, Weights
from app.engines import find
from app.engines.base import ModelInfo
from app.measure.server_log import settings_from_log
from tests.engines.test_llamacpp_load import EXPERTS, OLD

MODEL = ModelInfo("a", "a", file_path="/models/a.gguf")
LLAMA = find("llama.cpp")
MIB = 1 << 20


def geometry(dense_mib: int, routed_mib: int = 0) -> Geometry:
    weights = Weights(Part(1, dense_mib * MIB), Part(1, routed_mib * MIB))
    experts = (32, 4) if routed_mib else (0, 0)
    return Geometry(Source.LLAMA_CPP, "a", weights, None, 32, experts_total=experts[0], experts_used=experts[1])


def settings(
    tmp_path: Path, text: str, stated: dict[str, Any] | None = None, geometry: Geometry | None = None
) -> dict[str, Any]:
    path = tmp_path / "server.log"
    path.write_text(text)
    return settings_from_log(str(path), LLAMA, MODEL, stated or {}, geometry)


def test_layers_and_weights_on_cards(tmp_path: Path) -> None:
    assert settings(tmp_path, OLD) == {"gpu_layers": 12}
    assert settings(tmp_path, OLD, geometry=geometry(6000)) == {"gpu_layers": 12, "gpu_weight_mib": 1918}
    assert settings(tmp_path, OLD, {"gpu_layers": 999}) == {"gpu_layers": 12}


def test_all_layers_are_no_news_to_who_said_999(tmp_path: Path) -> None:
    text = OLD.replace("12/33", "33/33")
    assert settings(tmp_path, text, {"gpu_layers": 999}, geometry(1930)) == {}
    assert settings(tmp_path, text, {"flags": "-ngl 99"}, geometry(1930)) == {}
    assert settings(tmp_path, text, {}, geometry(1930)) == {"gpu_layers": 33}


def test_experts_cache_and_the_share_of_each_card(tmp_path: Path) -> None:
    text = EXPERTS.replace("b.gguf", "a.gguf")
    stated = settings(tmp_path, text, {}, geometry(2000, 10_000))
    assert stated == {
        "gpu_layers": 25,
        "n_cpu_moe": 2,
        "kv_offload": "off",
        "tensor_split": "67,33",
        "gpu_weight_mib": 3301,
    }
    assert "tensor_split" not in settings(tmp_path, text, {"flags": "-ts 2,1"})


@pytest.mark.parametrize(
    ("blocks", "stated", "expected"),
    [
        ((0, 1, 2), {}, {"n_cpu_moe": 3}),
        ((0, 1, 2), {"n_cpu_moe": 999}, {}),
        ((0, 1, 2), {"n_cpu_moe": 2}, {"n_cpu_moe": 3}),
        ((0, 1, 2), {"flags": "--cpu-moe"}, {}),
        ((0, 1, 2), {"override_tensor": "exps=CPU"}, {}),
        ((7, 9), {}, {"override_tensor": r"blk\.(7|9)\.ffn_.*_exps=CPU"}),
    ],
)
def test_which_experts_are_in_memory(
    tmp_path: Path, blocks: tuple[int, ...], stated: dict[str, Any], expected: dict[str, Any]
) -> None:
    lines = [f"tensor blk.{index}.ffn_up_exps.weight (1 MiB q4_K) buffer type overridden to CPU" for index in blocks]
    text = "\n".join([*lines, "load_tensors:        CUDA0 model buffer size = 2000.0 MiB", ""])
    assert settings(tmp_path, text, stated) == expected


def test_the_last_load_of_the_models_own_file_counts(tmp_path: Path) -> None:
    assert settings(tmp_path, OLD.replace("12/33", "5/33") + OLD + EXPERTS) == {"gpu_layers": 12}
    assert settings(tmp_path, EXPERTS) == {}


def test_the_start_of_a_long_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.measure.server_log.EDGE_BYTES", 2048)
    assert settings(tmp_path, OLD + "srv  update_slots: all slots are idle\n" * 1000) == {"gpu_layers": 12}


def test_without_a_log_nothing_is_stated(tmp_path: Path) -> None:
    assert settings(tmp_path, "") == {}
    assert settings_from_log(None, LLAMA, MODEL, {}, None) == {}
    assert settings_from_log(str(tmp_path), LLAMA, MODEL, {}, None) == {}
    assert settings_from_log(str(tmp_path / "none.log"), LLAMA, MODEL, {}, None) == {}
    assert settings_from_log(str(tmp_path / "server.log"), find("vllm"), MODEL, {}, None) == {}


def test_a_model_whose_file_is_unknown_is_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(OLD + EXPERTS)
    assert settings_from_log(str(path), LLAMA, replace(MODEL, file_path=None), {}, None)["gpu_layers"] == 25
