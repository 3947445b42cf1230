"""No page leaves a Chinese reader alone with English: all pages are read, of runs that failed too, and all refusals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from sqlmodel import select
from starlette.testclient import TestClient

from app.ceiling.geometry import slides_by_default
from app.core import files
from app.core.i18n import _, joined, ngettext
from app.core.samples import Sample, Status, Workload
from app.core.server_metrics import ServerMetric
from app.core.settings import Settings
from app.core.units import format_duration
from app.db.database import Database
from app.db.migrate import migrate
from app.db.tables import BandwidthProbe, Config, Machine, Server
from app.engines.base import Counters
from app.engines.http.problems import status_problem
from app.engines.http.text import TextCleaner
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.hardware import bandwidth as memory_bandwidth
from app.measure import run_checks
from app.measure.job import exceeds_context, step_label
from app.metrics import FLAGS
from app.suites import BUILT_IN
from tests.everywhere import add_share, addresses
from tests.many import add_many
from tests.seed import made_sample
from tests.web import reading, walk
from tests.web.conftest import browser
from tests.web.notebook import add_run

CHINESE = {"accept-language": "zh-TW"}
STREAMED = ("events",)
"""Addresses whose answer does not end."""


@dataclass(frozen=True)
class Notebook:
    client: TestClient
    paths: dict[str, str]
    names: dict[str, str]
    """What addresses name."""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    settings = Settings(data_dir=Path(tmp_path_factory.mktemp("chinese")), sensors=False)
    database = Database(settings.effective_database_url)
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        public_id = add_many(session, 100)[-1]
        share = add_share(session)
    troubled = _troubled(database)
    with database.read() as session:
        paths = addresses(session, share)
        fingerprint = session.exec(select(Config.fingerprint)).first()
        server, machine = session.exec(select(Server)).first(), session.exec(select(Machine)).first()
        assert fingerprint
        assert server
        assert machine
        names = {"public_id": public_id, "slug": machine.slug, "key": "triple", "model_id": "1", "share": share}
        names |= {"fingerprint": fingerprint, "server": server.slug}
    paths |= {f"run, {what}": f"/runs/{public_id}" for what, public_id in troubled.items()}
    with browser(settings, database) as client:
        yield Notebook(client, paths, names)
    database.dispose()


def _troubled(database: Database) -> dict[str, str]:
    """Runs with whatever a worker says of them; gives their public ids."""
    lost = _("The connection was lost {when}.", when=ngettext("after {n} token event", "after {n} token events", 3))
    samples = [_sample(0), *(_sample(n, (flag,)) for n, flag in enumerate(FLAGS, 1)), _sample(50, (), lost)]
    why = _("Permission denied")
    warnings = [
        _("The server's log {path} cannot be read: {why}.", path="/var/log/llama.log", why=why),
        _(
            "{what} could not be understood, so there is no ceiling: {error}",
            what=_("The model's file"),
            error="x.gguf",
        ),
        _(
            "{title}: the server reports {reported}, not the stated {stated}.",
            title=_("Context"),
            reported="1",
            stated="2",
        ),
    ]
    too_long = exceeds_context(BUILT_IN["triple"].cases[0], 600, 512)
    evidence = {"warnings": warnings, "left_out": [{"point": "512/128/1/0", "reason": too_long}]}
    suite = BUILT_IN["concurrency"]
    running = {
        "phase": joined(_("The server is ready."), _("Waiting for {time}.", time=format_duration(4))),
        "step": step_label(suite, suite.cases, 13),
    }
    refused = status_problem(404, "text/plain", b"", path="/v1/chat/completions", cleaner=TextCleaner(None))
    return {
        "flagged": add_run(
            database, samples, evidence=run_checks.after(evidence, samples, None, None, server_metrics=_counted())
        ),
        "failed": add_run(database, samples[:3], status="failed", error=lost),
        "refused": add_run(database, status="failed", error=refused.message),
        "cancelled": add_run(database, status="cancelled"),
        "interrupted": add_run(database, status="interrupted", error=_("The worker process ended before the run did.")),
        "running": add_run(database, samples[:1], status="running", progress=running),
        "queued": add_run(database, status="queued"),
    }


def _sample(ordinal: int, flags: tuple[str, ...] = (), error: str | None = None) -> Sample:
    made = made_sample(ordinal, Workload(512, 128), 500.0, 50.0)
    status = Status.INCOMPLETE if error else Status.OK
    return replace(made, trace=replace(made.trace, status=status, error=error), flags=flags)


class _Counting(PrometheusEngine):
    """Of every kind that an engine exports."""

    metric_names = MetricNames(
        requests=("requests",),
        prompt_tokens=("prompt",),
        output_tokens=("output",),
        seconds={"ttft_ms": ("ttft",)},
        prefill_seconds=("prefill",),
        decode_seconds=("decode",),
        shares={"cache_hit_rate": (("hits",), ("queries",))},
        gauges={"requests_running": ("", ("running",))},
    )


def _counted() -> Sequence[ServerMetric]:
    after = dict.fromkeys(("requests", "prompt", "output", "prefill", "decode", "hits", "queries", "running"), 100.0)
    histogram = {'ttft_bucket{le="0.5"}': 60.0, 'ttft_bucket{le="+Inf"}': 100.0, "ttft_sum": 40.0, "ttft_count": 100.0}
    before = dict.fromkeys({**after, **histogram}, 0.0)
    return _Counting().server_metrics(Counters(raw=before), Counters(raw=after | histogram), None, 100)


def _english(answer: Any) -> list[str]:
    is_page = answer.headers.get("content-type", "").startswith("text/html")
    return reading.english(answer.text) if is_page else []


def test_no_page_speaks_english(notebook: Notebook) -> None:
    left = {}
    for name, path in notebook.paths.items():
        answer = notebook.client.get(path, headers=CHINESE)
        assert answer.status_code == 200, path
        left[name] = _english(answer)
    assert {name: sentences for name, sentences in left.items() if sentences} == {}


def test_no_route_answers_in_english_found_or_not(notebook: Notebook) -> None:
    assert isinstance(notebook.client.app, FastAPI)
    nothing = dict.fromkeys(notebook.names, "nothing") | {"model_id": "999"}
    left = {}
    for names in (notebook.names, notebook.names | {"slug": notebook.names["server"]}, nothing):
        for method, path in walk.addresses(notebook.client.app, **names):
            if method == "GET" and not path.endswith(STREAMED):
                left[path] = _english(notebook.client.get(path, headers=CHINESE))
    assert {path: sentences for path, sentences in left.items() if sentences} == {}


WRONG_URLS = (
    "", "ftp://x", "http://", "http://a:99999", "http://u:p@h", "http://h/?x=1", "http://h:/x", "http://[::1", "x y",
    "http://127.0.0.1:9", "http://169.254.169.254", "x.invalid",
)  # fmt: skip
WRONG_FORMS: list[tuple[str, dict[str, str]]] = [
    *(("/servers/probe", {"base_url": url}) for url in WRONG_URLS),
    ("/servers/probe", {"base_url": "http://127.0.0.1:9", "engine": "nothing"}),
    ("/servers", {"base_url": "http://127.0.0.1:9", "machine": "nothing"}),
    *(("/machines", {"name": "m", "ram_speed": speed, "ram_bus": "65"}) for speed in ("DDR5-1", "2133 MHz", "9 inch")),
    *(("/machines", {"name": name, "ram": ram}) for name, ram in (("", ""), ("m", "x"), ("m", "-1"), ("m", "1e99"))),
    *(("/suites", {"title": "x", "prompt": prompt}) for prompt in ("", "p" * 10**6)),
    *(("/suites", {"title": "x", "prompt": "p", "output_tokens": count}) for count in ("0", "y")),
    *(("/suites", {"title": title, "prompt": "p", "output_tokens": "1"}) for title in ("", "triple")),
    *(("/machines/devices", {"name": "x", "bandwidth": bandwidth, "memory": "-4"}) for bandwidth in ("", "q", "1")),
    *(("/runs", {"server": server, "suite": "nothing"}) for server in ("", "nothing", "strix-halo-8080")),
    *(("/shares", {"kind": kind, "run": "nothing"}) for kind in ("", "run", "comparison", "explorer", "ceiling")),
    ("/language", {"language": "tlh"}),
    ("/machines/nothing/bandwidth", {}),
    ("/runs/nothing/cancel", {}),
    ("/runs/nothing/hide", {"reason": ""}),
    ("/nowhere", {}),
]


@pytest.mark.parametrize(("path", "fields"), WRONG_FORMS)
def test_no_form_is_refused_in_english(notebook: Notebook, path: str, fields: dict[str, str]) -> None:
    answer = notebook.client.post(path, data=fields, headers=CHINESE)
    assert answer.status_code != 500
    assert _english(answer) == []


@pytest.mark.parametrize(
    "path",
    [
        *(f"/ceiling?{query}" for query in ("kv=zz&params=8", "params=0", "params=8&device=nothing", "gguf=x")),
        *(f"/ceiling?{query}" for query in ("params=8&bandwidth=x", "params=8&bits=99&bandwidth=100", "gguf=/x.gguf")),
        *(f"/compare?{query}" for query in ("run=x&run=y", "run=latest&run=latest", "run=latest&run=baseline")),
        *(f"/history?{query}" for query in ("metric=x", "from=2026-05-01&to=2026-01-01", "from=x", "by=x", "only=x")),
        *(f"/explore?{query}" for query in ("y=zz", "x=zz&y=ttft_ms", "y=ttft_ms&x=model&series=zz", "from=x")),
        *(
            f"/runs?{query}"
            for query in ("sort=zz", "status=zz", "hidden=zz", "page=0", "page=x", "order=x", "text=zzz")
        ),
        "/shares/new?kind=zz",
        "/machines/devices?q=zzz",
    ],
)
def test_no_address_is_refused_in_english(notebook: Notebook, path: str) -> None:
    assert _english(notebook.client.get(path, headers=CHINESE)) == []


def test_whoever_is_refused_at_the_door_reads_why(notebook: Notebook) -> None:
    stranger = notebook.client.get("/", headers=CHINESE | {"host": "elsewhere.example"})
    forged = notebook.client.post("/machines", headers=CHINESE | {"origin": "http://elsewhere.example"})
    assert (stranger.status_code, forged.status_code) == (403, 403)
    assert (_english(stranger), _english(forged)) == ([], [])
    assert "請求來自其他網站" in forged.text


def test_what_a_measurement_of_memory_leaves(notebook: Notebook) -> None:
    reading_of = memory_bandwidth.BandwidthResult(3e9, 2e9, 4, 20, 2**30, (), 1.6, 0.4)
    slow = replace(reading_of, plateau_ratio=0.5)
    remarks = [*memory_bandwidth.remarks(reading_of), *memory_bandwidth.remarks(slow)]
    database = notebook.client.app.state.database  # type: ignore[attr-defined]  # it is a FastAPI
    path = f"/machines/{notebook.names['slug']}"
    for status in ("done", "failed"):
        with database.write() as session:
            probe = BandwidthProbe(machine_id=1, status=status, best_bytes_per_s=3e9, median_bytes_per_s=2e9, threads=4)
            probe.record = {"remarks": remarks, "samples": 20, "buffer_bytes": 2**30}
            probe.error = _("The measuring process ended before it had finished.")
            session.add(probe)
        assert _english(notebook.client.get(path, headers=CHINESE)) == []


def test_what_a_ceiling_takes_for_granted(notebook: Notebook) -> None:
    _slides, _is_unknown, sentence = slides_by_default("nothing", 4096, 12)
    config = '{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "sliding_window": 4096, '
    config += '"vocab_size": 100, "intermediate_size": 64, "torch_dtype": "bfloat16"}'
    page = notebook.client.get("/ceiling", params={"config": config, "bandwidth": "100"}, headers=CHINESE)
    assert _english(page) == []
    assert sentence not in page.text
