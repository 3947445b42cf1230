"""What an address, a command, the API and an export give for one filter: the same runs."""

import csv
import io
import json
import re
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.cli import app
from app.core.settings import Settings
from app.db.database import Database
from app.results.run_filter import ALIASES, RunFilter
from app.results.run_list import list_runs
from tests.filtered import add_notebook, questions
from tests.web.notebook import listed

RAW = {"x": "started_at", "y": "decode_tokens_per_s", "raw": "on"}


@pytest.fixture
def notebook(database: Database) -> Database:
    with database.write() as session:
        add_notebook(session)
    return database


@pytest.fixture
def answers(notebook: Database) -> list[tuple[dict[str, str], set[str], set[str]]]:
    """Parameters, the runs that fit, and those of them that count: finished, with a configuration and not hidden."""
    answers = []
    with notebook.read() as session:
        for parameters in questions(session):
            rows, _ = list_runs(session, RunFilter.parse(parameters), per_page=1000)
            counting_ids = {
                row.public_id for row in rows if row.status == "done" and row.fingerprint and not row.hidden_at
            }
            answers.append((parameters, {row.public_id for row in rows}, counting_ids))
    return answers


def in_history(page: str) -> set[str]:
    scripts = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    traces = [trace for script in scripts for trace in json.loads(script)["data"]]
    return {path.rsplit("/", 1)[1] for trace in traces for path in trace.get("customdata", ())}


def test_pages_api_and_exports(client: TestClient, answers: list[tuple[dict[str, str], set[str], set[str]]]) -> None:
    for parameters, expected, counting_ids in answers:
        query = urlencode(parameters)
        document = client.get(f"/api/v1/runs?per_page=500&{query}").json()
        assert {run["id"] for run in document["runs"]} == expected, parameters
        assert set(listed(client.get(f"/runs?{query}").text)) == expected, parameters
        raw = urlencode(RAW | parameters)
        assert {row["run"] for row in client.get(f"/explore.json?{raw}").json()["rows"]} == counting_ids, parameters
        rows = list(csv.DictReader(io.StringIO(client.get(f"/explore.csv?{raw}").text)))
        assert {row["run"] for row in rows} == counting_ids, parameters
        offered = re.findall(r'name="run" value="(\w+)"', client.get(f"/compare?{query}").text)
        usable = urlencode({**parameters, "status": "done", "hidden": "without"})
        usable_ids = [run["id"] for run in client.get(f"/api/v1/runs?per_page=20&{usable}").json()["runs"]]
        assert offered == usable_ids, parameters
        if "suite" in parameters:
            assert in_history(client.get(f"/history?{query}").text) == counting_ids, parameters


def test_commands(
    database: Database,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[tuple[dict[str, str], set[str], set[str]]],
) -> None:
    monkeypatch.setenv("ROOFMARK_DATA_DIR", str(settings.data_dir))
    for parameters, expected, _ in answers[::3]:
        options = [part for name, text in parameters.items() for part in (f"--{name}", text)]
        result = CliRunner().invoke(app, ["runs", "--json", "--limit", "1000", *options])
        assert result.exception is None
        assert {run["id"] for run in json.loads(result.stdout)["runs"]} == expected, parameters


@pytest.mark.parametrize("page", ["/runs", "/history", "/explore"])
def test_addresses_of_earlier_versions_lead_to_the_same_page(client: TestClient, notebook: Database, page: str) -> None:
    days = {"from": "2026-09-01", "to": "2026-10-15"}
    before = client.get(f"{page}?{urlencode({**days, 'machine': 'strix-halo'})}")
    today = {ALIASES[name]: day for name, day in days.items()}
    after = client.get(f"{page}?{urlencode({**today, 'machine': 'strix-halo'})}")
    assert before.headers["hx-push-url"] == after.headers["hx-push-url"]
    assert "since=2026-09-01&until=2026-10-15" in after.headers["hx-push-url"]


def test_what_an_address_narrows_down_to_stays_when_a_form_is_sent(client: TestClient, notebook: Database) -> None:
    """A filter has a field in the form, or is sent along unseen."""
    parameters = {"status": "done", "machine": "strix-halo", "server": "strix-halo-8080", "model": "Qwen3-30B-A3B"}
    parameters |= {"suite": "triple", "config": "a", "engine": "llama.cpp", "text": "fans", "label": "fast"}
    parameters |= {"hidden": "without", "since": "2026-09-01", "until": "2026-10-15"}
    for page in ("/runs", "/history", "/explore"):
        form = client.get(f"{page}?{urlencode(parameters)}").text
        for name, text in parameters.items():
            control = re.search(rf'<(select|input)[^>]* name="{name}"[^>]*>', form)
            assert control, (page, name)
            assert f'value="{text}"' in (control[0] if control[1] == "input" else form), (page, name)


def test_the_api_describes_each_filter(client: TestClient) -> None:
    parameters = client.get("/api/v1/openapi.json").json()["paths"]["/api/v1/runs"]["get"]["parameters"]
    names = {parameter["name"] for parameter in parameters}
    assert {"status", "engine", "since", "until", "label"} < names
    assert not {"from", "_declared"} & names
