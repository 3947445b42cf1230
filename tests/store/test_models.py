"""What is known of a model: the better source first, a person's statement for all runs of a name and quantization."""

from collections.abc import Sequence

import pytest
from sqlmodel import Session

from app.ceiling.geometry import Geometry, Source, from_parameter_counts
from app.ceiling.hf_config import from_config
from app.core.configuration import Snapshot
from app.core.errors import BadInput, NotFound
from app.db import configs, models
from app.db.database import Database
from app.db.tables import FULL_GEOMETRY, Config, Model, StatedGeometry
from app.results.ceiling import config_ceilings
from app.results.ceiling.configs import newest_decodes
from app.results.explore import observations
from tests.ceiling.models import MODELS
from tests.databases import on_both
from tests.seed import seed

GUESS = from_parameter_counts(8e9, 8e9, 4.5)
CONFIG = from_config(MODELS["Llama-3.1-8B"], 4.5)


def of(source: Source) -> Geometry:
    return Geometry(source, "llama", GUESS.weights, None)


@pytest.mark.parametrize(
    ("typed", "detected", "counts"),
    [
        ([Source.TYPED], [], Source.TYPED),
        ([Source.TYPED], [Source.LLAMA_CPP], Source.LLAMA_CPP),
        ([Source.CONFIG], [Source.OLLAMA], Source.OLLAMA),
        ([Source.GGUF], [Source.OLLAMA], Source.GGUF),
        ([Source.GGUF], [Source.LLAMA_CPP], Source.GGUF),
        ([Source.CONFIG], [], Source.CONFIG),
        ([], [Source.OLLAMA], Source.OLLAMA),
    ],
)
def test_the_better_source_counts(typed: Sequence[Source], detected: Sequence[Source], counts: Source) -> None:
    model = Model(name="m", geometry={FULL_GEOMETRY: of(detected[0]).to_json()} if detected else {}, geometry_sha256="")
    stated = StatedGeometry(model_name="m", geometry=of(typed[0]).to_json()) if typed else None
    record = models.best_geometry(model, stated)
    assert record is not None
    assert record.geometry.source == counts
    assert (record.stated_at is None) == (counts in detected)


def test_a_source_without_weights_is_none() -> None:
    empty = Geometry(Source.OLLAMA, "llama", None, None)
    model = Model(name="m", geometry={FULL_GEOMETRY: empty.to_json()}, geometry_sha256="")
    record = models.best_geometry(model, StatedGeometry(model_name="m", geometry=GUESS.to_json()))
    assert record is not None
    assert record.geometry == GUESS
    assert models.best_geometry(Model(name="m", geometry={}, geometry_sha256=""), None) is None


def freeze(session: Session, name: str, quantization: str, version: str, geometry: dict[str, object]) -> Config:
    return configs.freeze(session, 1, Snapshot("vllm", version, name, quantization, {}), geometry, "vllm")


def forget(session: Session) -> None:
    """What the seeded servers told."""
    for config in range(1, 5):
        model = session.get(Model, config)
        if model is not None:
            model.geometry = {"parameters": 7}
            session.add(model)


@on_both
def test_a_statement_holds_for_runs_before_and_after_it_until_it_is_taken_back(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=6, configs_used=2, detailed=0)
        forget(session)
    with database.read() as session:
        assert config_ceilings(session) == {}
    with database.write() as session:
        model = newest_decodes(session)[0].model
        assert model.id is not None
        models.set_stated_geometry(session, model.id, CONFIG, {"way": "config"})
    with database.read() as session:
        records = {decode.model.quantization: decode.known_geometry for decode in newest_decodes(session)}
        assert {name for name, record in records.items() if record} == {model.quantization}
        frozen = observations.load_inventory(session).configs.values()
        assert {config.model.quantization for config in frozen if config.geometry} == {model.quantization}
        before = config_ceilings(session)
        assert before
    with database.write() as session:  # corrected
        models.set_stated_geometry(session, model.id, GUESS, {"way": "figures"})
    with database.read() as session:
        assert {config_ceiling.ceiling for config_ceiling in config_ceilings(session).values()} != {
            config_ceiling.ceiling for config_ceiling in before.values()
        }
        assert [
            known_model.geometry_record.geometry.source
            for known_model in models.list_models(session)
            if known_model.geometry_record
        ] == [Source.TYPED]
    with database.write() as session:  # of another engine version, and with other totals: the same model all the same
        config = freeze(session, model.name, model.quantization, "new", {"parameters": 8})
        known_model = models.model(session, config.model_id)
        assert known_model.geometry_record is not None
        assert known_model.geometry_record.geometry.weights == GUESS.weights
        assert any("the name says 30.0 B" in sentence for sentence in known_model.geometry_record.geometry.assumptions)
        assert len(known_model.ids) == 2
        models.clear_stated_geometry(session, config.model_id)
    with database.read() as session:
        assert config_ceilings(session) == {}
        assert models.model(session, model.id).geometry_record is None


def test_one_line_for_rows_that_know_the_same_and_two_for_different_files(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=3, configs_used=1, detailed=0)
        freeze(session, "Twice", "Q4_K_M", "1", {"parameters": 7})
        freeze(session, "Twice", "Q4_K_M", "2", {"size_bytes": 9})
        freeze(session, "Twice", "Q4_K_M", "3", {FULL_GEOMETRY: of(Source.LLAMA_CPP).to_json()})
        freeze(session, "Twice", "Q4_K_M", "4", {FULL_GEOMETRY: CONFIG.to_json()})
    with database.read() as session:
        lines = [known_model for known_model in models.list_models(session) if known_model.name == "Twice"]
        assert sorted(len(known_model.ids) for known_model in lines) == [1, 1, 2]
        (unknown,) = [known_model for known_model in lines if known_model.geometry_record is None]
        assert (unknown.parameters, unknown.size_bytes, unknown.run_count) == (7, 9, 0)
        (used,) = [known_model for known_model in models.list_models(session) if known_model.name != "Twice"]
        assert used.run_count == 3


def test_a_better_source_outranks_what_was_stated_and_both_stay(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)
        models.set_stated_geometry(session, 1, GUESS, {"way": "figures"})
        known_model = models.model(session, 1)
        assert known_model.geometry_record is not None
        assert known_model.geometry_record.geometry.source is Source.CONFIG
        assert known_model.is_outranked
        assert known_model.stated is not None


def test_what_cannot_be_stated(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)
        with pytest.raises(BadInput, match="enter the bits per weight too"):
            models.set_stated_geometry(session, 1, Geometry(Source.CONFIG, "llama", None, None), {})
        with pytest.raises(NotFound):
            models.clear_stated_geometry(session, 1)
        for call in (models.clear_stated_geometry, models.model):
            with pytest.raises(NotFound, match="There is no model 99"):
                call(session, 99)


def test_experts_of_unknown_use_are_asked_for(database: Database) -> None:
    config = {key: value for key, value in MODELS["Qwen3-30B-A3B"].items() if key != "num_experts_per_tok"}
    with database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)
        with pytest.raises(BadInput, match="of its 128 experts a token uses is unknown"):
            models.set_stated_geometry(session, 1, from_config(config), {})


def test_a_geometry_of_an_older_roofmark_is_read_anew(database: Database) -> None:
    """It has no account of the keys that were not understood."""
    full = from_config(MODELS["Llama-3.1-8B"])
    old = {key: value for key, value in full.to_json().items() if key not in ("certainty", "not_understood")}
    with database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)
        config = freeze(session, "m", "Q4", "1", {FULL_GEOMETRY: old})
        record = models.model(session, config.model_id).geometry_record
        assert record is not None
        assert record.geometry.certainty == "estimate"
        config = freeze(session, "m", "Q4", "1", {FULL_GEOMETRY: full.to_json()})
        record = models.model(session, config.model_id).geometry_record
        assert record is not None
        assert record.geometry == full
