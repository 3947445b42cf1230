"""Where a configuration's model lies: by its settings and flags, and by the habit of its engine."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.ceiling.bytes_per_step import step
from app.ceiling.decode import Split
from app.ceiling.geometry import Attention, Geometry, Part, Source, Weights
from app.core.samples import Workload
from app.db.machines import BandwidthValue, MachineDevice
from app.db.models import KnownGeometry
from app.db.tables import Config
from app.metrics.token_times import TokenCounts
from app.results.ceiling import Placement, RunCeiling, Unknown, flag_above_ceiling, resolve_placement, run_ceilings
from tests.ceilings import RAM, measured
from tests.seed import made_sample

BLOCKS = 32
WEIGHT_BYTES = 16_060_000_000


def dense(n_bytes: int, kv_elements: int = 1024) -> Geometry:
    head = n_bytes // 16
    return Geometry(
        source=Source.GGUF,
        architecture="llama",
        weights=Weights(dense=Part(8_000_000_000, n_bytes - head), head=Part(500_000_000, head)),
        attention=(Attention(BLOCKS, kv_elements, kv_elements, 32, 128, 128),),
        blocks=BLOCKS,
    )


MOE = replace(
    dense(2_000_000_000),
    weights=Weights(dense=Part(1, 1_875_000_000), routed=Part(1, 60_000_000_000), head=Part(1, 125_000_000)),
    experts_total=128,
    experts_used=4,
)


def card(gigabytes_per_s: float, gib: int, name: str = "Card") -> MachineDevice:
    return MachineDevice(name, "accelerator", 1, gib << 30, [BandwidthValue(gigabytes_per_s * 1e9, "catalogue")])


def placed(
    devices: Sequence[MachineDevice], geometry: Geometry, engine: str = "llama.cpp", **settings: Any
) -> Placement | Unknown:
    config = Config(server_id=1, model_id=1, engine=engine, settings=settings, fingerprint="f")
    return resolve_placement(devices, config, KnownGeometry(geometry))


def allowed(devices: Sequence[MachineDevice], geometry: Geometry, engine: str = "llama.cpp", **settings: Any) -> float:
    """With an empty cache."""
    placement = placed(devices, geometry, engine, **settings)
    assert isinstance(placement, Placement)
    decode_step = step(geometry, 0)
    assert decode_step is not None
    return placement.decode(decode_step).tokens_per_s


def assumptions(placement: Placement | Unknown) -> str:
    assert isinstance(placement, Placement)
    return "\n".join(placement.assumptions)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "tgi"])
def test_tensor_parallel_engines_divide_equally(engine: str) -> None:
    """24 and 12 GiB: shares by memory would give the first card two thirds, 56 tok/s."""
    devices = [card(600, 24), card(600, 12)]
    assert allowed(devices, dense(WEIGHT_BYTES), engine) == pytest.approx(600e9 / (WEIGHT_BYTES / 2))
    assert allowed(devices, dense(WEIGHT_BYTES), engine) == pytest.approx(74.7, abs=0.05)
    by_memory = allowed(devices, dense(WEIGHT_BYTES), "llama.cpp", split_mode="tensor")
    assert by_memory == pytest.approx(56.0, abs=0.05)


def test_the_slowest_card_holds_an_equal_share() -> None:
    devices = [card(600, 24), card(300, 24)]
    assert allowed(devices, dense(WEIGHT_BYTES), "vllm") == pytest.approx(300e9 / (WEIGHT_BYTES / 2))


@pytest.mark.parametrize("settings", [{"tensor_split": "3,1"}, {"flags": "-ts 3,1"}, {"flags": "--tensor-split=3/1"}])
def test_a_stated_split_of_llama_cpp(settings: dict[str, Any]) -> None:
    devices, n_bytes = [card(450, 24), card(940, 24)], 12_050_000_000
    by_memory, stated = 1 / (n_bytes * (0.5 / 940e9 + 0.5 / 450e9)), 1 / (n_bytes * (0.75 / 940e9 + 0.25 / 450e9))
    assert by_memory == pytest.approx(50.5, abs=0.05)
    assert stated == pytest.approx(61.3, abs=0.05)
    assert allowed(devices, dense(n_bytes)) == pytest.approx(by_memory)
    assert allowed(devices, dense(n_bytes), **settings) == pytest.approx(stated)
    assert "GPUs share the model as stated, the fastest GPU first: Card 3, Card 1" in assumptions(
        placed(devices, dense(n_bytes), **settings)
    )


def test_a_card_with_no_share_holds_nothing() -> None:
    devices = [card(940, 24), card(450, 24)]
    assert allowed(devices, dense(WEIGHT_BYTES), tensor_split="1,0") == pytest.approx(940e9 / WEIGHT_BYTES)
    placement = placed(devices, dense(WEIGHT_BYTES), tensor_split="1,1,1")
    assert isinstance(placement, Unknown)
    assert "3 GPUs" in placement.reason


def test_a_split_that_is_no_split_is_said() -> None:
    placement = placed([card(940, 24), card(450, 24)], dense(WEIGHT_BYTES), tensor_split="most,rest")
    assert "not understood, so the ceiling ignores it: tensor_split most,rest" in assumptions(placement)


def test_the_main_gpu_of_a_model_that_is_not_split() -> None:
    devices = [card(940, 24), card(450, 24)]
    assert allowed(devices, dense(WEIGHT_BYTES), split_mode="none") == pytest.approx(940e9 / WEIGHT_BYTES)
    assert allowed(devices, dense(WEIGHT_BYTES), flags="-sm none -mg 1") == pytest.approx(450e9 / WEIGHT_BYTES)


def test_ollama_takes_one_card_where_that_is_enough() -> None:
    devices = [card(940, 24), card(450, 24)]
    assert allowed(devices, dense(WEIGHT_BYTES), "ollama") == pytest.approx(940e9 / WEIGHT_BYTES)
    assert allowed(devices, dense(WEIGHT_BYTES), "ollama", cards=2) < 700e9 / WEIGHT_BYTES


def test_pipelines_of_vllm() -> None:
    devices = [card(600, 24)] * 4
    pipeline = allowed(devices, dense(WEIGHT_BYTES), "vllm", flags="--pipeline-parallel-size 4")
    assert pipeline == pytest.approx(600e9 / WEIGHT_BYTES)
    tokens_per_s = allowed(devices, dense(WEIGHT_BYTES), "vllm", flags="-tp 2 -pp 2")
    assert tokens_per_s == pytest.approx(2 * 600e9 / WEIGHT_BYTES)


def test_flags_that_are_not_understood_are_said() -> None:
    placement = placed([card(940, 24)], dense(WEIGHT_BYTES), flags="--rpc host:1 --port 1 -ctk q8_0 -ctv q8_0")
    assert "not understood, so the ceiling ignores it: --rpc host:1" in assumptions(placement)
    assert isinstance(placement, Placement)
    assert str(placement.kv) == "q8_0"


# --- system memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"n_cpu_moe": 16},
        {"flags": "--n-cpu-moe 16"},
        {"flags": r"-ot 'blk\.([0-9]|1[0-5])\.ffn_.*_exps=CPU'"},
        {"override_tensor": r"blk\.([0-9]|1[0-5])\.ffn_.*_exps=CPU"},
    ],
)
def test_experts_in_memory(settings: dict[str, Any]) -> None:
    routed = 60e9 * 4 / 128
    on_card, in_memory = 2e9 + routed / 2, routed / 2
    placement = placed([RAM, card(1000, 80)], MOE, **settings)
    assert isinstance(placement, Placement)
    assert allowed([RAM, card(1000, 80)], MOE, **settings) == pytest.approx(1 / (on_card / 1000e9 + in_memory / 50e9))
    assert [share.is_ram for share in placement.device_shares] == [False, True]


@pytest.mark.parametrize("settings", [{"cpu_moe": "on"}, {"n_cpu_moe": 999}, {"flags": "--cpu-moe"}])
def test_all_experts_in_memory(settings: dict[str, Any]) -> None:
    value = allowed([RAM, card(1000, 16)], MOE, **settings)
    assert value == pytest.approx(1 / (2e9 / 1000e9 + 60e9 * 4 / 128 / 50e9))


def test_ollamas_share() -> None:
    in_memory = WEIGHT_BYTES * 0.25
    expected = 1 / ((WEIGHT_BYTES - in_memory) / 1000e9 + in_memory / 50e9)
    assert allowed([RAM, card(1000, 16)], dense(WEIGHT_BYTES), "ollama", gpu_share=75) == pytest.approx(expected)
    config = Config(server_id=1, model_id=1, engine="ollama", settings={}, fingerprint="f")
    placement = resolve_placement([RAM, card(1000, 16)], config, KnownGeometry(dense(WEIGHT_BYTES)), gpu_share=0.75)
    decode_step = step(dense(WEIGHT_BYTES), 0)
    assert isinstance(placement, Placement)
    assert decode_step is not None
    assert placement.decode(decode_step).tokens_per_s == pytest.approx(expected)


def test_a_model_that_ollama_holds_in_memory_alone() -> None:
    config = Config(server_id=1, model_id=1, engine="ollama", settings={}, fingerprint="f")
    placement = resolve_placement([RAM, card(1000, 24)], config, KnownGeometry(dense(WEIGHT_BYTES)), gpu_share=0.0)
    decode_step = step(dense(WEIGHT_BYTES), 0)
    assert isinstance(placement, Placement)
    assert decode_step is not None
    assert placement.decode(decode_step).tokens_per_s == pytest.approx(50e9 / WEIGHT_BYTES)


def test_what_does_not_fit_is_never_the_cards_speed() -> None:
    """62 GB on 16 GiB: the card alone would allow 116 tok/s."""
    placement = placed([RAM, card(448, 16)], MOE)
    assert isinstance(placement, Placement)
    room = (16 << 30) - 2e9
    in_memory = 60e9 * 4 / 128 * (1 - room / 60e9)
    on_card = 2e9 + 60e9 * 4 / 128 - in_memory
    assert allowed([RAM, card(448, 16)], MOE) == pytest.approx(1 / (on_card / 448e9 + in_memory / 50e9))
    (point_ceiling,) = run_ceilings(placement, [measured("decode_tokens_per_s", 10.0)])
    assert any("does not fit" in sentence for sentence in point_ceiling.assumptions)


def test_without_the_memorys_bandwidth_there_is_no_ceiling() -> None:
    stated: list[dict[str, Any]] = [{}, {"n_cpu_moe": 30}, {"gpu_layers": 5}]
    for settings in stated:
        placement = placed([replace(RAM, bandwidths=[]), card(448, 16)], MOE, **settings)
        assert isinstance(placement, Unknown)
        assert "The bandwidth of the machine's memory is unknown." in placement.reason
        assert placement.remedy == "Measure it, or enter it."
        assert ("does not fit" in placement.reason) == (settings == {})


def test_memory_that_is_the_systems_own_is_no_limit() -> None:
    spark = MachineDevice("DGX Spark (GB10)", "accelerator", 1, 1 << 30, [BandwidthValue(273e9, "catalogue")])
    assert allowed([RAM, spark], dense(WEIGHT_BYTES)) == pytest.approx(273e9 / WEIGHT_BYTES)


# --- counted tokens --------------------------------------------------------------------------------------------------


def test_the_ceiling_is_that_of_the_counted_tokens() -> None:
    """18,200 Chinese characters were taken for 11,560 tokens and counted as 8,000."""
    geometry, devices = dense(4_920_000_000), [card(470.4, 24)]
    placement = placed(devices, geometry)
    assert isinstance(placement, Placement)
    point, kv_per_token = Workload(11_560, 128), 2 * 1024 * 2 * BLOCKS
    numbers = [measured("decode_tokens_per_s", 77.0, point)]
    (estimated,) = run_ceilings(placement, numbers)
    (with_counts,) = run_ceilings(placement, numbers, counts={point: TokenCounts(8000.0, 0.0, 128.0)})
    assert estimated.decode.tokens_per_s == pytest.approx(73.0, abs=0.05)
    assert with_counts.decode.tokens_per_s == pytest.approx(470.4e9 / (4.92e9 + 8064 * kv_per_token))
    assert with_counts.decode.tokens_per_s == pytest.approx(78.7, abs=0.05)
    assert estimated.mbu is not None
    assert with_counts.mbu is not None
    assert estimated.mbu > 1 > with_counts.mbu
    assert (with_counts.context, with_counts.above) == (8064, ())
    assert any("the tokens of the prompt were not counted" in sentence for sentence in estimated.assumptions)
    assert not any("were not counted" in sentence for sentence in with_counts.assumptions)


def test_cached_tokens_are_in_the_cache_but_not_prefilled() -> None:
    placement = placed([replace(card(1000, 24), compute_flops_per_s=100e12)], dense(WEIGHT_BYTES))
    assert isinstance(placement, Placement)
    point = Workload(4096, 128, depth=1000)
    (point_ceiling,) = run_ceilings(
        placement, [measured("ttft_ms", 1.0, point)], counts={point: TokenCounts(5000.0, 3000.0, 100.0)}
    )
    assert point_ceiling.context == 1000 + 5000 + 50
    assert point_ceiling.prefill is not None
    assert point_ceiling.prefill.tokens == 2000


def test_beyond_the_hardware_is_judged_by_counted_tokens() -> None:
    """Twice the ceiling of the counted tokens is not twice that of the estimate."""
    geometry = dense(1_000_000_000)
    placement = placed([card(100, 24)], geometry)
    assert isinstance(placement, Placement)
    point, kv_per_token = Workload(1000, 100), 2 * 1024 * 2 * BLOCKS
    ceilings = [100e9 / (1e9 + context * kv_per_token) for context in (1050, 20_050)]
    speed = 1.9 * ceilings[0]
    numbers = [measured("decode_tokens_per_s", speed, point)]
    sample = made_sample(0, point, 500.0, speed)
    for counts, is_flagged in ((TokenCounts(1000.0, 0.0, 100.0), False), (TokenCounts(20_000.0, 0.0, 100.0), True)):
        point_ceiling = RunCeiling(placement, run_ceilings(placement, numbers, counts={point: counts}))
        assert ("implausible" in flag_above_ceiling([sample], point_ceiling)[0].flags) is is_flagged


def test_faster_than_a_split_says_that_more_may_be_on_cards() -> None:
    placement = placed([RAM, card(1000, 80)], MOE, n_cpu_moe=32)
    assert isinstance(placement, Placement)
    (point_ceiling,) = run_ceilings(placement, [measured("decode_tokens_per_s", 200.0)])
    assert point_ceiling.mbu is not None
    assert point_ceiling.mbu > 1
    assert point_ceiling.above[0] == "more of the model may be on GPUs than the ceiling was computed with"


def test_each_engine_states_its_habit() -> None:
    devices = [card(600, 24), card(600, 24)]
    for engine, split in (("vllm", Split.TENSOR), ("llama.cpp", Split.LAYER), ("import", Split.LAYER)):
        placement = placed(devices, dense(WEIGHT_BYTES), engine)
        assert isinstance(placement, Placement)
        assert placement.split is split


def test_a_cache_of_experts_may_hold_those_that_are_used() -> None:
    """A fifth of the experts fits, and may be what nine of ten look-ups ask for: the bound counts all on the card."""
    devices = [RAM, card(448, 16)]
    read_bytes = 2e9 + 60e9 * 4 / 128
    assert allowed(devices, MOE, "strata") == pytest.approx(448e9 / read_bytes)
    assert "Strata keeps the experts that are used most on GPUs" in assumptions(placed(devices, MOE, "strata"))
    assert allowed(devices, dense(62_000_000_000), "strata") < 448e9 / 62e9
