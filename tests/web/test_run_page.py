"""The page of one run: every state, what is known, what is not and why."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlmodel import select

from app.core.samples import Kind, Sample, Status, Workload
from app.db import baselines, configs, machines, runs
from app.db.configs import snapshot_of
from app.db.database import Database
from app.db.tables import Config, Model
from app.metrics import flags_of
from app.results.compare import standings
from tests.seed import made_sample, seed
from tests.web.notebook import add_run, read, text_of

POINT = Workload(512, 128)


@pytest.fixture
def seeded(database: Database) -> list[str]:
    with database.write() as session:
        return seed(session, runs=12, detailed=3)


def sample(ordinal: int, is_warmup: bool = False, **trace: Any) -> Sample:
    made = made_sample(ordinal, POINT, 500.0, 50.0, is_warmup)
    made = replace(made, trace=replace(made.trace, **trace))
    return replace(made, flags=flags_of(made))


def test_an_unknown_run_is_a_sentence(client: TestClient) -> None:
    answer = client.get("/runs/nonesuch")
    assert answer.status_code == 404
    assert "There is no run" in text_of(answer.text)


def test_the_triple_with_spread_interval_count_and_sources(client: TestClient, seeded: list[str]) -> None:
    text = read(client, seeded[-1])
    assert re.search(r"TTFT [\d,.]+ ± [\d,.]+ ms 95 % interval [\d,.]+ to [\d,.]+ · 5 samples Timed by Roofmark", text)
    assert re.search(r"Prefill [\d,.]+ ± [\d,.]+ tok/s .*? The server's own timing", text)
    assert "Timed by Roofmark, a lower bound" in text


def test_charts_with_their_data(client: TestClient, seeded: list[str]) -> None:
    page = client.get(f"/runs/{seeded[-1]}").text
    assert page.count('<script type="application/json"') == 3
    assert page.count("<summary>Data table</summary>") == 3
    assert "style=" not in page


def test_one_sample_has_no_interval(client: TestClient, database: Database, seeded: list[str]) -> None:
    text = read(client, add_run(database, [sample(0, True), sample(1)]))
    assert "One sample: no interval" in text
    assert "±" not in text


def test_bench512_says_how_to_compare(client: TestClient, database: Database, seeded: list[str]) -> None:
    text = read(client, add_run(database, [sample(0)], suite_key="bench512"))
    assert "llama-bench -p 512 -n 0 for prefill and llama-bench -p 0 -n 128 -d 512 for decode" in text


@pytest.mark.parametrize(("streams", "suite", "count"), [(1, "triple", 1), (1, "bench512", 1), (4, "concurrency", 0)])
def test_llama_bench_is_told_with_the_runs_own_lengths(
    client: TestClient, database: Database, seeded: list[str], streams: int, suite: str, count: int
) -> None:
    point = Workload(300, 64, streams)
    samples = [made_sample(n, point, 500.0, 50.0) for n in range(streams)]
    text = read(client, add_run(database, samples, suite_key=suite))
    assert text.count("llama-bench -p 0 -n 64 -d 300") == count


def test_an_unknown_number_is_a_dash_with_its_reason(client: TestClient, database: Database, seeded: list[str]) -> None:
    public_id = add_run(database, [sample(i, events=(), not_streamed=True, server=None) for i in range(3)])
    page = client.get(f"/runs/{public_id}").text
    text = text_of(page)
    assert "TTFT – ms The server sent one piece of JSON instead of a stream." in text
    assert '<abbr title="The server sent one piece of JSON instead of a stream.">–</abbr>' in page
    assert "not streamed 3 of 3 samples" in text
    assert "Without a stream there is no TTFT" in text
    assert "application/json" not in page


def test_samples_left_out_are_counted_and_explained(client: TestClient, database: Database, seeded: list[str]) -> None:
    broken = sample(3, status=Status.INCOMPLETE, error="The stream broke.")
    text = read(client, add_run(database, [sample(0, True), sample(1), sample(2), broken, sample(4)]))
    assert "1 sample left out (incomplete: The stream had no proper end" in text
    assert "The stream broke." in text
    assert re.search(r" 1 warm-up ", text)


def test_client_and_server_that_disagree_are_told(client: TestClient, database: Database, seeded: list[str]) -> None:
    slow = [
        replace(measured, trace=replace(measured.trace, server=replace(measured.trace.server, decode_ms=3000.0)))
        for measured in (sample(1), sample(2), sample(3))
        if measured.trace.server is not None
    ]
    text = read(client, add_run(database, slow))
    assert re.search(r"Roofmark timed [\d.]+ tok/s decode, the server states 42.3 tok/s: [\d.]+ % more\.", text)
    assert "something held the first ones back, most likely a buffering proxy" in text


def test_bundled_events_are_the_named_cause(client: TestClient, database: Database, seeded: list[str]) -> None:
    samples = []
    for i in range(3):
        streamed = sample(i)
        events = tuple(e for j, e in enumerate(streamed.trace.events) if e.kind is not Kind.ANSWER or j % 3 == 0)
        assert streamed.trace.server is not None
        samples.append(sample(i, events=events, server=replace(streamed.trace.server, decode_ms=3500.0)))
    text = read(client, add_run(database, samples))
    assert "Events hold several tokens each" in text
    assert "Chunk gap of sample" in text


def test_counting_n_over_the_time_of_n_minus_1_is_recognised(database: Database) -> None:
    from app.metrics import compute_metrics
    from app.metrics.server_vs_client import disagreement

    point = Workload(512, 11)
    plain = made_sample(0, point, 500.0, 50.0)
    assert plain.trace.server is not None
    assert plain.trace.server.decode_ms is not None
    stated = replace(plain.trace.server, decode_ms=plain.trace.server.decode_ms * 10 / 11)
    samples = [replace(plain, trace=replace(plain.trace, server=stated))]
    warning = disagreement(compute_metrics(samples), samples)
    assert warning is not None
    assert "divide all n tokens by the time of n - 1 intervals" in warning


def test_several_points_stand_in_a_table(client: TestClient, seeded: list[str]) -> None:
    lengths = seeded[10]
    page = client.get(f"/runs/{lengths}").text
    text = text_of(page)
    assert "TTFT at 200 prompt tokens" in text
    assert "Slope prefill tok/s" in text
    assert "8,000 prompt tokens" in text
    other_page = client.get(f"/runs/{lengths}?point=8000/128/1/0").text
    assert re.search(r"point=8000%2F128%2F1%2F0[^>]*aria-current", other_page) or re.search(
        r"point=8000/128/1/0[^>]*aria-current", other_page
    )
    refused = client.get(f"/runs/{lengths}?point=5")
    assert refused.status_code == 422
    assert "has no point" in text_of(refused.text)


def test_points_left_out_and_warnings_are_said(client: TestClient, database: Database, seeded: list[str]) -> None:
    evidence = {
        "warnings": ["This machine was busy before the run."],
        "left_out": [{"point": "8000/128/1/0", "reason": "It does not fit into 4,096 tokens."}],
        "checks": ["No prompt token came from the server's cache."],
    }
    text = read(client, add_run(database, [sample(0)], evidence=evidence))
    assert "This machine was busy before the run." in text
    assert "The point of 8,000 prompt tokens was left out. It does not fit into 4,096 tokens." in text
    assert "No prompt token came from the server's cache." in unescape(text)


def test_what_changed_in_words(client: TestClient, database: Database, seeded: list[str]) -> None:
    first = read(client, seeded[0])
    assert "this is the first configuration of this model on this machine." in first
    everything = " ".join(read(client, public_id) for public_id in seeded)
    assert "→" in everything


def test_a_change_is_set_beside_the_run_before(client: TestClient, database: Database, seeded: list[str]) -> None:
    with database.write() as session:
        config = session.exec(select(Config)).first()
        assert config is not None
        model = session.get(Model, config.model_id)
        assert model is not None
        larger = replace(snapshot_of(config, model), settings={**config.settings, "context": 65536})
        other_config = configs.freeze(session, config.server_id, larger, {}, "").id
    old = add_run(database, [made_sample(n, POINT, 500.0, 50.0) for n in range(3)], suite_sha256="a" * 64)
    now = datetime.now(UTC)
    samples = [made_sample(n, POINT, 400.0, 50.0) for n in range(3)]
    new = add_run(database, samples, suite_sha256="a" * 64, config_id=other_config, started_at=now)
    text = read(client, new)
    assert "Context 4,096 → 65,536" in text
    assert re.search(r"TTFT 500 → 400 ms 20 % shorter", text)
    assert re.search(r"Decode [\d.]+ → [\d.]+ tok/s unchanged \(inconclusive\)", text)
    assert f'href="/runs/{old}"' in client.get(f"/runs/{new}").text
    alone = read(client, add_run(database, samples, suite_sha256="b" * 64, config_id=other_config, started_at=now))
    assert "which has no finished run of this suite." in alone


@pytest.mark.parametrize("status", ["queued", "running"])
def test_progress_streams_and_works_without_scripts(
    client: TestClient, database: Database, seeded: list[str], status: str
) -> None:
    public_id = add_run(database, [sample(0)] if status == "running" else [], status, progress={"phase": "Measuring."})
    page = client.get(f"/runs/{public_id}").text
    assert f'hx-sse:connect="/runs/{public_id}/events"' in page
    assert f'action="/runs/{public_id}/cancel"' in page
    assert "<noscript>" in page
    assert "Run again" not in page


@pytest.mark.parametrize(
    ("status", "error", "sentence"),
    [
        ("failed", "The server needs an API key.", "The server needs an API key. The samples measured before that"),
        ("cancelled", None, "The run was cancelled after 1 of 6 samples; they are kept below."),
        ("interrupted", None, "The run was interrupted after 1 of 6 samples; they are kept below."),
    ],
)
def test_runs_that_ended_early(
    client: TestClient, database: Database, seeded: list[str], status: str, error: str | None, sentence: str
) -> None:
    public_id = add_run(database, [sample(0)], status, error=error)
    assert sentence in read(client, public_id)
    assert "hx-sse:connect" not in client.get(f"/runs/{public_id}").text


def test_a_failed_run_without_samples_is_a_page(client: TestClient, database: Database, seeded: list[str]) -> None:
    text = read(client, add_run(database, [], "failed", error="The server is not there.", config_id=None))
    assert "The server is not there." in text
    assert "The run ended before its configuration was known." in text


def test_a_note_is_edited_in_place(client: TestClient, database: Database, seeded: list[str]) -> None:
    public_id = seeded[-1]
    answer = client.post(f"/runs/{public_id}/note", data={"note": "Fans at 80 %\n<b>loud</b>"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{public_id}")
    page = client.get(f"/runs/{public_id}").text
    assert "Fans at 80 %" in page
    assert "<b>loud" not in page
    with database.read() as session:
        assert runs.run(session, public_id).note.startswith("Fans at 80 %")


def test_run_again_takes_server_and_suite_along(client: TestClient, seeded: list[str]) -> None:
    page = client.get(f"/runs/{seeded[-1]}").text
    link = re.search(r'href="(/runs/new\?[^"]*)"', page)
    assert link is not None
    assert "suite=triple" in link[1]
    assert "server=" in link[1]


def test_what_the_server_counted_stands_beside_the_clients_figures(
    client: TestClient, database: Database, seeded: list[str]
) -> None:
    how = "vllm:time_to_first_token_seconds, sum over count, difference of two readings"
    metrics = [
        {"name": "ttft_ms", "statistic": "mean", "unit": "ms", "value": 1.0, "how": how, "low": None, "high": None},
        {"name": "queue_ms", "statistic": "mean", "unit": "ms", "value": 0.07, "how": "q", "low": None, "high": None},
        {"name": "queue_ms", "statistic": "p50", "unit": "ms", "value": 150.0, "how": "q", "low": 0.0, "high": 300.0},
    ]
    with database.write() as session:
        runs.run(session, seeded[-1]).evidence = {"server": metrics}
    page = read(client, seeded[-1])
    assert "Server-side metrics" in page
    assert how in page
    assert "median 0-300" in page
    assert "which the server's leaves out" in page
    document = client.get(f"/api/v1/runs/{seeded[-1]}").json()["run"]["server_counted"]
    assert [(metric["name"], metric["value"]) for metric in document] == [
        ("ttft_ms", 1.0),
        ("queue_ms", 0.07),
        ("queue_ms", None),
    ]
    assert (document[2]["low"], document[2]["high"], document[2]["difference"]) == (0.0, 300.0, None)
    assert document[0]["difference"] == document[0]["client"] - 1
    assert document[0]["likely_cause"]
    assert (document[1]["client"], document[1]["likely_cause"]) == (None, None)
    assert "Server-side metrics" not in read(client, seeded[-2])


def test_what_a_server_counted_of_prompts_in_one_batch_is_no_speed(
    client: TestClient, database: Database, seeded: list[str]
) -> None:
    assert seeded
    point = Workload(512, 128, 4)
    samples = [replace(made_sample(n, point, 2000.0, 50.0), stream=n, round=0) for n in range(4)]
    public_id = add_run(database, samples)
    figure = {"name": "prefill_tokens_per_s", "statistic": "mean", "unit": "tok/s", "value": 358.0, "how": "vllm:both"}
    with database.write() as session:
        runs.run(session, public_id).evidence = {"server": [figure]}
    page = client.get(f"/runs/{public_id}").text
    assert "Other prompts were processed at the same time" in page
    assert ">358<" not in page
    run = client.get(f"/api/v1/runs/{public_id}").json()
    (server_metric,) = run["run"]["server_counted"]
    assert (server_metric["value"], server_metric["difference"], server_metric["null_reason"]) == (
        None,
        None,
        "overlapping_prefill",
    )
    nulls = {null["key"]: null["reason"] for null in run["points"][0]["nulls"]}
    assert nulls["prefill_tokens_per_s"] == "overlapping_prefill"


def test_a_page_with_everything_makes_few_queries_however_many_machines_there_are(
    client: TestClient, database: Database
) -> None:
    card = {"name": "RTX 3090", "count": 1, "bandwidth_bytes_per_s": 936e9, "source": "typed"}
    with database.write() as session:
        ids = seed(session, runs=60)
        for public_id in reversed(ids):  # the first of each machine, model and suite stays
            baselines.pin(session, public_id)
        beside = next(public_id for public_id, run_standing in standings(session, ids).items() if run_standing.ratios)
        for number in range(20):
            machines.add_machine(session, f"box {number}", accelerators=[card], ram_bandwidth_bytes_per_s=5e10)
    statements: list[str] = []
    web: Database = client.app.state.database  # type: ignore[attr-defined]  # a Starlette app has a state
    event.listen(web.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    page = client.get(f"/runs/{beside}").text
    assert "MBU" in page
    assert len([statement for statement in statements if statement.startswith("SELECT")]) <= 20


def test_the_parts_that_the_page_names_on_top_are_there_in_this_order(client: TestClient, seeded: list[str]) -> None:
    """Of a run of one point and of one of several: first what came out, last what it was computed from."""
    for public_id in seeded[-2:]:
        page = client.get(f"/runs/{public_id}").text
        (contents,) = re.findall(r'<nav class="contents".*?</nav>', page, flags=re.DOTALL)
        anchors = re.findall(r'href="#([^"]+)"', contents)
        places = [page.index(f'id="{anchor}"') for anchor in anchors]
        assert len(places) > 6
        assert places == sorted(places)
        assert {"result-title", "config-title", "note", "ceiling-title", "samples-title"} <= set(anchors)


@pytest.mark.parametrize("status", ["queued", "running"])
def test_a_page_that_is_still_short_names_no_parts(client: TestClient, database: Database, status: str) -> None:
    with database.write() as session:
        seed(session, runs=1)
    assert 'class="contents"' not in client.get(f"/runs/{add_run(database, status=status)}").text


def test_every_table_of_a_run_has_rows(client: TestClient, seeded: list[str]) -> None:
    """Also of an old one, of which only the triple is left, and of one point as of several."""
    assert "Further metrics" in client.get(f"/runs/{seeded[-1]}").text
    for public_id in seeded:
        page = client.get(f"/runs/{public_id}").text
        bodies = re.findall(r"<tbody>(.*?)</tbody>", page, flags=re.DOTALL)
        assert all("<tr" in body for body in bodies), public_id
        assert ("Further metrics" in page) == ('id="further-title"' in page)
    assert "Further metrics" not in client.get(f"/runs/{seeded[0]}").text
