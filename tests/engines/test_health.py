"""Whether a server is ready: one rule, whatever the engine asks; and the models that a list really names."""

from typing import Any

import pytest

from app.core.errors import ServerError, ServerErrorKind
from app.engines import all as all_engines
from app.engines import find
from app.engines.base import Engine
from app.engines.protocol.models import listed_models
from tests.engines.conftest import Connect
from tests.replay import Script

LOADING = {"error": {"message": "Loading model", "code": 503}}


@pytest.mark.parametrize("engine", all_engines(), ids=lambda engine: engine.key)
@pytest.mark.parametrize(
    ("script", "ready"),
    [
        (Script.json({"status": "ok"}), True),
        (Script.json({}, 404), True),
        (Script.json({}, 405), True),
        (Script.json({}, 501), True),
        (Script.json(LOADING, 503), False),
        (Script.text("", 503), False),
    ],
)
def test_only_a_loading_server_is_waited_for(connect: Connect, engine: Engine, script: Script, ready: bool) -> None:
    _, client = connect({"/": script})
    health = engine.health(client)
    assert health.ready is ready
    assert health.detail.endswith(".")


@pytest.mark.parametrize("engine", all_engines(), ids=lambda engine: engine.key)
@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        (Script.json({"error": "Unauthorized"}, 401), ServerErrorKind.NEEDS_KEY),
        (Script.json({"error": "bad"}, 400), ServerErrorKind.SERVER_ERROR),
        (Script.json({"error": "no worker left"}, 503), ServerErrorKind.SERVER_ERROR),
        (Script.text("bad gateway", 502), ServerErrorKind.SERVER_ERROR),
        (Script(status=302, headers={"location": "http://h/"}), ServerErrorKind.NOT_LLM),
    ],
)
def test_any_other_fault_is_told_at_once(
    connect: Connect, engine: Engine, script: Script, trouble: ServerErrorKind
) -> None:
    _, client = connect({"/": script})
    with pytest.raises(ServerError) as caught:
        engine.health(client)
    assert caught.value.trouble is trouble


ODD: list[Any] = [
    {"id": ""},
    {"id": " "},
    {"id": 5},
    None,
    "x",
    [],
    {"name": "z"},
    {"id": None, "name": "y"},
    {"id": "z"},
]


@pytest.mark.parametrize("value", [{"data": ODD}, {"models": ODD}, ODD])
def test_a_model_has_a_name_or_is_none(connect: Connect, value: Any) -> None:
    assert list(listed_models(value) or {}) == ["z", "y"]
    props = Script.json({"build_info": "b1", "model_path": "/m/x.gguf"})
    _, client = connect({"/v1/models": Script.json(value), "/props": props})
    for engine in ("openai", "llama.cpp"):
        facts = find(engine).recognise(client)
        assert facts is not None
        assert [model.id for model in facts.models] == ["z", "y"]


@pytest.mark.parametrize("value", [None, 5, "x", {}, {"data": {}}, {"data": None}])
def test_no_list_of_models(value: Any) -> None:
    assert listed_models(value) is None
