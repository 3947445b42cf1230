"""Ten well-known models on three devices, computed independently; published results, none above its ceiling."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.ceiling.advice import Fit, Observation, fit
from app.ceiling.bytes_per_step import expected_expert_share, kv_bytes, kv_bytes_per_token, step
from app.ceiling.decode import Device, decode_on
from app.ceiling.efficiency import mbu
from app.ceiling.geometry import Geometry
from app.ceiling.hf_config import from_config
from app.ceiling.number_formats import KvTypes
from app.ceiling.prefill import prefill, prefill_flops
from tests.ceiling.models import MODELS, MORE

HERE = Path(__file__).parent
GIB = 2**30
DEVICES = {
    "rtx4090": Device.of("RTX 4090", 1008, 165.2),
    "m4max": Device.of("M4 Max", 546, 18.4),
    "ddr5": Device.of("DDR5-5600 dual channel", 89.6),
}
Row = dict[str, str]


def rows(name: str) -> Iterator[Row]:
    with (HERE / name).open(newline="") as file:
        yield from csv.DictReader(file)


def computed(row: Row, geometry: Geometry) -> float | int | None:
    figure, tokens = row["figure"], int(row["tokens"] or 0)
    kv = KvTypes.parse(row["kv"])
    decode_step = step(geometry, tokens, kv)
    assert decode_step is not None
    assert geometry.weights is not None
    if figure == "decode":
        return decode_on(decode_step, DEVICES[row["device"]]).tokens_per_s
    if figure.startswith("prefill_") and figure != "prefill_flops":
        prefill_ceiling = prefill(geometry, [DEVICES[row["device"]]], tokens)
        assert prefill_ceiling is not None
        assert prefill_ceiling.bound == figure.removeprefix("prefill_")
        assert prefill_ceiling.ttft_floor_ms == pytest.approx(1000 * tokens / prefill_ceiling.tokens_per_s)
        return prefill_ceiling.tokens_per_s
    return {
        "params_total": geometry.params_total,
        "params_active": geometry.params_active,
        "state_bytes": geometry.state_bytes,
        "kv_bytes_per_token": kv_bytes_per_token(geometry),
        "kv_bytes": kv_bytes(geometry, tokens, kv),
        "weight_bytes_per_token": decode_step.weight_bytes,
        "file_bytes": geometry.weights.total.n_bytes,
        "prefill_flops": prefill_flops(geometry, tokens),
    }[figure]


@pytest.mark.parametrize("model", MODELS)
def test_worked_models(model: str) -> None:
    model_rows = [row for row in rows("worked.csv") if row["model"] == model]
    assert len(model_rows) > 30
    for row in model_rows:
        geometry = from_config(MODELS[model], float(row["bits"]))
        assert computed(row, geometry) == pytest.approx(float(row["value"]), rel=0.005), row


def test_a_batch_reads_more_experts_by_chance() -> None:
    geometry = from_config(MODELS["Mixtral-8x7B"], 16)
    assert geometry.expert_share == 0.25
    assert expected_expert_share(geometry, 4) == pytest.approx(0.68359375)
    assert expected_expert_share(geometry, 16) == pytest.approx(0.9899774)


def test_deepseek_v3_from_its_config() -> None:
    geometry = from_config({**MORE["DeepSeek-V3"], "quantization_config": {"quant_method": "fp8"}})
    assert geometry.params_total == pytest.approx(671.0e9, rel=0.001)
    assert geometry.params_active == pytest.approx(36.6e9, rel=0.005)
    assert kv_bytes_per_token(geometry) == 70272
    assert geometry.weights is not None
    assert geometry.weights.bits_per_weight == pytest.approx(8.02, abs=0.01)


def at_file_size(row: Row) -> Geometry:
    """The model, at the mean bits per weight of the file that was measured."""
    shape = {**MODELS, **MORE}[row["model"]]
    parameters = from_config(shape, 16).params_total
    assert parameters
    return from_config(shape, float(row["file_gib"]) * GIB * 8 / parameters)


def published_share(row: Row) -> float:
    context = int(row["depth"]) + int(row["output_tokens"]) // 2
    decode_step = step(at_file_size(row), context)
    assert decode_step is not None
    ceiling = decode_on(decode_step, Device.of(row["device"], float(row["bandwidth_gb_s"])))
    return mbu(float(row["tokens_per_s"]), ceiling.tokens_per_s)


def test_no_published_result_beats_its_ceiling() -> None:
    shares = sorted(published_share(row) for row in rows("published.csv"))
    assert len(shares) > 60
    assert shares[0] > 0.1
    assert shares[-1] < 0.9
    assert 0.6 < shares[len(shares) // 2] < 0.8


def test_bytes_of_dense_published_results() -> None:
    dense = [row for row in rows("published.csv") if row["model"].startswith("Llama")]
    assert len(dense) > 50
    for row in dense:
        context = int(row["depth"]) + int(row["output_tokens"]) // 2
        decode_step = step(at_file_size(row), context)
        assert decode_step is not None
        assert decode_step.n_bytes / 1e9 == pytest.approx(float(row["bytes_per_token_gb"]), rel=0.02), row


def llama_3_runs(device: str) -> dict[tuple[str, str], tuple[Observation, Device]]:
    runs: dict[tuple[str, str], tuple[Observation, Device]] = {}
    for row in rows("published.csv"):
        if row["device"] == device and row["model"].startswith("Llama-3"):
            geometry = at_file_size(row)
            decode_step = step(geometry, int(row["output_tokens"]) // 2)
            assert decode_step is not None
            assert geometry.blocks is not None
            observed = Observation(decode_step.n_bytes, geometry.blocks, float(row["tokens_per_s"]))
            runs[row["model"], row["quantization"]] = observed, Device.of(device, float(row["bandwidth_gb_s"]))
    return runs


@pytest.mark.parametrize(
    ("device", "within"),
    [("A40", 0.03), ("A100 PCIe 80GB", 0.11), ("Apple M2 Ultra", 0.11), ("Apple M3 Max (40-core GPU)", 0.11)],
)
def test_two_runs_of_8b_predict_70b(device: str, within: float) -> None:
    runs = llama_3_runs(device)
    small, chip = runs["Llama-3.1-8B", "Q4_K_M"]
    fitted = fit(small, runs["Llama-3.1-8B", "F16"][0], chip)
    assert isinstance(fitted, Fit)
    large = runs["Llama-3.3-70B", "Q4_K_M"][0]
    assert fitted.tokens_per_s(large.n_bytes, large.layers) == pytest.approx(large.tokens_per_s, rel=within)


def test_a_fit_above_the_specification_means_a_slow_kernel() -> None:
    runs = llama_3_runs("Apple M1 Max")
    small, chip = runs["Llama-3.1-8B", "Q4_K_M"]
    fitted = fit(small, runs["Llama-3.1-8B", "F16"][0], chip)
    assert isinstance(fitted, Fit)
    assert "limited by computing" in fitted.notes[0]
