"""A new metric is one file: every page, list, document, share and command shows it without a second edit."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import app.metrics
from app.cli.text import run_text
from app.cli.verdicts import comparison_text
from app.core.samples import Workload
from app.core.settings import Settings
from app.db.database import Database
from app.results.compare import compare
from app.schemas.run_document import run_document
from app.share import comparison as share_of_comparison
from app.share import run as share_of_run
from app.share.formats import to_csv
from app.web import terms
from tests.seed import made_sample, seed
from tests.web.notebook import add_run, pages, text_of

KEY, TITLE, VALUE = "first_gap_ms", "First gap", "321"
EXPLANATION = "The pause between the first two tokens."
SOURCE = f'''
from app.metrics.base import Metric, Reading

METRICS = (
    Metric(
        key="{KEY}",
        title="{TITLE}",
        unit="ms",
        better="lower",
        explanation="{EXPLANATION}",
        formula=lambda sample: [Reading("client", {VALUE})],
    ),
)
'''


@pytest.fixture
def _new_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "metrics"
    folder.mkdir()
    (folder / "first_gap.py").write_text(SOURCE)
    monkeypatch.setattr(app.metrics, "__path__", [*app.metrics.__path__, str(folder)])
    _forget()
    yield
    sys.modules.pop("app.metrics.first_gap", None)
    _forget()


def _forget() -> None:
    for cached in (app.metrics._formulas, app.metrics._metrics, terms._sections, terms._by_name):
        cached.cache_clear()


@pytest.fixture
def runs(_new_metric: None, database: Database) -> tuple[str, str]:
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    samples = [made_sample(n, Workload(512, 64), 500.0 + n, 50.0) for n in range(3)]
    return add_run(database, samples), add_run(database, samples)


@pytest.fixture
def client(runs: tuple[str, str], settings: Settings) -> Iterator[TestClient]:
    with pages(settings) as client:
        yield client


@pytest.mark.parametrize(
    "address",
    [
        "/runs/{first}",
        "/compare?run={first}&run={second}",
        f"/history?metric={KEY}",
        f"/explore?y={KEY}&x=model",
    ],
)
def test_pages_show_it(client: TestClient, runs: tuple[str, str], address: str) -> None:
    answer = client.get(address.format(first=runs[0], second=runs[1]))
    assert answer.status_code == 200
    text = text_of(answer.text)
    assert TITLE in text
    assert VALUE in text


def test_it_can_be_chosen_and_is_explained(client: TestClient) -> None:
    assert f'<option value="{KEY}"' in client.get("/history").text
    assert f'<option value="{KEY}"' in client.get("/explore").text
    glossary = client.get("/glossary").text
    assert f'id="{KEY}"' in glossary
    assert EXPLANATION in glossary
    term = terms.entry(KEY)
    assert term is not None
    assert term.term == TITLE


def test_documents_hold_it(client: TestClient, runs: tuple[str, str]) -> None:
    first, second = runs
    (metric,) = [
        metric for metric in client.get(f"/api/v1/runs/{first}").json()["points"][0]["metrics"] if metric["key"] == KEY
    ]
    assert (metric["title"], metric["value"], metric["unit"]) == (TITLE, float(VALUE), "ms")
    listed = client.get(f"/api/v1/runs?sort={KEY}").json()
    assert listed["metrics"][KEY] == {"title": TITLE, "unit": "ms"}
    assert [row["metrics"][KEY]["value"] for row in listed["runs"] if row["id"] in runs] == [float(VALUE)] * 2
    header, line = client.get(f"/explore.csv?y={KEY}&x=model").text.splitlines()
    assert KEY in header
    assert VALUE in line
    compared = client.get(f"/api/v1/compare?run={first}&run={second}").json()
    (row,) = [row for row in compared["points"][0]["extra_rows"] if row["metric"] == KEY]
    assert (row["title"], [cell["value"] for cell in row["cells"]]) == (TITLE, [float(VALUE)] * 2)


@pytest.mark.usefixtures("client")
def test_shares_hold_it(database: Database, runs: tuple[str, str]) -> None:
    with database.read() as session:
        snapshots = [share_of_run.snapshot(session, runs[0]), share_of_comparison.snapshot(session, runs)]
    for snapshot in snapshots:
        (line, *_) = [line for line in to_csv(snapshot).splitlines() if line.startswith(TITLE)]
        assert VALUE in line


def test_the_terminal_prints_it(database: Database, runs: tuple[str, str]) -> None:
    with database.read() as session:
        texts = [run_text(run_document(session, runs[0])), comparison_text(compare(session, runs, {}))]
    for text in texts:
        assert TITLE in text
        assert VALUE in text
