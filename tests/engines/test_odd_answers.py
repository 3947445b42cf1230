"""Whatever stands in a probe's answers, there are facts or one sentence, and never anything else."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import ServerError
from app.core.settings import Settings
from app.engines import find, probe
from app.engines.base import CompletionRequest, Health, ServerInfo
from app.engines.http import Answer, ServerClient
from app.measure.config_snapshot import server_info_json
from tests.engines.servers import CHAT
from tests.engines.written import SERVERS
from tests.replay import Request, Script

EXAMPLES = 20
"""Of each engine."""
READ_IF_THERE = (
    "capabilities",
    "details",
    "meta",
    "max_model_len",
    "loaded_instances",
    "quantization",
    "error",
    "data",
)
Where = tuple[str | int, ...]

NUMBERS = [0, 1, -1, 0.5, 1e308, 10**400, float("nan"), True, False]
TEXTS = ["", " ", "x", "8192", "\ud800", "\0"]
odd_values = st.recursive(
    st.sampled_from([None, *NUMBERS, *TEXTS]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name"]), inner, max_size=2),
    max_leaves=5,
)


class Told(ServerClient):
    """Answers out of a table, without a socket."""

    def __init__(self, answers: Mapping[str, tuple[int, Mapping[str, str], bytes]]) -> None:
        super().__init__("http://127.0.0.1:1", None, Settings())
        self._answers = answers

    def _request(self, method: str, path: str, body: Any) -> Answer:
        status, headers, data = self._answers.get(path, (404, {}, b'{"detail": "Not Found"}'))
        return Answer(path, status, headers, data, self.cleaner)


def answers_of(key: str) -> dict[str, tuple[int, Mapping[str, str], bytes]]:
    routes: dict[str, tuple[int, Mapping[str, str], bytes]] = {}
    for path, route in SERVERS[key]().routes.items():
        script = route if isinstance(route, Script) else route(Request("POST", path, {}, b'{"messages": []}'))
        headers = {name.lower(): value for name, value in script.headers.items()}
        routes[path] = (script.status, headers, b"".join(data for _, data in script.rows))
    return routes


def places(value: Any, above: Where = ()) -> Iterator[Where]:
    """Where something stands, or could stand that some engine reads."""
    yield above
    if isinstance(value, dict):
        yield from ((*above, name) for name in READ_IF_THERE if name not in value)
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, inner_value in inner:
        yield from places(inner_value, (*above, key))


def changed(value: Any, place: Where, new: Any) -> Any:
    if not place:
        return new
    copy = value.copy()
    copy[place[0]] = changed(value[place[0]], place[1:], new) if place[1:] else new
    return copy


def ask_everything(key: str, client: ServerClient) -> None:
    engine = find(key)
    ask = CompletionRequest("hello", 8, "m", nonce="x")
    for question in (
        lambda: probe(client),
        lambda: engine.detect(client),
        lambda: engine.health(client),
        lambda: engine.counters(client),
        lambda: engine.prompt_tokens(client, ask),
        lambda: engine.model_document(client, "m"),
    ):
        try:
            answer = question()
        except ServerError:  # one sentence
            continue
        if isinstance(answer, ServerInfo):
            json.dumps(server_info_json(answer), allow_nan=False).encode()
            assert all(model.id.strip() and model.name.strip() for model in answer.models)
        if isinstance(answer, Health):
            assert answer.detail.endswith(".")


@pytest.mark.parametrize("key", SERVERS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_one_odd_value_anywhere(key: str, data: st.DataObject) -> None:
    answers = answers_of(key)
    path = data.draw(st.sampled_from(sorted(path for path in answers if path != CHAT)))
    status, headers, body = answers[path]
    try:
        value = json.loads(body)
    except ValueError:  # an answer that is no JSON is replaced by one
        value = {}
    place = data.draw(st.sampled_from(list(places(value))))
    new = json.dumps(changed(value, place, data.draw(odd_values)))
    ask_everything(key, Told({**answers, path: (status, headers, new.encode())}))


@pytest.mark.parametrize("key", SERVERS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_one_odd_answer(key: str, data: st.DataObject) -> None:
    answers = answers_of(key)
    path = data.draw(st.sampled_from(sorted(answers)))
    status = data.draw(st.sampled_from([200, 204, 302, 400, 401, 404, 405, 422, 429, 500, 503]))
    body = data.draw(
        st.binary(max_size=30) | st.sampled_from([b"<html>", b"null", b"[" * 10_000, b"9" * 5000, b"vllm:a 1"])
    )
    ask_everything(key, Told({**answers, path: (status, data.draw(st.sampled_from([{}, answers[path][1]])), body)}))
