"""A new engine is one file: written to a folder of engines at run time, it is known everywhere."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import engines
from app.ceiling.decode import Split
from app.core.samples import Status
from app.db.machines import MachineDevice
from app.engines.base import CompletionRequest, Engine
from app.results.ceiling.cards import Cards, cards_of, engine_of
from app.web import templates
from tests.engines.conftest import Connect
from tests.engines.servers import CHAT, ROLE, WORDS, chunk, models, no_choices, stream, usage
from tests.replay import Script

SOURCE = '''
"""Abacus: a made-up engine with OpenAI's API, Prometheus metrics and a log."""

import re
from collections.abc import Sequence

from app.core.samples import ServerFigures
from app.engines.base import LoggedRequest, ServerInfo, SplitHabit
from app.engines.flags import Flag, FlagTable
from app.engines.http import ServerClient
from app.engines.openai import list_models
from app.engines.protocol.answers import object_at, string
from app.engines.protocol.log_lines import lines_of
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine

_REQUEST = re.compile(r"done: (\\d+) in, (\\d+) out")


class Abacus(PrometheusEngine):
    key = "abacus"
    title = "Abacus"
    default_ports = (9797,)
    health_path = "/alive"
    fixed_length = False
    slots_option = "`--rods`"
    split_habit = SplitHabit.TENSOR_PARALLEL
    flags = FlagTable({"--rods": Flag(("parallel",))}, ignored=frozenset({"--colour"}))
    metric_names = MetricNames(
        requests=("abacus_requests_total",),
        output_tokens=("abacus_tokens_total",),
        loads={"requests_running": ("abacus_running",)},
    )

    def detect(self, client: ServerClient) -> ServerInfo | None:
        version = string(object_at(client, "/abacus").get("version"))
        return None if version is None else self._server_info(list_models(client), version)

    def read_log(self, text: str) -> Sequence[LoggedRequest]:
        matches = [match for line in lines_of(text) if (match := _REQUEST.search(line))]
        return [LoggedRequest(ServerFigures(int(match[1]), None, int(match[2]))) for match in matches]


ENGINE = Abacus()
'''


@pytest.fixture
def abacus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    (tmp_path / "abacus.py").write_text(SOURCE)
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(tmp_path)])
    caches = (engines.all, engines.flag_table, engines.parse_flags, engine_of, templates.engine_titles)
    for cached in caches:
        cached.cache_clear()
    yield engines.find("Abacus")
    for cached in caches:
        cached.cache_clear()
    del sys.modules["app.engines.abacus"], engines.abacus  # type: ignore[attr-defined]  # set by its import


def metrics(requests: int, tokens: int, running: int = 0) -> Script:
    return Script.text(f"abacus_requests_total {requests}\nabacus_tokens_total {tokens}\nabacus_running {running}\n")


ROUTES = {
    "/abacus": Script.json({"version": "1.2"}),
    "/alive": Script.text("ok"),
    "/metrics": metrics(1, 10),
    "/v1/models": models("m-Q4_K_M", max_model_len=4096),
    CHAT: stream(ROLE, *WORDS, chunk({}, "length"), no_choices(**usage(30, 3))),
}


def test_a_probe_detects_it(abacus: Engine, connect: Connect) -> None:
    _, client = connect(ROUTES)
    info = engines.probe(client)
    assert (info.engine, info.engine_version, info.context_tokens) == ("abacus", "1.2", 4096)
    assert [(model.name, model.quantization) for model in info.models] == [("m", "Q4_K_M")]


def test_it_is_among_the_titles_the_choices_of_forms_and_the_ports_to_discover(abacus: Engine) -> None:
    assert engines.titles()["abacus"] == templates.engine_titles()["abacus"] == "Abacus"
    assert 9797 in engines.well_known_ports()
    assert "Abacus" in engines.log_titles()
    assert engines.get("abacus") is engines.find("ABACUS") is abacus


def test_its_requests_health_and_metrics(abacus: Engine, connect: Connect) -> None:
    _, client = connect(ROUTES)
    trace = abacus.stream_completion(client, CompletionRequest("hello", 3, "m-Q4_K_M", nonce="x"))
    assert (trace.status, trace.prompt_tokens, trace.output_tokens) == (Status.OK, 30, 3)
    assert (abacus.health(client).ready, abacus.health(client).busy) == (True, False)
    before = abacus.counters(client)
    _, later = connect({**ROUTES, "/metrics": metrics(3, 74, running=2)})
    after = abacus.counters(later)
    assert before is not None
    assert after is not None
    measured = {metric.name: metric.value for metric in abacus.server_metrics(before, after, None, 2)}
    assert measured == {"requests": 2.0, "output_tokens": 64.0}
    assert (abacus.health(later).busy, abacus.load(later)) == (True, {"requests_running": 2.0})


def test_its_log_and_its_flags(abacus: Engine) -> None:
    assert abacus.has_log
    (request,) = abacus.read_log("INFO done: 120 in, 40 out\n")
    assert (request.figures.prompt_tokens, request.figures.output_tokens) == (120, 40)
    command = engines.parse_flags("--rods 4 --colour red")
    assert (command.settings, command.unmapped) == ({"parallel": 4}, ())


def test_its_habit_of_dividing_a_model(abacus: Engine) -> None:
    gpus = [MachineDevice("A", "accelerator", 2, 10**9, ()), MachineDevice("B", "accelerator", 1, 10**10, ())]
    cards = cards_of(gpus, {}, engine_of("abacus"), 10**8)
    assert isinstance(cards, Cards)
    assert (cards.split, cards.shares) == (Split.TENSOR, (1.0, 1.0, 1.0))
    assert any("Abacus" in assumption for assumption in cards.assumptions)
