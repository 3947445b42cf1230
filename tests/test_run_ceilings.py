"""A stored run under its ceiling: which devices hold the model, how much was reached, and why there is no ceiling."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import col, select

from app.ceiling.decode import Split
from app.ceiling.geometry import Geometry, Part, Source, Weights
from app.ceiling.hf_config import from_config
from app.cli.text import run_text
from app.core.samples import Sample, Workload
from app.db import machines, measurements, runs
from app.db.database import Database
from app.db.machines import MachineDevice
from app.db.models import KnownGeometry
from app.db.tables import FULL_GEOMETRY, BandwidthProbe, Config, Machine, Measurement, Model, Run, now
from app.hardware.catalogue import built_in
from app.metrics import headline_metrics
from app.results.ceiling import (
    DecodeAnalysis,
    Placement,
    RunCeiling,
    Unknown,
    analyze_decode,
    flag_above_ceiling,
    resolve_placement,
    run_ceiling,
    run_ceilings,
)
from app.results.ceiling.predictions import TrackRecord
from app.results.hardware import hardware_of, refreeze
from app.results.token_counts import Drafts
from app.schemas.run_document import run_document
from tests.ceiling.models import MODELS
from tests.ceilings import GEOMETRY, POINT, RAM, card, measured, placement_of
from tests.seed import seed
from tests.traces import figures, sample, stream, trace

KV_PER_TOKEN = 10 * 2000 * 2


def ceiling(devices: Sequence[MachineDevice], **settings: Any) -> tuple[float, Placement]:
    """Decode at 576 tokens, without its KV cache for round numbers, and what it stands on."""
    placement = placement_of(devices, **{"kv_type_k": "f16", "kv_type_v": "f16", **settings})
    assert isinstance(placement, Placement)
    (point_ceiling,) = run_ceilings(placement, [measured("decode_tokens_per_s", 5.0)])
    assert point_ceiling.step.n_bytes == 10_000_000_000 + 576 * KV_PER_TOKEN
    return point_ceiling.decode.tokens_per_s * point_ceiling.step.n_bytes / 1e9, placement


@pytest.mark.parametrize("settings", [{"cards": 0}, {"gpu_layers": 0}, {"cards": 1, "gpu_layers": 0}])
def test_without_cards_the_memory_counts(settings: dict[str, Any]) -> None:
    assert ceiling([RAM, card()], **settings)[0] == pytest.approx(50)


def test_a_machine_without_accelerators_runs_on_its_memory() -> None:
    assert ceiling([RAM])[0] == pytest.approx(50)


def test_equal_cards_in_series_are_as_fast_as_one() -> None:
    assert ceiling([RAM, card(count=2)], cards=2, split_mode="layer")[0] == pytest.approx(1000)


@pytest.mark.parametrize("mode", ["tensor", "row"])
def test_cards_in_parallel_add_up(mode: str) -> None:
    value, placement = ceiling([RAM, card(count=2)], cards=2, split_mode=mode)
    assert value == pytest.approx(2000)
    assert placement.split is Split.TENSOR


def test_unequal_cards_in_series_take_shares_by_their_memory() -> None:
    value, placement = ceiling([RAM, card(1000e9, memory=24), card(500e9, memory=8)], cards=2)
    assert value == pytest.approx(1 / (0.75 / 1000 + 0.25 / 500))
    assert "the split mode is not stated, so a split by layers is assumed" in placement.assumptions


@pytest.mark.parametrize(
    ("engine", "settings", "split"),
    [
        ("vllm", {}, Split.TENSOR),
        ("sglang", {}, Split.TENSOR),
        ("tgi", {}, Split.TENSOR),
        ("vllm", {"split_mode": "layer"}, Split.LAYER),
        ("llama.cpp", {}, Split.LAYER),
        ("llama.cpp", {"split_mode": "tensor"}, Split.TENSOR),
    ],
)
def test_a_split_that_is_not_stated_is_the_engines_habit(engine: str, settings: dict[str, Any], split: Split) -> None:
    config = Config(server_id=1, model_id=1, engine=engine, settings={"cards": 2, **settings}, fingerprint="f")
    placement = resolve_placement([RAM, card(count=2)], config, KnownGeometry(GEOMETRY))
    assert isinstance(placement, Placement)
    assert placement.split is split
    sentences = [sentence for sentence in placement.assumptions if sentence.startswith("the split mode is not stated")]
    assert len(sentences) == (0 if settings else 1)
    assert all(("the default of" in sentence) == (split is Split.TENSOR) for sentence in sentences)


def test_one_card_has_no_habit() -> None:
    config = Config(server_id=1, model_id=1, engine="vllm", settings={"cards": 1}, fingerprint="f")
    placement = resolve_placement([card()], config, KnownGeometry(GEOMETRY))
    assert isinstance(placement, Placement)
    assert not any("split" in sentence for sentence in placement.assumptions)


def test_a_processor_whose_peak_was_typed_has_a_prefill_ceiling() -> None:
    placement, without = placement_of([replace(RAM, compute_flops_per_s=2e12)]), placement_of([RAM])
    assert isinstance(placement, Placement)
    assert isinstance(without, Placement)
    triple = [measured("prefill_tokens_per_s", 50.0), measured("decode_tokens_per_s", 4.0)]
    (point_ceiling,), (bare,) = run_ceilings(placement, triple), run_ceilings(without, triple)
    assert point_ceiling.prefill is not None
    assert point_ceiling.mfu == pytest.approx(50.0 / POINT.prompt_tokens * point_ceiling.prefill.flops / 2e12)
    assert point_ceiling.prefill.tokens_per_s <= POINT.prompt_tokens / (point_ceiling.prefill.flops / 2e12) * (1 + 1e-9)
    assert "the peak compute of the processor, 2.00 TFLOP/s, was typed" in point_ceiling.assumptions
    assert (bare.prefill, bare.mfu) == (None, None)
    assert "The peak compute of the processor is unknown" in bare.why_no_prefill


def test_both_peaks_are_named() -> None:
    two_peaks = replace(card(peak=71e12), fastest_flops_per_s=142e12)
    placement = placement_of([two_peaks])
    assert isinstance(placement, Placement)
    assert placement.device_shares[0].device.peak_flops == 142e12
    assert (
        "compute of Card is that of its fastest usable path, 142 TFLOP/s; FP16 with FP32 accumulate reaches 71.0"
        in placement.assumptions
    )


def test_drafted_tokens_raise_the_ceiling() -> None:
    placement = placement_of([RAM])
    assert isinstance(placement, Placement)
    numbers = [measured("decode_tokens_per_s", 12.0)]
    (plain,) = run_ceilings(placement, numbers)
    (point_ceiling,) = run_ceilings(placement, numbers, {POINT: Drafts(drafted=300, accepted=150, decoded=250)})
    assert point_ceiling.decode.tokens_per_s == pytest.approx(2.5 * plain.decode.tokens_per_s)
    assert point_ceiling.decode.words.endswith(" = (1 + 1.50) x 50.0 GB/s / 10.0 GB")
    assert point_ceiling.steps_per_s == pytest.approx(12 / 2.5)
    assert plain.mbu is not None
    assert plain.mbu > 1
    assert any("speculative decoding may be on" in reason for reason in plain.above)
    assert point_ceiling.mbu is not None
    assert point_ceiling.mbu < 1
    assert any(
        sentence.startswith("speculative decoding: on average 1.50 of 3.00 drafted tokens")
        for sentence in point_ceiling.assumptions
    )


def test_a_server_that_drafted_nothing_rules_speculation_out() -> None:
    placement = placement_of([RAM])
    assert isinstance(placement, Placement)
    (point_ceiling,) = run_ceilings(placement, [measured("decode_tokens_per_s", 50.0)], {POINT: Drafts(0, 0, 250)})
    assert point_ceiling.above
    assert not any("speculative" in reason for reason in point_ceiling.above)


def test_more_than_drafts_explain_is_still_explained() -> None:
    placement = placement_of([RAM])
    assert isinstance(placement, Placement)
    (point_ceiling,) = run_ceilings(placement, [measured("decode_tokens_per_s", 50.0)], {POINT: Drafts(300, 150, 250)})
    assert any("speculative decoding may have accepted more" in reason for reason in point_ceiling.above)


def test_fewer_cards_than_there_are_are_the_fastest() -> None:
    assert ceiling([RAM, card(500e9), card(1000e9)], cards=1)[0] == pytest.approx(1000)
    assert ceiling([RAM, card(500e9), card(1000e9)], cards=2, split_mode="none")[0] == pytest.approx(1000)


def test_cards_not_stated_are_all_taken_and_said() -> None:
    value, placement = ceiling([RAM, card(count=2)], split_mode="tensor")
    assert value == pytest.approx(2000)
    assert "the number of GPUs is not stated, so all of the machine's are assumed" in placement.assumptions


def test_layers_in_memory_add_their_time() -> None:
    value, placement = ceiling([RAM, card()], gpu_layers=4)
    kv = 576 * KV_PER_TOKEN
    in_ram = (9e9 + kv) * 0.7  # three layers and the head on the card read less from memory than four layers do
    assert value == pytest.approx((10e9 + kv) / 1e9 / ((10e9 + kv - in_ram) / 1000e9 + in_ram / 50e9))
    assert [device_share.is_ram for device_share in placement.device_shares] == [False, True]
    assert ceiling([RAM, card()], gpu_layers=99)[0] == pytest.approx(1000)


@pytest.mark.parametrize(
    ("devices", "settings", "about", "reason"),
    [
        ([MachineDevice("Memory", "ram", 1, None, [])], {}, "machine", "The bandwidth of the machine's memory"),
        ([RAM, card(None)], {}, "machine", "The bandwidth of the machine's Card is unknown."),
        ([RAM], {"cards": 2}, "machine", "The configuration uses 2 GPUs, and the machine is known to have 0."),
    ],
)
def test_why_there_is_no_ceiling(
    devices: Sequence[MachineDevice], settings: dict[str, Any], about: str, reason: str
) -> None:
    unknown = placement_of(devices, **settings)
    assert isinstance(unknown, Unknown)
    assert unknown.about == about
    assert reason in unknown.reason
    assert unknown.remedy


def test_totals_alone_make_no_ceiling() -> None:
    unknown = placement_of([RAM], geometry=None)
    assert isinstance(unknown, Unknown)
    assert unknown.about == "model"


@pytest.mark.parametrize(
    ("k", "v", "kv_types", "assumptions"),
    [
        ("q8_0", None, "q8_0/f16", ["the type of the KV cache is not stated, so f16 is counted"]),
        ("int8", " INT8", "int8", []),
        ("q8", "q8", "q8", ["a KV cache of type q8 counts 8 bits a value, its scales are left out"]),
        (
            "FP8_DS_MLA", "nvfp4", "fp8_ds_mla/nvfp4",
            [
                "a KV cache of type fp8_ds_mla counts 8 bits a value, its scales are left out",
                "a KV cache of type nvfp4 counts 4 bits a value, its scales are left out",
            ],
        ),
        ("q8_0", "turbo9", "q8_0/unknown",
         ["the size of a KV cache of type turbo9 is unknown, so it is left out of the bytes"]),
    ],
)  # fmt: skip
def test_a_kv_type_never_counts_more_than_it_must(k: str, v: str | None, kv_types: str, assumptions: list[str]) -> None:
    placement = placement_of([RAM], kv_type_k=k, kv_type_v=v)
    assert isinstance(placement, Placement)
    assert str(placement.kv) == kv_types
    assert [sentence for sentence in placement.assumptions if "KV cache" in sentence] == assumptions


def test_shares_are_not_clamped_and_explained() -> None:
    placement = placement_of([RAM, card(peak=100e12)])
    assert isinstance(placement, Placement)
    numbers = [measured("decode_tokens_per_s", 150.0), measured("prefill_tokens_per_s", 2000.0)]
    (point_ceiling,) = run_ceilings(placement, numbers)
    assert point_ceiling.mbu is not None
    assert point_ceiling.mbu == pytest.approx(150 / point_ceiling.decode.tokens_per_s)
    assert point_ceiling.mbu > 1
    assert "the bandwidth assumed for this machine is too low" in point_ceiling.above
    assert point_ceiling.prefill is not None
    assert point_ceiling.mfu == pytest.approx(2000 / 512 * point_ceiling.prefill.flops / 100e12)


def test_a_model_that_fits_the_cache_is_told_so() -> None:
    tiny = Geometry(Source.GGUF, "tiny", Weights(Part(250_000_000, 200_000_000)), ())
    placement = placement_of([RAM], geometry=tiny)
    assert isinstance(placement, Placement)
    (point_ceiling,) = run_ceilings(placement, [measured("decode_tokens_per_s", 100.0)])
    assert point_ceiling.cache is not None
    assert point_ceiling.cache.startswith("cache may help")


def test_several_streams_are_held_against_the_ceiling_by_the_throughput_of_their_rounds() -> None:
    """Not by one stream's speed times their number: 50 tok/s each are not 200 tok/s where their prompts take time."""
    placement, point = placement_of([RAM]), Workload(512, 128, concurrency=4)
    assert isinstance(placement, Placement)
    streams = [measured("decode_tokens_per_s", 50.0, point), measured("output_tokens_per_s", 46.7, point)]
    (point_ceiling,) = run_ceilings(placement, streams)
    assert point_ceiling.decode_tokens_per_s == 46.7
    assert point_ceiling.step.batch == 4
    assert point_ceiling.mbu == pytest.approx(46.7 / point_ceiling.decode.tokens_per_s)
    (unknown,) = run_ceilings(placement, streams[:1])
    assert (unknown.decode_tokens_per_s, unknown.mbu, unknown.above) == (None, None, ())
    # of a lone stream it is the decode speed, which holds no prompt
    alone = [measured("decode_tokens_per_s", 4.0), measured("output_tokens_per_s", 3.0)]
    assert run_ceilings(placement, alone)[0].decode_tokens_per_s == 4.0


@pytest.mark.parametrize(("parallel", "together"), [(1, 1), (2, 2), (4, 4), (8, 4), (0, 4), (None, 4)])
def test_streams_beyond_the_servers_slots_take_turns(parallel: int | None, together: int) -> None:
    """Four in turns share no reading: their throughput stands under the ceiling of as many as there are slots."""
    placement = placement_of([RAM], parallel=parallel)
    assert isinstance(placement, Placement)
    (point_ceiling,) = run_ceilings(
        placement, [measured("output_tokens_per_s", 4.0, point=Workload(512, 128, concurrency=4))]
    )
    assert (point_ceiling.step.batch, point_ceiling.decode_tokens_per_s) == (together, 4.0)
    lone = run_ceilings(placement, [measured("decode_tokens_per_s", 4.0, point=Workload(512, 128))])[0]
    assert (point_ceiling.mbu == lone.mbu) is (together == 1)


def test_the_document_and_its_text(database: Database) -> None:
    with database.write() as session:
        public_id = seed(session, runs=1, configs_used=1, detailed=1)[0]
    with database.read() as session:
        document = run_document(session, public_id)
    assert document["points"][0]["ceiling"]["mbu"] is not None
    assert document["points"][0]["ceiling"]["certainty"] == "bound"
    assert document["points"][0]["ceiling"]["not_understood"] == []
    (line,) = (line for line in run_text(document).splitlines() if line.startswith("Ceiling "))
    assert "; reached " in line


def test_the_measured_bandwidth_outranks_and_unknown_is_said(database: Database) -> None:
    with database.write() as session:
        public_id = seed(session, runs=1, configs_used=1, detailed=1)[0]
        machine = machines.edit_machine(session, "strix-halo", accelerators=[])
        config = session.get_one(Config, 1)
        config.settings = {}
        session.add(config)
    with database.read() as session:
        unknown = run_document(session, public_id)["points"][0]["ceiling"]
    assert unknown == {"reason": "The bandwidth of the machine's memory is unknown. Measure it, or enter it."}
    with database.write() as session:
        machine = session.get_one(Machine, machine.id)
        assert machine.id is not None
        session.add(
            BandwidthProbe(
                machine_id=machine.id, status="done", best_bytes_per_s=90e9, record={"remarks": []}, finished_at=now()
            )
        )
    with database.read() as session:
        ceiling_document = run_document(session, public_id)["points"][0]["ceiling"]
    assert [device["bandwidth_source"] for device in ceiling_document["devices"]] == ["measured"]


# --- where the time goes ---------------------------------------------------------------------------------------------


def explained(database: Database, public_id: str) -> DecodeAnalysis:
    with database.read() as session:
        run = runs.run(session, public_id)
        assert run.id is not None
        config, model = run.config, run.model
        ceiling_of_run = run_ceiling(
            session, run, config, model, hardware_of(session, run), measurements.measurements_of(session, run.id)
        )
        assert isinstance(ceiling_of_run, RunCeiling)
        assert config is not None
        analysis = analyze_decode(session, run, config, ceiling_of_run, ceiling_of_run.points[0])
    assert analysis is not None
    return analysis


def copy_to(database: Database, model: Model, decode: float) -> None:
    """A done run of `model` on the first run's server."""
    with database.write() as session:
        first = session.get_one(Run, 1)
        session.add(model)
        session.flush()
        assert model.id is not None
        config = Config(
            server_id=1, model_id=model.id, engine="llama.cpp", settings={"cards": 1}, fingerprint=model.name
        )
        session.add(config)
        session.flush()
        values = first.model_dump(exclude={"id", "public_id", "config_id"})
        run = Run(**values, config_id=config.id)
        session.add(run)
        session.flush()
        session.add(
            Measurement(
                run_id=run.id or 0,
                point_key=first.main_point_key,
                metric="decode_tokens_per_s",
                source="client",
                unit="tok/s",
                is_shown=True,
                value=decode,
                sample_count=5,
            )
        )


@pytest.fixture
def first_run(database: Database) -> str:
    """Qwen3-30B-A3B Q8_0 with about 45 tok/s at 256 GB/s."""
    with database.write() as session:
        return seed(session, runs=1, configs_used=1, detailed=1)[0]


def test_the_parts_of_a_token_add_up(database: Database, first_run: str) -> None:
    analysis = explained(database, first_run)
    (point_ceiling,) = analysis.measured_points
    assert point_ceiling.decode_tokens_per_s is not None
    assert sum(share.ms for share in analysis.waterfall) == pytest.approx(1000 / point_ceiling.decode_tokens_per_s)
    assert [share.key for share in analysis.waterfall] == ["weights", "kv", "loss"]
    assert analysis.fit_words[0].startswith("A run of another model or quantization")


@pytest.mark.parametrize("split", [{"split_mode": "layer"}, {"split_mode": "tensor"}, {"gpu_layers": 12}])
def test_unlike_devices_are_explained_as_what_they_are_worth_together(
    database: Database, first_run: str, split: dict[str, Any]
) -> None:
    cards = [
        {"name": name, "count": 1, "memory_bytes": memory << 30, "bandwidth_bytes_per_s": bandwidth, "source": "typed"}
        for name, memory, bandwidth in (("RTX 3090", 24, 936e9), ("RTX 4070", 12, 504e9))
    ]
    with database.write() as session:
        machines.edit_machine(session, "strix-halo", accelerators=cards, ram_bandwidth_bytes_per_s=89.6e9)
        run = runs.run(session, first_run)
        refreeze(session, run)
        config = session.get_one(Config, run.config_id)
        config.settings = split
        session.add(config)
    analysis = explained(database, first_run)
    with database.read() as session:
        point = run_document(session, first_run)["points"][0]
    reading = sum(part.ms for part in analysis.waterfall if part.key in ("weights", "kv", "state"))
    assert reading == pytest.approx(1000 / point["ceiling"]["decode_tokens_per_s"])
    assert [advice.change for advice in analysis.advice][-1] not in ("RTX 3090", "RTX 4070")


def test_two_runs_tell_the_fixed_cost_of_a_layer(database: Database, first_run: str) -> None:
    smaller = from_config(MODELS["Qwen3-30B-A3B"], 4.85)
    model = Model(name="smaller", geometry={FULL_GEOMETRY: smaller.to_json()}, geometry_sha256="s")
    copy_to(database, model, 66.0)
    analysis = explained(database, first_run)
    assert [share.key for share in analysis.waterfall] == ["weights", "kv", "layers", "loss"]
    assert analysis.fit_words[0] == "The fixed cost of a layer comes from this run and that of smaller."


def test_the_same_weights_twice_tell_nothing(database: Database, first_run: str) -> None:
    same = from_config(MODELS["Qwen3-30B-A3B"], 8.5)
    copy_to(database, Model(name="same", geometry={FULL_GEOMETRY: same.to_json()}, geometry_sha256="s"), 66.0)
    assert explained(database, first_run).fit_words[0].startswith("A run of another model or quantization")


def on_card(database: Database, public_id: str, name: str, memory_gb: int, bandwidth_gb_per_s: int) -> None:
    """Moves a run to a machine with one such card and DDR5."""
    card = {"name": name, "count": 1, "memory_bytes": memory_gb * 10**9, "source": "typed"}
    card["bandwidth_bytes_per_s"] = bandwidth_gb_per_s * 1e9
    with database.write() as session:
        machines.edit_machine(session, "strix-halo", accelerators=[card], ram_bandwidth_bytes_per_s=89.6e9)
        run = runs.run(session, public_id)
        refreeze(session, run)


def test_advice_is_a_step_that_a_person_would_take(database: Database, first_run: str) -> None:
    """At 576 tokens a smaller KV cache saves nothing, and no APU is a step above a Radeon 8060S."""
    assert [advice.change for advice in explained(database, first_run).advice] == ["Q6_K weights"]


def test_the_next_card_is_one_of_its_class_that_holds_the_model(database: Database, first_run: str) -> None:
    on_card(database, first_run, "RTX A6000", 48, 768)
    smaller, card = explained(database, first_run).advice
    assert smaller.change == "Q6_K weights"
    device = built_in().find(card.change).device
    assert device is not None
    assert (device.vendor, device.kind) == ("nvidia", "gpu")
    assert device.bandwidth_bytes_per_s >= 1.25 * 768e9
    assert (device.memory_bytes or 0) > 34e9
    assert "HBM" not in device.memory_kind
    assert card.low_tokens_per_s < card.predicted_tokens_per_s < card.high_tokens_per_s


def test_one_more_card_is_advised_where_the_model_does_not_fit(database: Database, first_run: str) -> None:
    on_card(database, first_run, "RTX 3090", 24, 936)
    assert "one more RTX 3090" in [advice.change for advice in explained(database, first_run).advice]


def test_a_prediction_stands_beside_what_was_measured_later(database: Database, first_run: str) -> None:
    assert explained(database, first_run).prediction is None
    smaller = from_config(MODELS["Qwen3-30B-A3B"], 4.85)
    copy_to(database, Model(name="later", geometry={FULL_GEOMETRY: smaller.to_json()}, geometry_sha256="s"), 66.0)
    with database.read() as session:
        later = session.exec(select(Run.public_id).order_by(col(Run.id).desc())).first()
    assert later is not None
    analysis = explained(database, later)
    prediction = analysis.prediction
    assert prediction is not None
    assert (prediction.measured, prediction.evidence, prediction.is_inside) == (66.0, 1, True)
    assert prediction.low < 66 < prediction.high
    assert explained(database, first_run).prediction is None  # nothing had been measured before it
    assert analysis.track_record == TrackRecord(inside=1, predictions=1)


def test_the_curve_reaches_as_far_as_the_servers_context(database: Database, first_run: str) -> None:
    curve = explained(database, first_run).curve
    assert (curve[0].context, curve[-1].context) == (0, 4096)


def test_nothing_measured_is_nothing_explained(database: Database, first_run: str) -> None:
    with database.write() as session:
        for row in session.exec(select(Measurement)).all():
            row.value = None
            session.add(row)
    with database.read() as session:
        run = runs.run(session, first_run)
        config, model = run.config, run.model
        ceiling_of_run = run_ceiling(
            session, run, config, model, hardware_of(session, run), measurements.measurements_of(session, 1)
        )
        assert isinstance(ceiling_of_run, RunCeiling)
        assert config is not None
        assert analyze_decode(session, run, config, ceiling_of_run, ceiling_of_run.points[0]) is None


def test_a_sample_beyond_twice_the_ceiling_is_implausible_once_a_ceiling_is_known() -> None:
    placement = placement_of([card()], kv_type_k="f16", kv_type_v="f16")
    assert isinstance(placement, Placement)
    ceilings = RunCeiling(placement, run_ceilings(placement, [measured("decode_tokens_per_s", 5.0)]))
    limit = ceilings.points[0].decode.tokens_per_s

    def at(share: float, **changes: Any) -> Sample:
        gap_ms = 1000 / (limit * share)
        return sample(trace(stream(gap_ms=gap_ms)), **{"point": POINT, **changes})

    fits, beyond = at(1.9), at(2.1, flags=("early_stop",))
    elsewhere = at(2.1, point=Workload(9000, 128))
    assert [flagged.flags for flagged in flag_above_ceiling([fits, beyond, elsewhere], ceilings)] == [
        (),
        ("early_stop", "implausible"),
        (),
    ]
    assert flag_above_ceiling([beyond], Unknown("no", "ceiling", "model")) == [beyond]
    assert flag_above_ceiling([beyond], None) == [beyond]


@pytest.mark.parametrize(
    ("prefill_share", "decode_share", "is_beyond"),
    [(1.9, 0.5, False), (2.1, 0.5, True), (2.1, None, True), (1.9, None, False), (0.5, 2.1, True), (None, 0.5, False)],
)
def test_either_speed_may_be_beyond_the_ceiling(
    prefill_share: float | None, decode_share: float | None, is_beyond: bool
) -> None:
    """A prompt of 512 tokens in so much of the time that the ceiling allows; null where nothing is known of it."""
    placement = placement_of([card(peak=50e12)], kv_type_k="f16", kv_type_v="f16")
    assert isinstance(placement, Placement)
    ceilings = RunCeiling(placement, run_ceilings(placement, [measured("decode_tokens_per_s", 5.0)]))
    point_ceiling = ceilings.points[0]
    assert point_ceiling.prefill is not None
    gap_ms = 1000 / (point_ceiling.decode.tokens_per_s * (decode_share or 1))
    server = figures(decode_ms=None, output_tokens=None, prompt_ms=None, prompt_tokens=None)
    if prefill_share is not None:
        server = replace(
            server, prompt_tokens=512, prompt_ms=512_000 / (point_ceiling.prefill.tokens_per_s * prefill_share)
        )
    events = stream(gap_ms=gap_ms, tokens=11 if decode_share else 1)
    cached = 500 if prefill_share is None else 0
    answer = sample(
        trace(events, server=server, output_tokens=11 if decode_share else 1, cached_tokens=cached), point=POINT
    )
    assert (headline_metrics(answer)["prefill_tokens_per_s"] is None) == (prefill_share is None)
    assert headline_metrics(answer)["decode_tokens_per_s"] == (
        None if decode_share is None else pytest.approx(point_ceiling.decode.tokens_per_s * decode_share)
    )
    assert [flagged.flags for flagged in flag_above_ceiling([answer], ceilings)] == [
        ("implausible",) if is_beyond else ()
    ]
    without = RunCeiling(placement, tuple(replace(point, prefill=None) for point in ceilings.points))
    is_decode_beyond = decode_share is not None and decode_share > 2
    assert [flagged.flags for flagged in flag_above_ceiling([answer], without)] == [
        ("implausible",) if is_decode_beyond else ()
    ]


def test_of_several_streams_no_sample_is_beyond_the_ceiling_of_all() -> None:
    """A stream of two may be faster than half of what both reach, and a sum of them is no sample's."""
    placement = placement_of([card()], kv_type_k="f16", kv_type_v="f16")
    assert isinstance(placement, Placement)
    points = [Workload(512, 128, streams) for streams in (1, 2, 3)]
    speeds = [measured("decode_tokens_per_s" if p.concurrency == 1 else "output_tokens_per_s", 5.0, p) for p in points]
    ceilings = RunCeiling(placement, run_ceilings(placement, speeds))
    flags = []
    for point_ceiling in ceilings.points:
        fast = trace(stream(gap_ms=1000 / (2.1 * point_ceiling.decode.tokens_per_s)))
        flags += [flagged.flags for flagged in flag_above_ceiling([sample(fast, point=point_ceiling.point)], ceilings)]
    assert flags == [("implausible",), (), ()]
