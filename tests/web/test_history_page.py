import html
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
from tests.web.notebook import text_of
from tests.year import BUILDS, UPDATE, seed_year


@pytest.fixture
def ids(database: Database) -> list[str]:
    with database.write() as session:
        return seed(session, runs=24, detailed=2)


def figures(page: str) -> list[dict[str, Any]]:
    """One for each machine."""
    texts = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    return [json.loads(text) for text in texts]


def figure(page: str) -> dict[str, Any]:
    only, *_ = figures(page)
    return only


def shown_runs(page: str) -> set[str]:
    traces = (trace for drawn in figures(page) for trace in drawn["data"])
    return {path.rsplit("/", 1)[1] for trace in traces for path in trace.get("customdata", ())}


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
    counts = [int(count) for count in re.findall(r"(\d+) runs? of \d+ series", page)]
    assert sum(counts) == 22
    assert len(counts) == len(figures(page)) > 1
    assert 'class="legend toggles"' in page
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
    page = client.get("/history?by=configuration").text
    link = re.search(r'href="(/history\?[^"]*config=[^"]*)"', page)
    assert link is not None
    alone = client.get(link[1].replace("&amp;", "&")).text
    roles = [trace["meta"].get("role") for trace in figure(alone)["data"]]
    assert roles[:6] == ["band"] * 3 + [None] * 3
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
    newer, older = re.findall(r'href="(/history\?[^"]*only=[^"]*)"', page)
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
    change = r"1[3-7] % slower since \d+ \w+ \d{4}, no known change of configuration gpt-oss-120b"
    assert re.search(change, text_of(page))
    assert "One change for the worse still holds." in page
    assert f'/compare?run={runs[7]}&amp;run={runs[8]}"' in page
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
    assert re.search(rf"worse D{expected} gpt-oss-120b", text_of(overview))
    assert f'/compare?run={runs[0]}&amp;run={runs[-1]}"' in overview
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


# --- series, updates, notes and views --------------------------------------------------------------------------------


@pytest.fixture
def year(database: Database) -> list[str]:
    with database.write() as session:
        return seed_year(session)


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_it_begins_with_whether_an_update_cost_speed(client: TestClient, year: list[str]) -> None:
    page = words(client.get("/history").text)
    verdict = (
        "llama.cpp b7689 → b7841 on strix-halo, 3 June 2026: decode 7.7 % slower on 3 models. 20 other engine "
        "updates changed nothing for certain."
    )
    assert page.index(verdict) < page.index("Lines by") < page.index("What happened")
    part = client.get("/history?machine=mac-studio", headers={"hx-request": "true"}).text
    assert '<div id="history-answer" hx-swap-oob="true">' in part
    assert "No engine update certainly cost speed (7 engine updates measured)." in words(part)


def test_the_update_that_slowed_down_comes_first_with_its_comparison(client: TestClient, year: list[str]) -> None:
    page = client.get("/history").text
    assert len(figures(page)) == 3
    assert "llama.cpp b7689 → b7841 on strix-halo, 3 June 2026: decode 7.7 % slower on 3 models . Compare" in words(
        page
    )
    assert "20 engine updates without a certain change" in words(page)
    assert "RTX 4090 → 2 × RTX 4090 on workstation, 19 August 2026: no certain change in 1 series. Compare" in words(
        page
    )
    before, after = re.search(r"<strong>decode 7.7.*?run=(\w+)&amp;run=(\w+)\"", page, re.DOTALL).groups()  # type: ignore[union-attr]  # it is there
    assert {before, after} <= set(year)
    comparison = client.get(f"/compare?run={before}&run={after}").text
    assert "b7689" in comparison
    assert "b7841" in comparison


def test_no_update_is_told_twice(client: TestClient, year: list[str]) -> None:
    page = client.get("/history?machine=strix-halo").text
    assert "decode 7.7 % slower" in page
    assert "same configuration" not in page


def test_no_series_of_a_year_is_grey_and_models_keep_a_colour_each(client: TestClient, year: list[str]) -> None:
    (strix,) = figures(client.get("/history?machine=strix-halo").text)
    looks = {trace["name"]: (trace["meta"]["series"], *trace["meta"]["look"]) for trace in strix["data"]}
    assert len(looks) == len(set(looks.values())) == 16
    assert len({look[0] for name, look in looks.items() if name.startswith("Gemma")}) == 1
    marks = [note["text"] for note in strix["layout"]["annotations"]]
    assert marks == list(BUILDS[1:])
    assert [note.get("name") for note in strix["layout"]["annotations"]][UPDATE - 1] == "worse"


def test_an_update_is_judged_by_all_runs_though_few_are_shown(client: TestClient, year: list[str]) -> None:
    page = client.get("/history?machine=strix-halo&since=2026-06-02&until=2026-06-04").text
    assert len(shown_runs(page)) < 20
    assert "decode 7.7 % slower on 3 models" in page
    assert "engine update without" not in page
    assert "decode 7.7" not in client.get("/history?machine=strix-halo&since=2026-07-02").text


def test_a_period_is_up_to_today(client: TestClient, ids: list[str], database: Database) -> None:
    with database.write() as session:
        for age, public_id in ((5, ids[0]), (20, ids[1]), (200, ids[2]), (500, ids[3])):
            run = session.exec(select(Run).where(Run.public_id == public_id)).one()
            run.started_at = now() - timedelta(days=age)
            session.add(run)
    some = set(ids[:4])
    assert some & shown_runs(client.get("/history?period=7d").text) == {ids[0]}
    assert some & shown_runs(client.get("/history?period=30d").text) == {ids[0], ids[1]}
    year = client.get("/history?period=1y&since=2001-01-01&until=2001-01-01")
    assert some & shown_runs(year.text) == {ids[0], ids[1], ids[2]}
    assert some & shown_runs(client.get("/history").text) == some
    assert client.get("/history?period=2d").status_code == 422


def test_axis_hidden_lines_and_ceilings_stand_in_the_address(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history?axis=fit&ceilings=all&hide=4&hide=7")
    assert page.headers["hx-push-url"] == "/history?suite=triple&axis=fit&ceilings=all&hide=4&hide=7"
    assert {drawn["layout"]["yaxis"]["rangemode"] for drawn in figures(page.text)} == {"normal"}
    assert re.findall(r'data-line="(\w+)" aria-pressed="false"', page.text) == ["4", "7"]
    assert '<input type="hidden" name="hide" value="7">' in page.text
    assert 'data-hidden=\'["4", "7"]\'' in page.text
    assert client.get("/history?axis=log").status_code == 422


def test_a_note_is_added_edited_and_deleted_where_it_is_shown(client: TestClient, ids: list[str]) -> None:
    note = {"text": "new <PSU>", "at": "2026-08-20", "machine": "m3-ultra", "back": "machine=m3-ultra"}
    page = client.post("/notes", data=note)
    assert page.url.path == "/history"
    assert page.url.query == b"machine=m3-ultra"
    assert "new <PSU> on m3-ultra, 20 August 2026" in words(page.text)
    (drawn,) = figures(page.text)
    assert [(mark["text"], mark["name"]) for mark in drawn["layout"]["annotations"]] == [("new &lt;PSU&gt;", "note")]
    assert "new <PSU>" not in words(client.get("/history?machine=strix-halo").text)
    path = re.search(r'action="(/notes/\d+)"', page.text)
    assert path is not None
    page = client.post(path[1], data={"text": "new fan", "at": "2026-08-21", "machine": "", "back": ""})
    assert "new fan, 21 August 2026" in words(page.text)
    assert "new fan" in words(client.get("/history?machine=strix-halo").text)
    page = client.post(f"{path[1]}/delete", data={"back": ""})
    assert "new fan" not in words(page.text)
    assert client.post("/notes", data={"text": "", "at": "2026-08-21"}).status_code == 422
    assert client.post("/notes", data={"text": "x", "at": "then"}).status_code == 422
    assert client.post("/notes", data={"text": "x", "at": "2026-08-21", "machine": "nonesuch"}).status_code == 404


def test_a_view_is_saved_renamed_pinned_and_deleted(client: TestClient, ids: list[str]) -> None:
    page = client.post(
        "/views", data={"name": "M3", "page": "history", "query": "?machine=m3-ultra&axis=fit", "pinned": "1"}
    )
    assert str(page.url).endswith("/history?machine=m3-ultra&axis=fit")
    assert '<a class="view-chip" href="/history?machine=m3-ultra&amp;axis=fit">M3</a>' in page.text
    assert '<a class="button" href="/history?machine=m3-ultra&amp;axis=fit">M3</a>' in client.get("/").text
    assert client.post("/views", data={"name": "M3", "page": "history"}).status_code == 409
    assert client.post("/views", data={"name": "x", "page": "login"}).status_code == 422
    path = re.search(r'action="(/views/\d+)"', page.text)
    assert path is not None
    page = client.post(path[1], data={"name": "Apple"})
    assert "view-chip" not in page.text
    assert "Saved views (1)" in page.text
    page = client.post(f"{path[1]}/delete")
    assert "The view is deleted." in page.text
    assert "Save this view" in page.text
