"""One pair of runs has one verdict, wherever it is said: comparison, lists, run page, API, terminal and shares."""

import re
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from app import engines
from app.cli.text import run_text
from app.cli.verdicts import comparison_text
from app.core.samples import Sample, Workload
from app.db import baselines
from app.db.database import Database
from app.db.tables import now
from app.results.compare import compare, soundness, standings
from app.schemas.run_document import run_document
from app.share import comparison as shared
from tests.compare.runs import POINT, place, run, timed
from tests.seed import made_sample

OTHER_POINT = Workload(2048, 32)


def answers(length: int, ttft_ms: float = 500, decode_tokens_per_s: float = 50) -> list[Sample]:
    """Each ended after so many tokens, whatever was asked for."""
    point = Workload(POINT.prompt_tokens, length)
    made = [made_sample(place, point, ttft_ms, decode_tokens_per_s) for place in range(3)]
    return [replace(sample, point=POINT, flags=()) for sample in made]


def streams(ttft_ms: float, decode_tokens_per_s: float) -> list[Sample]:
    return [
        replace(sample, ordinal=2 * sample.ordinal + stream, round=sample.ordinal, stream=stream)
        for sample in timed(ttft_ms, decode_tokens_per_s, replace(POINT, concurrency=2))
        for stream in range(2)
    ]


def both(ttft_ms: float, decode_tokens_per_s: float) -> list[Sample]:
    """Of two points."""
    second = timed(4 * ttft_ms, decode_tokens_per_s, OTHER_POINT)
    first = timed(ttft_ms, decode_tokens_per_s)
    return [*first, *(replace(sample, ordinal=sample.ordinal + len(first)) for sample in second)]


NOISY = (1.0, 1.5, 0.7, 1.2, 0.9)
BUSY = {"unsound": [soundness.machine_busy("during", 0.5)]}
KINDS: dict[str, tuple[list[Sample], dict[str, Any]]] = {
    "alike": (timed(500, 50), {}),
    "faster": (timed(300, 90), {}),
    "slower": (timed(900, 30), {}),
    "mixed": (timed(900, 90), {}),
    "a little faster": (timed(470, 53), {}),
    "one repetition": (timed(300, 90, noise=(1.0,)), {}),
    "equal repetitions": (timed(500, 50, noise=(1.0,) * 4), {}),
    "huge": (timed(5, 5000), {}),
    "noisy": (timed(300, 90, noise=NOISY), {}),
    "busy": (timed(300, 90), {"evidence": BUSY}),
    "of an earlier version": (timed(300, 90), {"evidence": {"cpu_load_share_before": 0.9}}),
    "without evidence": (timed(300, 90), {"evidence": {}}),
    "hidden": (timed(300, 90), {"hidden_at": now(), "hidden_reason": "a test"}),
    "failed": (timed(300, 90), {"status": "failed", "error": "It failed."}),
    "edited suite": (timed(300, 90), {"suite_sha256": "b" * 64}),
    "other suite": (timed(300, 90), {"suite_key": "lengths", "suite_sha256": "c" * 64}),
    "short answers": (answers(16, 300, 90), {}),
    "several points": (both(300, 90), {}),
    "main point elsewhere": (both(300, 90), {"main_point_key": OTHER_POINT.key}),
    "other point": (timed(300, 90, OTHER_POINT), {}),
    "streams": (streams(300, 90), {}),
    "no sample": ([], {}),
}


def text(client: TestClient, database: Database, base: str, compared_id: str) -> dict[str, str | None]:
    """The verdict of a pair in each place, `None` for none; `base` is pinned."""
    query = f"run={base}&run={compared_id}"
    with database.read() as session:
        comparison = compare(session, [base, compared_id], engines.titles())
        standing = standings(session, [compared_id]).get(compared_id)
        document = run_document(session, compared_id)
        (share,) = shared.snapshot(session, [base, compared_id]).verdicts
    terminal = re.search(r" against .+?: (?:no verdict|\S+ (\w+))\.", comparison_text(comparison))
    page = client.get(f"/compare?{query}").text
    line = re.search(r'verdict-line">.*?(?:verdict-(\w+)|no verdict)', page, re.DOTALL)
    listed = client.get("/runs").text
    mark = re.search(rf'verdict-(\w+)" href="/compare\?run={base}&amp;run={compared_id}"', listed)
    assert terminal
    assert line
    verdicts: dict[str, str | None] = {
        "comparison": comparison.pairs[0].verdict,
        "API": client.get(f"/api/v1/compare?{query}").json()["pairs"][0]["verdict"],
        "terminal": terminal[1],
        "page": line[1],
        "share": share.verdict or None,
    }
    if standing:  # a hidden or failed run has none
        title = re.search(
            r'baseline-title">Against the baseline(?:: <span class="verdict verdict-(\w+))?',
            client.get(f"/runs/{compared_id}").text,
        )
        verdicts |= {
            "baseline": standing.verdict,
            "list": mark and mark[1],
            "run's document": document["baseline"]["verdict"],
            "run page": title and title[1],
        }
    else:
        assert mark is None
    if previous := document["run"]["previous"]:
        if previous["id"] == base:
            title = re.search(
                r'changed-title">What changed(?:: <span class="verdict verdict-(\w+))?',
                client.get(f"/runs/{compared_id}").text,
            )
            verdicts |= {"what changed": previous["verdict"]}
            verdicts |= {"what changed on its page": title[1]} if title else {}
        assert "None" not in run_text(document)
    return verdicts


@pytest.fixture
def histories(database: Database) -> list[int]:
    """The ids of two configurations of one server; the first has a history at two points, of two suites of one key."""
    q8, q4 = place(database)
    for hour in range(6):
        run(database, q8, both(500 + 3 * hour, 50 + hour / 5), hours=hour - 40)
        run(
            database,
            q8,
            timed(2000 + 90 * hour, 50 + hour, OTHER_POINT),
            hours=hour - 30,
            suite_sha256="b" * 64,
        )
    return [q8, q4]


@pytest.mark.parametrize("kind", KINDS)
def test_every_place_says_the_same_of_a_pair(
    client: TestClient, database: Database, histories: list[int], kind: str
) -> None:
    samples, fields = KINDS[kind]
    base = run(database, histories[0], both(500, 50))
    compared_id = run(database, histories[1], samples, hours=1, **fields)
    with database.write() as session:
        baselines.pin(session, base)
    verdicts = text(client, database, base, compared_id)
    assert len(set(verdicts.values())) == 1, verdicts
    is_uncompared = kind in (
        "hidden",
        "failed",
        "edited suite",
        "other suite",
        "short answers",
        "streams",
        "no sample",
    )
    assert (verdicts["comparison"] is None) is is_uncompared
