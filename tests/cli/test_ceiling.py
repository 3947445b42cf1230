"""`roofmark ceiling` as a person and a script meet it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.core.errors import RoofmarkError
from app.core.settings import Settings
from app.db.database import Database
from tests.ceiling.files import SMALL, bytes_of, dense, moe, write_gguf, write_shards
from tests.ceiling.models import MODELS
from tests.seed import seed

KEYS = [
    "weight_bytes_per_token",
    "kv_bytes_per_token",
    "kv_bytes",
    "step_bytes",
    "decode_ceiling_tokens_per_s",
    "decode_null_reason",
    "prefill_ceiling_tokens_per_s",
    "ttft_floor_ms",
    "bound",
    "params_total",
    "params_active",
    "certainty",
    "not_understood",
    "weight_bytes_per_token_at_most",
    "assumptions",
]


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["Llama-3.1-8B"]))
    return str(path)


@pytest.fixture
def own_database(database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The database that the command reads."""
    monkeypatch.setenv("ROOFMARK_DATA_DIR", str(settings.data_dir))
    return database


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


def test_a_bound_or_an_estimate(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    numbers = ["--bandwidth", "1008", "--context", "512"]
    for more, certainty, keys in (({}, "bound", []), ({"warp_heads": 8}, "estimate", ["warp_heads"])):
        path.write_text(json.dumps({**MODELS["Llama-3.1-8B"], **more}))
        document = json.loads(call(str(path), *numbers, "--json"))
        assert (document["certainty"], document["not_understood"]) == (certainty, keys)
    text = call(str(path), *numbers)
    assert "decode      about 66.9 tok/s" in text
    assert "certainty   an estimate, not a bound: Roofmark does not understand warp_heads" in text


@pytest.mark.parametrize(("kv", "share"), [("turbo3", 3 / 16), ("k8v4", 12 / 32), ("q9_9", 0)])
def test_kv_types_of_forks(config: str, kv: str, share: float) -> None:
    """B17: taken as in a run, with a sentence."""
    document = json.loads(call(config, "--bandwidth", "1008", "--context", "8192", "--kv", kv, "--json"))
    assert document["kv_bytes"] == 1_073_741_824 * share
    assert any(f"type {kv}" in sentence for sentence in document["assumptions"])


def test_words_for_a_person(tmp_path: Path, config: str) -> None:
    text = call(config, "--bandwidth", "1008 GB/s", "--tflops", "165.2", "--context", "512")
    assert "66.9 tok/s = 1,008 GB/s / 15.1 GB" in text
    assert "limited by compute" in text
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
        (["CONFIG", "--bandwidth", "100", "--kv", "f" * 50], "not a KV cache type"),
        (["CONFIG", "--bandwidth", "100", "--bits", "nan"], "nan bits per weight make no sense"),
        (["CONFIG", "--bandwidth", "100", "--bits", "-4"], "make no sense"),
    ],
)
def test_every_error_is_one_sentence(config: str, arguments: list[str], why: str) -> None:
    with pytest.raises(RoofmarkError, match=why) as caught:
        call(*(config if argument == "CONFIG" else argument for argument in arguments))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


# --- the cases of other tools' mistakes, as a script meets them ------------------------------------------------------


def document(*arguments: object) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(call(*map(str, arguments), "--json"))
    return parsed


def test_routed_experts_by_their_share(tmp_path: Path) -> None:
    """C01: from the tensor table of a GGUF file, and from a config of an architecture that nobody knows."""
    path = write_gguf(tmp_path / "m.gguf", "synmoe", {**SMALL, "expert_count": 8, "expert_used_count": 2}, moe())
    of_file = document(path, "--bandwidth", "1")
    everything = sum(bytes_of(*tensor) for tensor in moe().values())
    routed = sum(bytes_of(*tensor) for name, tensor in moe().items() if "_exps" in name)
    read = everything - bytes_of(*moe()["token_embd.weight"]) - routed * 3 // 4
    assert of_file["weight_bytes_per_token"] == read
    assert of_file["decode_ceiling_tokens_per_s"] == pytest.approx(1e9 / read)
    config = {key: value for key, value in MODELS["Qwen3-30B-A3B"].items() if key != "model_type"}
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["SynMoeForCausalLM"]}))
    of_config = document(tmp_path / "config.json", "--bandwidth", "100")
    assert of_config["params_active"] == pytest.approx(3_041_656_832, rel=0.01)
    assert of_config["params_total"] == pytest.approx(30_531_911_680, rel=0.01)


def test_the_table_counts_once_where_it_is_the_head(tmp_path: Path) -> None:
    """C02"""
    tied = {name: tensor for name, tensor in dense().items() if name != "output.weight"}
    for name, tensors, read in (("untied", dense(), 860_672), ("tied", tied, 826_880)):
        path = write_gguf(tmp_path / f"{name}.gguf", "llama", SMALL, tensors)
        assert document(path, "--bandwidth", "1")["step_bytes"] == read


@pytest.mark.parametrize(
    ("context", "kv_bytes"), [(0, 0), (128, 6_291_456), (4_096, 103_809_024), (131_072, 3_224_371_200)]
)
def test_windows_bound_the_cache(tmp_path: Path, context: int, kv_bytes: int) -> None:
    """C04: 12 of 24 layers see 128 tokens, by the pattern in the file."""
    keys = {
        **SMALL,
        "block_count": 24,
        "attention.head_count": 64,
        "attention.head_count_kv": 8,
        "attention.sliding_window": 128,
        "attention.sliding_window_pattern": [True, False] * 12,
    }
    path = write_gguf(tmp_path / "m.gguf", "syn", keys, dense(blocks=24))
    result = document(path, "--bandwidth", "500", "--context", context)
    assert result["kv_bytes"] == kv_bytes
    assert result["step_bytes"] == result["weight_bytes_per_token"] + kv_bytes
    assert result["decode_ceiling_tokens_per_s"] == pytest.approx(500e9 / result["step_bytes"])


def test_mla_caches_one_latent_and_says_what_is_unknown(tmp_path: Path) -> None:
    """C05"""
    shape = {"num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512}
    heads = {"qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "hidden_size": 7168}
    (tmp_path / "config.json").write_text(json.dumps({**shape, **heads, "architectures": ["SynMLAForCausalLM"]}))
    result = document(tmp_path / "config.json", "--bandwidth", "100", "--context", "1000")
    assert (result["kv_bytes_per_token"], result["kv_bytes"]) == (70_272, 70_272_000)
    assert result["weight_bytes_per_token"] is result["decode_ceiling_tokens_per_s"] is None
    assert any("intermediate_size" in sentence for sentence in result["assumptions"])


def test_any_shard_stands_for_all_and_a_missing_one_is_named(tmp_path: Path) -> None:
    """C07"""
    shards = write_shards(tmp_path)
    for path in shards:
        assert document(path, "--bandwidth", "1")["step_bytes"] == 860_672
    shards[2].unlink()
    with pytest.raises(RoofmarkError, match=r"m-00003-of-00003\.gguf is missing beside m-00001-of-00003\.gguf\.$"):
        call(str(shards[0]), "--bandwidth", "1")


def test_speculative_decoding(config: str, tmp_path: Path) -> None:
    """(1 + accepted) x bandwidth / (bytes + drafted x bytes of the draft); without its file the draft reads nothing."""
    plain = document(config, "--bandwidth", "936", "--bits", "4.85")
    drafted = ("--bandwidth", "936", "--bits", "4.85", "--drafting", "4", "2.5")
    alone = document(config, *drafted)
    assert alone["decode_ceiling_tokens_per_s"] == pytest.approx(3.5 * plain["decode_ceiling_tokens_per_s"])
    assert any("reads of the draft model are not counted" in sentence for sentence in alone["assumptions"])
    (tmp_path / "draft.json").write_text(json.dumps({**MODELS["Llama-3.1-8B"], "num_hidden_layers": 2}))
    draft = document(tmp_path / "draft.json", "--bandwidth", "936", "--bits", "4.85")["step_bytes"]
    both = document(config, *drafted, "--draft", str(tmp_path / "draft.json"))
    expected = 3.5 * 936e9 / (plain["step_bytes"] + 4 * draft)
    assert both["decode_ceiling_tokens_per_s"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--drafting", "4", "5"), "The accepted tokens must be between 0 and the drafted tokens"),
        (("--drafting", "4", "nan"), "The accepted tokens must be between 0 and the drafted tokens"),
        (("--drafting", "4", "2", "--batch", "2"), "for one sequence"),
        (("--draft", "draft.json"), "--draft needs --drafting"),
    ],
)
def test_drafting_that_cannot_be(config: str, arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(RoofmarkError, match=why):
        call(config, "--bandwidth", "936", *arguments)


# --- a device by its name --------------------------------------------------------------------------------------------


def test_a_device_of_the_catalogue(config: str, own_database: Database) -> None:
    result = document(config, "--device", "rtx 3090", "--bits", "4.85")
    assert result["decode_ceiling_tokens_per_s"] == pytest.approx(936e9 / result["step_bytes"])
    assert result["bound"] == "compute"
    assert result["assumptions"][-1].startswith("GeForce RTX 3090: 936 GB/s, from the catalogue: ")
    peaks = "prefill uses the fastest path of GeForce RTX 3090, 284 TFLOP/s; FP16 with FP32 accumulate reaches 71.0"
    assert result["assumptions"][-2] == peaks
    typed = document(config, "--device", "rtx 3090", "--bits", "4.85", "--tflops", "100")
    assert peaks not in typed["assumptions"]


def test_a_machines_device_and_what_is_typed_before_it(config: str, own_database: Database) -> None:
    with own_database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)
    card = ["--device", "Radeon 8060S on strix-halo"]
    result = document(config, *card)
    assert result["decode_ceiling_tokens_per_s"] == pytest.approx(256e9 / result["step_bytes"])
    assert result["assumptions"][-1] == "Radeon 8060S on strix-halo: 256 GB/s, from the catalogue"
    corrected = document(config, *card, "--bandwidth", "200")
    assert corrected["decode_ceiling_tokens_per_s"] == pytest.approx(200e9 / result["step_bytes"])
    assert corrected["assumptions"][-1].endswith("200 GB/s, from the catalogue, corrected as typed")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], r"Name a device \(--device 'RTX 3090'\) or a bandwidth in GB/s \(--bandwidth 936\)\."),
        (["--device", "m3 max"], r"'m3 max' matches several devices: Apple M3 Max \(30-core GPU\), Apple M3"),
        (["--device", "rtx 3091"], r"a device 'rtx 3091'\. Did you mean GeForce RTX 3090\?"),
    ],
)
def test_unknown_and_ambiguous_devices(config: str, own_database: Database, arguments: list[str], why: str) -> None:
    with pytest.raises(RoofmarkError, match=why) as caught:
        call(config, *arguments)
    assert caught.value.exit_code == 2


def test_what_does_not_fit_the_device(tmp_path: Path, own_database: Database) -> None:  # for its catalogue
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["Llama-3.1-8B"] | {"num_hidden_layers": 320}))
    arguments = [str(path), "--device", "rtx 3090", "--bits", "16", "--json"]
    unknown = json.loads(call(*arguments))
    assert unknown["decode_ceiling_tokens_per_s"] is None
    assert "does not fit" in unknown["decode_null_reason"]
    assert "enter it" in unknown["decode_null_reason"]
    split = json.loads(call(*arguments, "--ram-bandwidth", "60"))
    weight_bytes = unknown["params_total"] * 2
    on_card = 24 * 2**30
    in_memory = split["step_bytes"] - on_card
    assert weight_bytes > 130e9
    assert split["decode_null_reason"] is None
    assert split["decode_ceiling_tokens_per_s"] == pytest.approx(1 / (on_card / 936.2e9 + in_memory / 60e9), rel=1e-3)
    assert any("best split" in sentence for sentence in split["assumptions"])


def test_layers_and_experts_in_system_memory(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "synmoe", {**SMALL, "expert_count": 8, "expert_used_count": 2}, moe())
    numbers = [str(path), "--bandwidth", "1000", "--ram-bandwidth", "50", "--json"]
    speeds = [
        json.loads(call(*numbers, *flags))["decode_ceiling_tokens_per_s"]
        for flags in ([], ["-ot", "exps=CPU"], ["--cpu-moe"], ["--n-cpu-moe", "1000"], ["--gpu-layers", "0"])
    ]
    fastest, overridden, all_experts, first_experts, none = speeds
    assert overridden == all_experts == first_experts
    assert none == pytest.approx(fastest / 20)
    assert none < all_experts < fastest
