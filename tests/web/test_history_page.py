import json
import re
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlmodel import col, select

from app.db.database import Database
from app.db.tables import Machine, Measurement, Run, now
from tests.seed import seed


@pytest.fixture
def ids(database: Database) -> list[str]:
    with database.write() as session:
        return seed(session, runs=24, detailed=2)


def figure(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert match is not None
    parsed: dict[str, Any] = json.loads(match[1])
    return parsed


def shown_runs(page: str) -> set[str]:
    return {path.rsplit("/", 1)[1] for trace in figure(page)["data"] for path in trace.get("customdata", ())}


def test_an_empty_notebook_says_what_to_do_next(client: TestClient) -> None:
    page = client.get("/history")
    assert page.status_code == 200
    assert "No history yet" in page.text
    assert 'href="/runs/new"' in page.text
    assert "application/json" not in page.text


def test_the_usual_suite_is_shown_and_another_only_when_chosen(client: TestClient, ids: list[str]) -> None:
    every_eleventh = {ids[10], ids[21]}
    assert shown_runs(client.get("/history").text) == set(ids) - every_eleventh
    assert shown_runs(client.get("/history?suite=lengths").text) == every_eleventh


def test_the_figure_has_a_summary_a_legend_and_a_data_table(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history").text
    assert "22 runs of " in page
    assert 'class="legend"' in page
    assert "<summary>Data table</summary>" in page
    assert f'<a href="/runs/{ids[-1]}">' in page


@pytest.mark.parametrize("query", ["machine=m3-ultra", "server=m3-ultra-8000", "model=gpt-oss-120b"])
def test_filters_in_the_address(client: TestClient, ids: list[str], query: str) -> None:
    page = client.get(f"/history?{query}&machine2=").text
    runs = shown_runs(page)
    assert runs
    assert runs < set(ids)
    assert {trace["name"].split(" ")[0] for trace in figure(page)["data"]} == {"gpt-oss-120b"}
    assert " selected>" in page


def test_one_configuration_alone(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history").text
    link = re.search(r'href="(/history\?[^"]*config=[^"]*)"', page)
    assert link is not None
    alone = client.get(link[1].replace("&amp;", "&")).text
    assert len(figure(alone)["data"]) == 7  # the triple, the spread of each, and a decode ceiling
    assert "Only the configuration" in alone


def test_nothing_that_matches_leads_back(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history?model=nonesuch").text
    assert "No finished run matches" in page
    assert 'href="/history"' in page


def test_empty_choices_mean_all(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history?machine=&server=&model=&suite=")
    assert shown_runs(page.text) == shown_runs(client.get("/history").text)
    assert page.headers["hx-push-url"] == "/history?suite=triple"


def test_any_metric_alone(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history?metric=tpot_ms").text
    assert shown_runs(page) == set(ids[-2:])  # those with samples
    assert figure(page)["layout"]["yaxis"]["title"]["text"] == "TPOT ms"
    assert '<option value="tpot_ms" selected>' in page
    assert "No finished run has draft acceptance" in client.get("/history?metric=draft_acceptance").text


def test_series_by_a_field_lead_to_one_value_of_it(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=80)
    page = client.get("/history?by=engine_version&machine=strix-halo").text
    newer, older = re.findall(r'href="(/history\?[^"]*)"', page)
    assert newer == "/history?machine=strix-halo&amp;suite=triple&amp;only=engine_version%3Allama.cpp+b6400"
    narrow = client.get(older.replace("&amp;", "&")).text
    assert shown_runs(narrow)
    assert shown_runs(narrow) < shown_runs(page)
    assert '<option value="engine_version:llama.cpp b6301" selected>' in narrow


def test_several_fields_are_chosen_together(client: TestClient, ids: list[str]) -> None:
    both = shown_runs(client.get("/history?only=quantization:Q4_K_M&only=engine_version:llama.cpp b6301").text)
    q4_runs = shown_runs(client.get("/history?only=quantization:Q4_K_M").text)
    assert both
    assert both < q4_runs
    assert "No finished run matches" in client.get("/history?only=quantization:Q9").text


def test_days_and_labels_narrow_too(client: TestClient, ids: list[str], database: Database) -> None:
    page = client.get("/history?from=2026-08-11&to=2026-08-31").text
    days = {x[:10] for trace in figure(page)["data"] if "customdata" in trace for x in trace["x"]}
    assert days
    assert min(days) >= "2026-08-11"
    assert max(days) <= "2026-08-31"
    with database.write() as session:
        run = session.exec(select(Run).where(Run.public_id == ids[3])).one()
        run.labels = ["after the update"]
        session.add(run)
    assert shown_runs(client.get("/history?label=after the update").text) == {ids[3]}


def test_hidden_runs_are_left_out_and_counted(client: TestClient, ids: list[str], database: Database) -> None:
    with database.write() as session:
        run = session.exec(select(Run).where(Run.public_id == ids[0])).one()
        run.hidden_at = now()
        session.add(run)
    page = client.get("/history").text
    assert ids[0] not in shown_runs(page)
    assert "1 hidden run left out." in page
    assert 'href="/runs?suite=triple&amp;hidden=only"' in page
    assert "left out" not in client.get("/history?machine=m3-ultra").text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("metric=speed", "&#39;speed&#39; is not a metric"),
        ("by=colour", "Series are made by one of"),
        ("from=yesterday", "A day is written like 2026-11-20"),
        ("from=2026-11-20&to=2026-11-01", "first day is after the last"),
        ("only=Q4", "written field:value"),
    ],
)
def test_what_makes_no_sense_is_said(client: TestClient, ids: list[str], query: str, text: str) -> None:
    answer = client.get(f"/history?{query}")
    assert answer.status_code == 422
    assert text in answer.text


def test_the_whole_state_stands_in_the_address(client: TestClient, ids: list[str]) -> None:
    query = (
        "machine=strix-halo&suite=triple&since=2026-08-01&until=2026-11-30"
        "&metric=decode_tokens_per_s&by=model&only=engine%3Allama.cpp"
    )
    page = client.get(f"/history?{query}")
    assert page.headers["hx-push-url"] == f"/history?{query}"
    assert "<details open>" in page.text


def slow_down(database: Database, machine: str, since: int, ratio: float) -> list[str]:
    """Decode of the newest configuration of the machine's server, from one of its runs on; gives all of them."""
    with database.write() as session:
        on_it = select(Run).join(Machine).where(Run.suite_key == "triple", Machine.slug == machine)
        runs = list(session.exec(on_it.order_by(col(Run.id))))
        runs = [run for run in runs if run.config_id == runs[-1].config_id]
        for run in runs[since:]:
            decodes = select(Measurement).where(
                Measurement.run_id == run.id, Measurement.metric == "decode_tokens_per_s"
            )
            for measured in session.exec(decodes):
                measured.value = (measured.value or 0) * ratio
                session.add(measured)
        return [run.public_id for run in runs]


def test_a_shift_within_a_configuration_is_marked_and_linked(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=120, detailed=0)
    runs = slow_down(database, "m3-ultra", 8, 0.85)
    assert len(runs) > 11
    page = client.get("/history?machine=m3-ultra").text
    assert re.search(r"decode 1[3-7] % slower since \d+ \w+ 2026, no known change of configuration", page)
    assert f'<a href="/runs/{runs[7]}">last run before</a>' in page
    assert f'<a href="/runs/{runs[8]}">first run after</a>' in page
    assert [shape["name"] for shape in figure(page)["layout"]["shapes"] if "name" in shape] == ["worse"]


def test_the_overview_says_which_level_shifted_lately(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=120, detailed=0)
    runs = slow_down(database, "m3-ultra", 8, 0.85)
    with database.write() as session:
        every = session.exec(select(Run)).all()
        later = now() - max(run.started_at for run in every if run.started_at)
        for run in every:
            run.started_at = run.started_at + later if run.started_at else None
            session.add(run)
    page = client.get("/").text
    change = r"1[3-7] % slower since \d+ \w+ \d{4}, no known change of configuration:</strong> gpt-oss-120b"
    assert re.search(rf"<strong>Decode {change}", page)
    assert f'<a href="/runs/{runs[7]}">last run before</a>' in page
    with database.write() as session:
        for run in session.exec(select(Run)).all():
            run.started_at = run.started_at - timedelta(days=60) if run.started_at else None
            session.add(run)
    assert "no known change of configuration" not in client.get("/").text


def test_a_slow_drift_is_news_and_no_shift(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=120, detailed=0)
    runs = slow_down(database, "m3-ultra", 0, 1.0)
    count = len(runs)
    with database.write() as session:
        for number, public_id in enumerate(runs):
            run = session.exec(select(Run).where(Run.public_id == public_id)).one()
            run.started_at = now() - timedelta(days=6 * (count - 1 - number))
            session.add(run)
            decodes = select(Measurement).where(
                Measurement.run_id == run.id, Measurement.metric == "decode_tokens_per_s"
            )
            for measured in session.exec(decodes):
                measured.value = 50 * 0.8 ** (number / (count - 1))
                session.add(measured)
    slope = r"−\d\.?\d* % a (month|week) since \d+ \w+ \d{4}"
    expected = rf"ecode has been drifting by {slope}, no known change of configuration"
    overview = client.get("/").text
    assert re.search(rf'<div class="notice warn shift">\s*<p><strong>D{expected}:</strong> gpt-oss-120b', overview)
    assert f'<a href="/runs/{runs[0]}">first run</a>' in overview
    assert f'<a href="/runs/{runs[-1]}">newest one</a>' in overview
    page = client.get("/history?machine=m3-ultra").text
    assert re.search(rf"d{expected}", page)
    assert "last run before" not in page
    assert [shape["name"] for shape in figure(page)["layout"]["shapes"] if "name" in shape] == ["worse"]


def test_the_number_of_queries_does_not_grow(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=60)
    statements = []
    web: Database = client.app.state.database  # type: ignore[attr-defined]  # a Starlette app has a state
    event.listen(web.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    client.get("/history?by=engine&only=quantization:Q4_K_M&from=2026-08-01")
    assert len([statement for statement in statements if statement.startswith("SELECT")]) <= 20


@pytest.mark.parametrize("page", ["/history", "/runs", "/explore"])
@pytest.mark.parametrize("name", ["machine", "model", "suite", "label"])
def test_a_filter_shows_what_is_asked_for_though_there_is_none(
    client: TestClient, ids: list[str], page: str, name: str
) -> None:
    text = client.get(f"{page}?{name}=nonesuch").text
    (choices,) = re.findall(rf'<select[^>]* name="{name}">(.*?)</select>', text, re.DOTALL)
    assert re.findall(r'value="([^"]*)" selected', choices) == ["nonesuch"]
