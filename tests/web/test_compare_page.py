"""The page and the JSON of a comparison, and baselines on pages."""

import re
from dataclasses import replace
from html import unescape
from urllib.parse import urlencode

import pytest
from sqlmodel import select
from starlette.testclient import TestClient

from app.cli.text import run_text
from app.db import baselines, configs, servers
from app.db.database import Database
from app.db.tables import Run, now
from app.results.compare import to_json
from app.results.compare.soundness import server_shared
from app.share import run as shared_run
from tests.compare.runs import Q4, Q8, change, compared, place, run, timed
from tests.seed import seed


@pytest.fixture
def pair(database: Database) -> tuple[str, str]:
    q8, q4 = place(database)
    return run(database, q8, timed(500, 50)), run(database, q4, timed(400, 60), hours=1)


def text(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<script.*?</script>|<[^>]+>", " ", html, flags=re.DOTALL)))


def test_the_verdict_comes_first_and_then_the_figures(client: TestClient, pair: tuple[str, str]) -> None:
    html = client.get(f"/compare?run={pair[0]}&run={pair[1]}").text
    page_text = text(html)
    parts = ("Q4_K_M against Q8_0", "TTFT 20 % shorter, prefill", "512 prompt tokens, 32", "What differs")
    assert (places := [page_text.index(part) for part in parts]) == sorted(places)
    assert "All of them: Qwen3-8B · llama.cpp b6301 · strix-halo · server strix-halo 8080 · suite triple" in page_text
    assert "Differs: Quantization Q8_0 → Q4_K_M. Unknown on at least one side" in page_text
    assert "20 % shorter 95 % interval −32 % to −6.4 %" in page_text
    assert html.count(">best</span>") >= 3
    assert "verdict-better" in html
    for figure in ("forest", "pauses"):
        assert f'id="{figure}-json"' in html
    assert "Decode ceiling" in page_text


def test_the_address_holds_everything(client: TestClient, pair: tuple[str, str]) -> None:
    html = unescape(client.get(f"/compare?run={pair[0]}&run={pair[1]}").text)
    assert f'href="/compare?run={pair[1]}&run={pair[0]}">Swap' in html
    assert f'href="/compare?run={pair[1]}&run={pair[0]}">Use as base' in html
    assert f"/compare?run=config%3A{pair[0]}&run={pair[1]}" in html
    assert f'href="/api/v1/compare?run={pair[0]}&run={pair[1]}"' in html
    assert f"/compare?run={pair[0]}&run={pair[1]}&pick=true" in html


def test_its_json_is_the_document(client: TestClient, database: Database, pair: tuple[str, str]) -> None:
    document = client.get(f"/api/v1/compare?run={pair[0]}&run={pair[1]}").json()
    assert document == client.get("/api/v1/compare?run=previous&run=latest").json()
    (against_first,) = document["pairs"]
    assert against_first["differing_settings"] == ["Quantization Q8_0 → Q4_K_M"]
    assert (against_first["verdict"], against_first["unsound"]) == ("better", [])
    assert document["points"][0]["point"] == {
        "prompt_tokens": 512,
        "output_tokens": 32,
        "concurrency": 1,
        "depth": 0,
    }
    assert set(document) == set(to_json(compared(database, *pair)))
    other_metric = client.get(f"/api/v1/compare?run={pair[0]}&run={pair[1]}&metric=tpot_ms").json()
    assert [row["metric"] for row in other_metric["points"][0]["rows"]] == ["tpot_ms"]


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("", 422, "takes 2 to 8 runs"),
        ("run=latest", 422, "takes 2 to 8 runs"),
        ("run=latest&run=nonesuch", 404, "no run 'nonesuch'"),
        ("run=latest&run=latest", 422, "named twice"),
        ("run=previous&run=latest&metric=speed", 422, "no metric 'speed'"),
    ],
)
def test_what_makes_no_comparison_is_one_sentence(
    client: TestClient, pair: tuple[str, str], query: str, status: int, text: str
) -> None:
    answer = client.get(f"/api/v1/compare?{query}")
    assert answer.status_code == status
    assert text in answer.json()["error"]["message"]


def test_incomparable_runs_have_a_reason_instead_of_a_verdict(
    client: TestClient, database: Database, pair: tuple[str, str]
) -> None:
    change(database, pair[1], suite_key="lengths", suite_sha256="b" * 64)
    html = client.get(f"/compare?run={pair[0]}&run={pair[1]}").text
    page_text = text(html)
    assert "no verdict They ran different suites: triple and lengths." in page_text
    assert page_text.index("They cannot be compared: they are of different suites, triple and lengths.") < (
        page_text.index("no verdict")
    )
    assert "verdict-better" not in html


@pytest.mark.parametrize("fields", [{"status": "failed"}, {"config_id": None}, {"hidden_at": now()}])
def test_every_kind_of_run_has_a_page(
    client: TestClient, database: Database, pair: tuple[str, str], fields: dict[str, object]
) -> None:
    change(database, pair[1], **fields)
    assert client.get(f"/compare?run={pair[0]}&run={pair[1]}").status_code == 200
    assert client.get(f"/compare?run={pair[1]}&run={pair[0]}").status_code == 200


def test_many_at_once(client: TestClient, database: Database) -> None:
    with database.write() as session:
        ids = seed(session, runs=24, detailed=12)
        one_of_each = {run_row.config_id: run_row.public_id for run_row in session.exec(select(Run))}
    eight = "&".join(f"run={public_id}" for public_id in ids[-8:])
    page = client.get(f"/compare?{eight}")
    assert page.status_code == 200
    assert "Add a run" not in page.text
    assert client.get(f"/compare?{eight}&run={ids[0]}").status_code == 422
    configs = "&".join(f"run=config:{public_id}" for public_id in one_of_each.values())
    assert client.get(f"/compare?{configs}").status_code == 200


def test_several_results_are_sorted_by_any_metric(client: TestClient, database: Database) -> None:
    q8, q4 = place(database)
    slow, fast, middle = (
        run(database, config, timed(500, speed), hours=hour)
        for hour, (config, speed) in enumerate([(q8, 30), (q4, 60), (q8, 45)])
    )
    address = f"/compare?run={slow}&run={fast}&run={middle}"
    html = unescape(client.get(address).text)
    for metric in ("ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s", "itl_ms_p50"):
        assert f'href="{address}&sort={metric}#figures"' in html
    sorted_page = client.get(f"{address}&sort=decode_tokens_per_s").text
    (decode,) = re.findall(r'aria-label="Sort by Decode, best first".*?</table>', sorted_page, re.DOTALL)
    assert re.findall(r'<b class="letter[^>]*>(\w)</b>', decode) == ["B", "C", "A"]
    assert "Q4_K_M decodes fastest, at " in text(sorted_page)
    assert client.get(f"{address}&sort=nothing").status_code == 200
    assert "&amp;sort=" not in client.get(f"/compare?run={slow}&run={fast}").text


def test_runs_of_several_machines_say_so_first(client: TestClient, open_pair: tuple[str, str]) -> None:
    page_text = text(client.get(f"/compare?run={open_pair[0]}&run={open_pair[1]}").text)
    notice = "They are of different machines, strix-halo and tower, so a difference may be the machine's."
    assert page_text.index(notice) < page_text.index("inconclusive")


# --- choosing --------------------------------------------------------------------------------------------------------


def test_an_empty_comparison_offers_runs_and_searches_them(
    client: TestClient, database: Database, pair: tuple[str, str]
) -> None:
    html = client.get("/compare").text
    for public_id in pair:
        assert f'type="checkbox" name="run" value="{public_id}">' in html
    change(database, pair[0], note="needle in the hay")
    page_found = client.get("/compare?text=needle").text
    assert pair[0] in page_found
    assert pair[1] not in page_found


def test_one_run_asks_for_another_and_stays_chosen(client: TestClient, pair: tuple[str, str]) -> None:
    html = client.get(f"/compare?run={pair[0]}").text
    assert "needs at least two runs" in html
    assert f'name="run" value="{pair[0]}" checked' in html
    more = client.get(f"/compare?run=config:{pair[0]}&run={pair[1]}&pick=true").text
    assert f'value="config:{pair[0]}" checked' in more
    assert "all runs of its configuration" in more


def test_of_what_is_ticked_the_oldest_is_the_base(client: TestClient, pair: tuple[str, str]) -> None:
    """Lists have the newest first, and a person asks whether the new one is better than the old one."""
    older, newer = pair
    for page in ("/compare", "/runs"):
        assert '<input type="hidden" name="base" value="">' in client.get(page).text
    for names in ((newer, older), (older, newer), (newer, f"config:{older}"), ("latest", older)):
        asked = urlencode([("base", ""), *(("run", name) for name in names)])
        response = client.get(f"/compare?{asked}", follow_redirects=False)
        first, second = sorted(names, key=lambda name: older not in name)
        query = urlencode([("run", first), ("run", second)])
        assert (response.status_code, response.headers["location"]) == (303, f"/compare?{query}")


def test_a_base_that_was_chosen_stays_the_base(client: TestClient, pair: tuple[str, str]) -> None:
    older, newer = pair
    assert f'name="base" value="{newer}"' in client.get(f"/compare?run={newer}&pick=true").text
    response = client.get(f"/compare?base={newer}&run={older}&run={newer}", follow_redirects=False)
    assert response.headers["location"] == f"/compare?run={newer}&run={older}"
    assert client.get(f"/compare?base=&run={older}&run=nonesuch").status_code == 404


def test_words_that_mean_the_same_run_are_named(client: TestClient, pair: tuple[str, str]) -> None:
    answer = client.get(f"/compare?run={pair[1]}&run=latest")
    assert answer.status_code == 422
    assert f"{pair[1]} and latest are both {pair[1]}" in text(answer.text)


def test_a_configuration_leads_to_its_comparison(client: TestClient, pair: tuple[str, str]) -> None:
    (config,) = re.findall(r'href="(/configs/\w{64}\?server=[^"]+)"', client.get(f"/runs/{pair[1]}").text)[:1]
    (link,) = re.findall(r'href="(/compare[^"]+)"', client.get(config).text)
    picked = client.get(unescape(link)).text
    assert f'value="config:{pair[1]}" checked' in picked
    assert "needs at least two" not in picked


def test_a_notebook_without_runs(client: TestClient) -> None:
    assert "Nothing to compare yet" in client.get("/compare").text


def test_the_list_of_runs_has_boxes_for_finished_ones(
    client: TestClient, database: Database, pair: tuple[str, str]
) -> None:
    change(database, pair[0], status="running")
    html = client.get("/runs").text
    assert f'name="run" value="{pair[1]}" form="chosen"' in html
    assert f'name="run" value="{pair[0]}"' not in html


def test_hostile_names_stay_text(client: TestClient, database: Database) -> None:
    evil = '<script>alert("x")</script>'
    first, second = place(database, replace(Q8, model=evil), replace(Q4, labels=[evil]))
    a, b = run(database, first, timed(500, 50)), run(database, second, timed(400, 60), hours=1)
    for path in (f"/compare?run={a}&run={b}", f"/compare?run={a}", "/compare", f"/runs/{b}", f"/compare?text={evil}"):
        assert "<script>alert" not in client.get(path).text


# --- baselines -------------------------------------------------------------------------------------------------------


def test_a_run_is_pinned_compared_with_and_unpinned(client: TestClient, pair: tuple[str, str]) -> None:
    base, later = pair
    assert "Pin as baseline" in client.get(f"/runs/{base}").text
    pinned = client.post(f"/runs/{base}/baseline", follow_redirects=False)
    assert (pinned.status_code, pinned.headers["location"]) == (303, f"/runs/{base}")
    assert "This run is the baseline" in client.get(f"/runs/{base}").text
    html = client.get(f"/runs/{later}").text
    assert "Against the baseline: TTFT 20 % shorter TTFT 500 → 400 ms 20 % shorter" in text(html)
    assert unescape(html).count(f"/compare?run={base}&run={later}") >= 2
    for page in ("/runs",):
        listed = client.get(page).text
        assert "verdict-baseline" in listed
        assert f'title="Against the baseline, run {base}"' in listed
    assert client.get(f"/api/v1/runs/{later}").json()["baseline"]["verdict"] == "better"
    client.post(f"/runs/{base}/baseline/remove")
    assert "Against the baseline" not in client.get(f"/runs/{later}").text


def test_what_cannot_be_pinned_is_one_sentence(client: TestClient, database: Database, pair: tuple[str, str]) -> None:
    change(database, pair[0], status="failed")
    answer = client.post(f"/runs/{pair[0]}/baseline")
    assert answer.status_code == 409
    assert "Only a finished run can be a baseline" in answer.text
    assert "Pin as baseline" not in client.get(f"/runs/{pair[0]}").text
    assert client.post(f"/runs/{pair[1]}/baseline/remove").status_code == 404


def test_a_baseline_that_is_hidden_is_said(client: TestClient, database: Database, pair: tuple[str, str]) -> None:
    with database.write() as session:
        baselines.pin(session, pair[0])
    change(database, pair[0], hidden_at=now())
    assert "No verdict. The baseline is hidden from statistics." in text(client.get(f"/runs/{pair[1]}").text)
    assert "is the baseline, but hidden: later runs have no verdict" in text(client.get(f"/runs/{pair[0]}").text)


def test_runs_without_a_sample_have_a_page_that_says_so(client: TestClient, database: Database) -> None:
    q8, q4 = place(database)
    first, second = run(database, q8, []), run(database, q4, [])
    for query in (f"run={first}&run={second}", f"run=config:{first}&run={second}"):
        answer = client.get(f"/compare?{query}")
        assert answer.status_code == 200
        assert "sample" in text(answer.text)
        assert client.get(f"/api/v1/compare?{query}").json()["points"] == []


# --- what would settle it --------------------------------------------------------------------------------------------


def forms(html: str) -> list[dict[str, str]]:
    """What the buttons Run again of a comparison ask for."""
    settling = html.partition('<div class="settling">')[2].partition("</div>")[0]
    fields = [re.findall(r'name="(\w+)"[^>]*? value="([^"]*)"', form) for form in settling.split("<form")[1:]]
    return [dict(of_form) for of_form in fields]


@pytest.fixture
def open_pair(database: Database) -> tuple[str, str]:
    """A change too small for one run of each, on two servers."""
    (q8,), (q4,) = place(database, Q8), place(database, Q4, name="tower")
    plan = {"repetitions": 5, "warmups": 1, "model": None}
    return run(database, q8, timed(500, 50), plan=plan), run(database, q4, timed(470, 53), hours=1, plan=plan)


def test_an_open_verdict_offers_the_runs_that_would_settle_it(
    client: TestClient, database: Database, open_pair: tuple[str, str]
) -> None:
    html = client.get(f"/compare?run={open_pair[0]}&run={open_pair[1]}").text
    (needed,) = set(re.findall(r"<p>About (\d+) more runs of each would settle it", html))
    plan = {"suite": "triple", "repetitions": "5", "warmups": "1", "runs": needed}
    assert forms(html) == [{"server": "strix-halo-8080", **plan}, {"server": "tower-8080", **plan}]
    assert "Run Q8_0 · strix-halo again" in html
    assert f'href="/compare?run=config%3A{open_pair[0]}&amp;run=config%3A{open_pair[1]}"' in html
    answer = client.post("/runs", data=forms(html)[1], follow_redirects=False)
    assert answer.status_code == 303
    with database.read() as session:
        queued = session.exec(select(Run).where(Run.status == "queued")).all()
    assert len(queued) == int(needed)
    assert {run.plan["repetitions"] for run in queued} == {5}


def test_only_what_can_be_measured_again_is_offered(
    client: TestClient, database: Database, open_pair: tuple[str, str]
) -> None:
    """An archived server measures nothing, and one that was started otherwise measures something else."""
    query = f"/compare?run={open_pair[0]}&run={open_pair[1]}"
    with database.write() as session:
        servers.server(session, "tower-8080").archived_at = now()
        first = servers.server(session, "strix-halo-8080")
        other_config = configs.freeze(session, first.id or 0, Q4, {}, "").id
    assert [form["server"] for form in forms(client.get(query).text)] == ["strix-halo-8080"]
    run(database, other_config or 0, timed(400, 60), hours=5)
    html = client.get(query).text
    assert forms(html) == []
    assert "The server of Q8_0 · strix-halo was last measured with another configuration" in text(html)


def test_a_settled_verdict_offers_none(client: TestClient, pair: tuple[str, str]) -> None:
    assert "settling" not in client.get(f"/compare?run={pair[0]}&run={pair[1]}").text


def test_two_runs_of_one_configuration_are_run_again_once(client: TestClient, database: Database) -> None:
    (q8,) = place(database, Q8)
    first, second = run(database, q8, timed(500, 50)), run(database, q8, timed(470, 53), hours=1)
    html = client.get(f"/compare?run={first}&run={second}").text
    assert len(forms(html)) == 1
    assert "compare all runs of both" not in html


def test_a_disturbed_run_is_measured_again_once(client: TestClient, database: Database) -> None:
    (q8,), (q4,) = place(database, Q8), place(database, Q4, name="tower")
    first = run(database, q8, timed(500, 50))
    two = run(database, q4, timed(300, 90), hours=1, evidence={"unsound": [server_shared()]})
    html = client.get(f"/compare?run={first}&run={two}").text
    assert forms(html) == [{"server": "tower-8080", "suite": "triple", "runs": "1"}]


def test_a_disturbed_run_is_marked_in_lists_and_on_its_page(client: TestClient, database: Database) -> None:
    q8, q4 = place(database)
    base = run(database, q8, timed(500, 50))
    later = run(database, q4, timed(300, 90), hours=1, evidence={"unsound": [server_shared()]})
    with database.write() as session:
        baselines.pin(session, base)
    reason = "the server worked for somebody else during the run"
    for page in ("/runs",):
        title = f"Against the baseline, run {base}. No verdict can rest on it: {reason}."
        assert f'title="{title}"' in client.get(page).text
    assert f"No verdict can rest on this run: {reason}." in text(client.get(f"/runs/{later}").text)
    document = client.get(f"/api/v1/runs/{later}").json()
    assert document["run"]["unsound"] == [reason]
    assert f"Warning: No verdict can rest on this run: {reason}." in run_text(document)
    with database.read() as session:
        assert f"No verdict can rest on this run: {reason}." in shared_run.snapshot(session, later).warnings
