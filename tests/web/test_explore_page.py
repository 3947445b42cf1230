"""The explorer's page, its CSV and its JSON: the same rows everywhere, whatever is asked for."""

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import fields
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from app.core.csv_export import escape_formula
from app.core.settings import Settings
from app.core.units import format_number
from app.db.database import Database
from app.results.explore import PRESETS, View
from app.results.explore import observations as store
from app.results.fields.registry import explorer_fields
from tests.explored import add_notebook
from tests.web.notebook import pages


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[TestClient]:
    """Pages over a full notebook, which no test here changes."""
    folder = tmp_path_factory.mktemp("explore")
    shutil.copy(migrated_file, folder / "roofmark.db")
    database = Database(f"sqlite:///{folder / 'roofmark.db'}")
    with database.write() as session:
        add_notebook(session, repeats=2)
    database.dispose()
    with pages(Settings(data_dir=folder)) as client:
        yield client


@pytest.fixture
def empty(settings: Settings, database: Database) -> Iterator[TestClient]:
    with pages(settings) as client:
        yield client


def table(page: str) -> list[list[str]]:
    body = re.search(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL) if body else []
    return [
        [unescape(re.sub(r"<.*?>", "", cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        for row in rows
    ]


def figure(page: str) -> dict[str, Any]:
    script = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert script is not None
    parsed: dict[str, Any] = json.loads(script[1])
    return parsed


def cell_text(value: Any, kind: str) -> str:
    """A value of the JSON as the page says it."""
    if value is None:
        return "not stated"
    if kind == "time":
        day, clock = value[:10], value[11:16]
        return day if value[11:19] == "00:00:00" else f"{day} {clock}"
    return f"{value:,}" if isinstance(value, int) else format_number(value) if isinstance(value, float) else value


def check_the_three_agree(client: TestClient, params: dict[str, str]) -> list[dict[str, Any]]:
    page = client.get("/explore", params=params)
    document = client.get("/explore.json", params=params).json()
    text = client.get("/explore.csv", params=params)
    assert page.status_code == text.status_code == 200
    assert client.get("/api/v1/explore", params=params).json() == document
    rows: list[dict[str, Any]] = document["rows"]
    used = document["fields"]
    axes = [name for name in ("series", "x", "y") if used[name]]
    parts = document["lines"]["split_by"]
    differing = [part for part in parts if len({row["parts"][part] for row in rows}) > 1]
    shown = [
        [
            *([cell_text(row["series"], used["series"]["kind"])] if used["series"] else []),
            *("" if row["parts"][part] is None else cell_text(row["parts"][part], "category") for part in differing),
            *(cell_text(row[name], used[name]["kind"]) for name in ("x", "y")),
        ]
        for row in rows
    ]
    assert [cells[: len(axes) + len(differing)] for cells in table(page.text)] == shown[:200]
    lines = list(csv.reader(io.StringIO(text.text, newline="")))
    columns = (*axes, "lowest", "highest", "observations", "run")
    begin = len(axes) - 2  # parts follow the series
    titles = [used[name]["name"] if name in axes else name for name in columns]
    assert lines[0] == [*titles[:begin], *(f"line.{part}" for part in parts), *titles[begin:]]
    cells = [[row[name] for name in columns] for row in rows]
    assert lines[1:] == [
        [
            "" if cell is None else str(escape_formula(cell))
            for cell in (*of_row[:begin], *row["parts"].values(), *of_row[begin:])
        ]
        for row, of_row in zip(rows, cells, strict=True)
    ]
    return rows


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.title)
def test_every_preset_draws_what_it_promises(client: TestClient, preset: Any) -> None:
    if preset.page == "context":
        page = client.get("/explore/context").text
    else:
        rows = check_the_three_agree(client, preset.view.query)
        if not preset.x.startswith("setting."):  # which nobody varied here
            assert len({row["x"] for row in rows}) > 2
            assert len({row["series"] for row in rows}) > 1
        page = client.get("/explore", params=preset.view.query).text
    assert f'aria-current="page">{preset.title}</a>' in page
    assert preset.x == "setting.threads" or preset.x.endswith("batch") or figure(page)["data"]


def test_the_first_preset_is_what_an_empty_address_shows(client: TestClient) -> None:
    page = client.get("/explore")
    assert page.headers["hx-push-url"] == "/explore?x=quantization&y=decode_tokens_per_s&series=model"
    assert figure(page.text)["layout"]["xaxis"]["ticktext"] == ["IQ2_XS", "Q4_K_M", "Q6_K", "Q8_0", "F16"]


def _names() -> tuple[list[str], list[str]]:
    fields = explorer_fields([])
    names = [*fields, "setting.governor"]
    return names, [name for name in names if name == "setting.governor" or fields[name].is_discrete]


NAMES, DISCRETE = _names()
PARAMETERS = (*(attribute.name for attribute in fields(View)), "config")


@settings(max_examples=60)
@given(
    x=st.sampled_from(NAMES),
    y=st.sampled_from(NAMES),
    series=st.sampled_from(["", *DISCRETE]),
    source=st.sampled_from(["", "client", "server", "slope", "import"]),
    raw=st.sampled_from(["", "on"]),
)
def test_any_fields_agree_everywhere(client: TestClient, **params: str) -> None:
    check_the_three_agree(client, params)


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(PARAMETERS),
        st.one_of(
            st.text(max_size=30),
            st.sampled_from(
                ["'; DROP TABLE run; --", "%", "\0", "<script>", "9999-12-31", "0001-01-01", "-1", "1e999"]
            ),
        ),
    )
)
def test_a_hostile_address_is_a_usable_page(client: TestClient, params: dict[str, str]) -> None:
    page = client.get("/explore", params={key: value.encode(errors="replace") for key, value in params.items()})
    assert page.status_code in (200, 422)
    assert "<h1>Explore</h1>" in page.text
    assert ('role="alert"' in page.text) == (page.status_code == 422)
    assert "<script>" not in page.text


def test_a_bad_value_is_said_and_the_rest_is_shown(client: TestClient) -> None:
    page = client.get("/explore?x=nonesuch&y=ttft_ms&series=model&machine=strix-halo")
    assert page.status_code == 422
    assert "There is no field called &#39;nonesuch&#39; for x." in page.text
    assert figure(page.text)["layout"]["yaxis"]["title"]["text"] == "TTFT ms"
    answer = client.get("/explore.json?x=nonesuch")
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        422,
        "There is no field called 'nonesuch' for x.",
    )


def test_filters_stay_in_the_address_and_narrow_what_is_shown(client: TestClient) -> None:
    query = "x=quantization&y=decode_tokens_per_s&series=model&machine=strix-halo&suite=triple"
    page = client.get(f"/explore?{query}&label=")
    assert dict(parse_qsl(urlsplit(page.headers["hx-push-url"]).query)) == dict(parse_qsl(query))
    assert {row[0] for row in table(page.text)} == {"Qwen3-30B-A3B"}
    assert '<option value="strix-halo" selected>' in page.text
    assert "No finished run matches" in client.get("/explore?machine=nonesuch").text


def test_a_point_leads_to_its_runs_and_a_run_to_its_page(client: TestClient) -> None:
    page = client.get("/explore?x=quantization&y=decode_tokens_per_s&series=model").text
    (trace, *_) = figure(page)["data"]
    alone = client.get(trace["customdata"][0])
    rows = table(alone.text)
    assert {tuple(row[:4]) for row in rows} == {("Llama-3.3-70B", "2×3090", "64", "IQ2_XS")}
    assert "Only the runs of one point: Quantization IQ2_XS, Llama-3.3-70B · 2×3090 · 64." in unescape(alone.text)
    (first, *_) = figure(alone.text)["data"][0]["customdata"]
    assert client.get(first).status_code == 200


def test_presets_keep_the_filters_of_what_is_shown(client: TestClient) -> None:
    query = {"x": "setting.context", "y": "ttft_ms", "machine": "strix-halo", "suite": "depth", "mark": "best"}
    for address in ("/explore", "/explore/context"):
        page = client.get(address, params=query).text
        presets = re.search(r'<nav class="presets".*?</nav>', page, re.DOTALL)
        assert presets is not None
        links = [unescape(link) for link in re.findall(r'href="([^"]+)"', presets[0])]
        assert len(links) == len(PRESETS)
        for link in links:
            kept = dict(parse_qsl(urlsplit(link).query))
            assert (kept["machine"], kept["suite"]) == ("strix-halo", "depth")
            assert kept["x"] != "setting.context" if "x" in kept else link.startswith("/explore/context?")
    assert "mark=best" in client.get("/explore", params=query).text


def test_what_a_mark_is_can_be_chosen_and_is_said(client: TestClient) -> None:
    query = {"x": "quantization", "y": "ttft_ms", "machine": "strix-halo", "suite": "triple"}
    words = {
        mark: f"Each mark is the {mark} of its runs; its bar reaches from the lowest to the highest"
        for mark in ("median", "latest", "best")
    }
    shown = {}
    for mark, sentence in words.items():
        page = client.get("/explore", params={**query, "mark": mark}).text
        assert [text for text in words.values() if text in page] == [sentence]
        document = client.get("/explore.json", params={**query, "mark": mark}).json()
        assert document["mark"] == mark
        shown[mark] = document["rows"]
    for median, latest, best in zip(*shown.values(), strict=True):
        assert best["y"] == median["lowest"] <= median["y"] <= median["highest"]
        assert median["run"] is None
        assert median["lowest"] <= latest["y"] <= median["highest"]
        assert client.get(f"/runs/{latest['run']}").status_code == client.get(f"/runs/{best['run']}").status_code == 200
    bad = client.get("/explore", params={**query, "mark": "worst"})
    assert bad.status_code == 422
    assert "A mark is one of median, latest, best; &#39;worst&#39; is not." in bad.text


def test_mixing_must_be_asked_for(client: TestClient) -> None:
    query = {"x": "quantization", "y": "decode_tokens_per_s", "suite": "triple"}
    apart = client.get("/explore.json", params=query).json()
    assert {row["parts"]["machine"] for row in apart["rows"]} == {"strix-halo", "2×3090"}
    mixed = client.get("/explore.json", params={**query, "mix": "machine,model,engine_version,settings"}).json()
    assert len(mixed["rows"]) == len(apart["rows"]) / 2
    assert {"machine", "model"} <= set(mixed["mixed"])
    page = client.get("/explore", params={**query, "mix": "machine,model,engine_version,settings"}).text
    assert "Marks mix runs that differ in machine, model, engine version and settings, as you asked." in page
    problem = client.get("/explore.json", params={**query, "mix": "machine,weather"})
    assert problem.status_code == 422
    assert "mix takes some of machine, model" in problem.json()["error"]["message"]


def test_a_chosen_source_is_the_one_that_is_read(client: TestClient) -> None:
    query = {"x": "quantization", "y": "decode_tokens_per_s", "machine": "strix-halo", "suite": "triple"}
    shown = client.get("/explore.json", params=query).json()["rows"]
    server = client.get("/explore.json", params={**query, "source": "server"}).json()["rows"]
    assert [row["y"] for row in server] == pytest.approx([row["y"] * 1.01 for row in shown])
    nothing = client.get("/explore", params={**query, "source": "slope"})
    assert "without decode: it was not measured there." in unescape(nothing.text)


def test_a_formula_in_a_setting_is_text_in_the_csv(client: TestClient) -> None:
    answer = client.get(
        "/explore.csv?x=setting.governor&y=decode_tokens_per_s&mix=machine,model,quantization,engine_version,prompt_tokens,settings"
    )
    assert answer.text.splitlines()[1].startswith("'=performance,")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="roofmark-explore.csv"'


def test_an_empty_notebook_says_what_to_do_next(empty: TestClient) -> None:
    page = empty.get("/explore")
    assert page.status_code == 200
    assert "Nothing to explore yet" in page.text
    assert 'href="/runs/new"' in page.text
    assert empty.get("/explore.csv").text.splitlines() == [
        "model,quantization,decode_tokens_per_s,lowest,highest,observations,run"
    ]


def test_few_queries(client: TestClient) -> None:
    statements: list[str] = []
    engine = client.app.state.database.engine  # type: ignore[attr-defined]  # a FastAPI application
    event.listen(engine, "before_cursor_execute", lambda _c, _cursor, statement, *_rest: statements.append(statement))
    client.get("/explore?x=configuration&y=ceiling_share&series=labels&label=night&model=Llama-3.3-70B")
    assert len(statements) <= 20


def test_free_settings_are_fields_too(client: TestClient) -> None:
    assert '<option value="setting.governor"' in client.get("/explore").text
    with client.app.state.database.read() as session:  # type: ignore[attr-defined]  # a FastAPI application
        assert "setting.governor" in explorer_fields(
            frozen.config for frozen in store.load_inventory(session).configs.values()
        )
