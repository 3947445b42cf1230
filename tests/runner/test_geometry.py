"""What a run learns of its model's shape: from the file, when the server runs on this machine and names one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import engines
from app.ceiling.bytes_per_step import kv_bytes_per_token
from app.ceiling.geometry import Geometry, Source
from app.core.configuration import Snapshot
from app.core.errors import ServerError, ServerErrorKind
from app.db import configs, runs
from app.db.database import Database
from app.db.tables import FULL_GEOMETRY, Model, Server
from app.engines.base import Engine, ModelInfo
from app.engines.http import ServerClient
from app.measure.config_snapshot import model_geometry
from app.measure.runner import Runner
from tests.ceiling.files import SMALL, dense, write_gguf
from tests.replay import capture, case, serve
from tests.runner.conftest import add_server

LOCAL_SERVER = Server(machine_id=1, slug="s", name="s", engine="llama.cpp", base_url="http://127.0.0.1:8080")
REMOTE_SERVER = Server(machine_id=1, slug="s", name="s", engine="llama.cpp", base_url="http://192.0.2.1:8080")


@pytest.fixture
def model(tmp_path: Path) -> ModelInfo:
    path = write_gguf(tmp_path / "m.gguf", "llama", SMALL, dense())
    return ModelInfo("m", "m", size_bytes=5, parameters=7, file_path=str(path))


def test_a_local_file_tells_all_beside_what_the_server_tells(model: ModelInfo) -> None:
    record, warnings = model_geometry(LOCAL_SERVER, model)
    geometry = Geometry.from_json(record[FULL_GEOMETRY])
    assert (record["parameters"], record["size_bytes"], warnings) == (7, 5, [])
    assert (geometry.source, geometry.architecture, geometry.blocks) == (Source.LLAMA_CPP, "llama", 2)


def test_a_file_of_another_machine_is_not_looked_for(model: ModelInfo) -> None:
    assert model_geometry(REMOTE_SERVER, model) == ({"parameters": 7, "size_bytes": 5}, [])


@pytest.mark.parametrize("path", ["/models/in/a/container.gguf", "nul\0byte", ".", "x" * 5000])
def test_a_path_that_leads_to_no_file_here_is_no_trouble(model: ModelInfo, path: str) -> None:
    assert model_geometry(LOCAL_SERVER, replace(model, file_path=path)) == ({"parameters": 7, "size_bytes": 5}, [])


def test_a_broken_file_is_a_warning(model: ModelInfo, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and then nothing of sense")
    record, [warning] = model_geometry(LOCAL_SERVER, replace(model, file_path=str(broken)))
    assert record == {"parameters": 7, "size_bytes": 5}
    assert warning.startswith("The model's file could not be understood, so there is no ceiling: broken.gguf")


def show() -> Any:
    """What a real Ollama says of Gemma 270M."""
    return json.loads(b"".join(piece for _, piece in capture("ollama", "show").rows))


def test_ollama_tells_the_geometry_itself_wherever_it_runs() -> None:
    record, warnings = model_geometry(REMOTE_SERVER, ModelInfo("gemma3-270m", "gemma3-270m"), show())
    geometry = Geometry.from_json(record[FULL_GEOMETRY])
    assert (geometry.source, geometry.architecture, geometry.blocks, warnings) == (Source.OLLAMA, "gemma3", 18, [])
    assert geometry.weights is not None
    assert geometry.weights.total.parameters == 268_098_176
    assert kv_bytes_per_token(geometry) == 18_432


def test_a_document_without_sense_is_a_warning(model: ModelInfo) -> None:
    record, [warning] = model_geometry(REMOTE_SERVER, model, {"model_info": {}})
    assert record == {"parameters": 7, "size_bytes": 5}
    assert warning.startswith("The server's description of its model could not be understood, so there is no ceiling: ")


def test_a_known_configuration_learns_the_geometry_and_stays_itself(database: Database, model: ModelInfo) -> None:
    add_server(database, LOCAL_SERVER.base_url, "llama.cpp")
    snapshot = Snapshot("llama.cpp", "b1", "m", "Q4_K_M", {})
    record, _ = model_geometry(LOCAL_SERVER, model)
    with database.write() as session:
        first = configs.freeze(session, 1, snapshot, {"parameters": 7}, "llama.cpp").id
    with database.write() as session:
        again = configs.freeze(session, 1, snapshot, record, "llama.cpp")
        assert again.id == first
    with database.write() as session:  # what is known once is not forgotten
        config = configs.freeze(session, 1, snapshot, {}, "llama.cpp")
        assert FULL_GEOMETRY in session.get_one(Model, config.model_id).geometry


@pytest.mark.parametrize("answers", [True, False])
def test_a_run_asks_the_engine_for_its_models_document(
    database: Database, runner: Runner, short_suite: str, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """Without an answer there is no ceiling, but there is a run."""
    model_ids = []

    def model_document(_: Engine, __: ServerClient, model_id: str) -> Any:
        model_ids.append(model_id)
        if not answers:
            raise ServerError("It does not answer.", ServerErrorKind.UNREACHABLE)
        return show()

    monkeypatch.setattr(type(engines.find("openai")), "model_document", model_document)
    with serve({"/": case("S01")}) as replay:
        server = add_server(database, replay.url, "openai")
        public_id = runner.perform(server, short_suite, lambda _: None, repetitions=1, warmups=0)
    with database.read() as session:
        run = runs.run(session, public_id)
        config, model = run.config, run.model
    assert config is not None
    assert model is not None
    assert model_ids == ["syn-1"]
    assert (FULL_GEOMETRY in model.geometry) == answers
