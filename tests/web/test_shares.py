"""Sharing: preview, link, everything that belongs to it, and its end."""

import re
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import parse_qs

import pytest
from pydantic import SecretStr
from sqlmodel import select
from starlette.testclient import TestClient

from app.core.samples import Workload
from app.core.settings import Settings
from app.db import annotations, machines
from app.db.database import Database
from app.db.tables import Config, Run, Share
from tests.seed import made_sample, seed
from tests.web.conftest import browser
from tests.web.notebook import BASE_URL, add_run, pages

FORMS = ("", ".json", ".csv", ".md", ".png", ".html")
COMPARISON = "kind=comparison&run=seed000002&run=seed000001"
EXPLORER = "kind=explorer&y=decode_tokens_per_s&x=quantization&series=machine"
CEILING = "kind=ceiling&device=rtx+3090&total=8.03&bits=Q4_K_M&layers=32&kv_heads=8&head_dim=128"


@pytest.fixture
def run_id(database: Database) -> str:
    with database.write() as session:
        public_id = seed(session, runs=3, configs_used=1, detailed=3)[-1]
        annotations.edit_note(session, public_id, "Fans at 80 %")
        return public_id


def preview(client: TestClient, query: str) -> str:
    answer = client.get(f"/shares/new?{query}")
    assert answer.status_code == 200, answer.text
    return answer.text


def fields(page: str) -> dict[str, Any]:
    """Of the preview's form, as a browser would send them."""
    values: dict[str, Any] = {}
    form = page[page.index('<form class="card form share-form"') : page.index("</form>", page.index("share-form"))]
    for tag in re.findall(r"<input [^>]*>", form):
        if 'type="checkbox"' in tag and "checked" not in tag:
            continue
        (name,), (value,) = re.findall(r' name="([^"]*)"', tag), re.findall(r' value="([^"]*)"', tag)
        values.setdefault(name, []).append(unescape(value))
    return values


def share(client: TestClient, query: str, **changed: Any) -> str:
    """Through the preview; gives the slug."""
    answer = client.post("/shares", data=fields(preview(client, query)) | changed, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].removeprefix("/shares?new=")


def body(page: str) -> str:
    return page[page.index('<article class="share') : page.index("</article>")]


@pytest.mark.parametrize(
    "query", ["kind=run&run={}", "kind=run&run={}&include=note&include=machine", COMPARISON, EXPLORER, CEILING]
)
def test_the_preview_is_the_public_page_to_the_byte(client: TestClient, run_id: str, query: str) -> None:
    query = query.format(run_id)
    before = preview(client, query)
    after = client.get(f"/s/{share(client, query)}").text
    assert body(before) == body(after)


def test_what_is_ticked_is_public_and_what_is_not_is_not(client: TestClient, run_id: str) -> None:
    without = client.get(f"/s/{share(client, f'kind=run&run={run_id}')}").text
    assert "Fans at 80 %" not in without
    assert "strix-halo" not in without
    ticked = client.get(f"/s/{share(client, f'kind=run&run={run_id}&include=note')}").text
    assert "Fans at 80 %" in ticked
    assert "strix-halo" not in ticked


def test_nothing_becomes_public_that_no_preview_has_shown(client: TestClient, run_id: str, database: Database) -> None:
    form = fields(preview(client, f"kind=run&run={run_id}&include=note"))
    with database.write() as session:
        annotations.edit_note(session, run_id, "The key is hunter2")
    answer = client.post("/shares", data=form, follow_redirects=False)
    assert answer.status_code == 409
    assert "has changed since the preview" in answer.text
    assert "hunter2" in answer.text
    with database.read() as session:
        assert session.exec(select(Share)).all() == []
    assert client.post("/shares", data=fields(answer.text), follow_redirects=False).status_code == 303


def test_a_title_may_be_edited(client: TestClient, run_id: str) -> None:
    slug = share(client, f"kind=run&run={run_id}", title="My <first> rig")
    assert '<h1 id="share-title">My &lt;first&gt; rig</h1>' in client.get(f"/s/{slug}").text
    assert client.get(f"/s/{slug}.json").json()["title"] == "My <first> rig"
    assert "My &lt;first&gt; rig" in client.get("/shares").text


def test_a_private_link_says_who_can_open_it_and_offers_what_can_be_sent(client: TestClient, run_id: str) -> None:
    query = f"kind=run&run={run_id}"
    page = preview(client, query)
    assert "Only people on this machine can open links to this address." in page
    slug = share(client, query)
    listed = client.get("/shares").text
    assert "Only people on this machine can open links to this address. Send the file" in listed
    for form in (".html", ".md", ".png"):
        assert f'href="/s/{slug}{form}"' in listed
    assert "Content-Security-Policy" in client.get(f"/shares/new/file?{query}").text
    assert client.get(f"/shares/new/markdown?{query}").text.startswith("**")
    for name in ("file", "markdown", "card"):
        assert f'href="/shares/new/{name}?kind=run&amp;run={run_id}' in page


def test_a_public_address_is_in_every_link(settings: Settings, database: Database, run_id: str) -> None:
    public = settings.model_copy(update={"public_url": "https://bench.example.org/roofmark"})
    with browser(public, database) as client:
        slug = share(client, f"kind=run&run={run_id}")
        address = f"https://bench.example.org/roofmark/s/{slug}"
        page = client.get(f"/s/{slug}").text
        assert f'property="og:image" content="{address}.png"' in page
        assert f'property="og:url" content="{address}"' in page
        assert f"({address})" in client.get(f"/s/{slug}.md").text
        listed = client.get("/shares").text
        assert f'<code id="link-1">{address}</code>' in listed
        assert "Only people" not in listed
        assert client.get("/s/none", headers={"host": "bench.example.org"}).status_code == 404


def test_a_comparison_carries_the_warnings_of_its_runs(client: TestClient, database: Database, run_id: str) -> None:
    with database.write() as session:
        run = session.exec(select(Run).where(Run.public_id == run_id)).one()
        run.evidence = {**run.evidence, "unsound": [{"kind": "machine_busy", "when": "before", "share": 0.53}]}
        session.add(run)
    slug = share(client, COMPARISON)
    for form in ("", ".md", ".json", ".csv"):
        text = client.get(f"/s/{slug}{form}").text
        assert "this machine was busy before the run (53 %)" in text
        assert "strix-halo" not in text


def test_slugs_are_long_and_never_the_same(client: TestClient, run_id: str) -> None:
    slugs = {share(client, f"kind=run&run={run_id}") for _ in range(5)}
    assert len(slugs) == 5
    assert all(re.fullmatch(r"[0-9a-f]{32}", slug) for slug in slugs)


def test_all_forms_of_a_share(client: TestClient, run_id: str) -> None:
    slug = share(client, f"kind=run&run={run_id}")
    answers = {form: client.get(f"/s/{slug}{form}") for form in FORMS}
    assert {form: answer.headers["content-type"].partition(";")[0] for form, answer in answers.items()} == {
        "": "text/html",
        ".json": "application/json",
        ".csv": "text/csv",
        ".md": "text/plain",
        ".png": "image/png",
        ".html": "application/octet-stream",
    }
    assert answers[".json"].json()["schema"] == "roofmark.share/1"
    assert f"({BASE_URL}/s/{slug})" in answers[".md"].text
    assert answers[".html"].headers["content-disposition"] == 'attachment; filename="roofmark.html"'
    for form in FORMS:
        head = client.head(f"/s/{slug}{form}")
        assert head.status_code == 200
        assert head.headers["content-type"] == answers[form].headers["content-type"]


def test_a_public_page_tells_programs_what_it_is_and_not_to_keep_it(client: TestClient, run_id: str) -> None:
    slug = share(client, f"kind=run&run={run_id}")
    page = client.get(f"/s/{slug}").text
    metadata = dict(re.findall(r'<meta (?:name|property)="([^"]*)" content="([^"]*)">', page))
    assert metadata["robots"] == "noindex"
    assert metadata["referrer"] == "no-referrer"
    assert metadata["og:url"] == f"{BASE_URL}/s/{slug}"
    assert metadata["og:image"] == f"{BASE_URL}/s/{slug}.png"
    assert metadata["og:title"].startswith("Qwen3-30B-A3B Q8_0 on ")
    assert re.match(
        r"TTFT \d+ ms, prefill [\d,.]+ tok/s, decode [\d.]+ tok/s; [\d.]+ % of the", metadata["og:description"]
    )


def test_a_public_page_leads_nowhere_else(client: TestClient, run_id: str) -> None:
    slug = share(client, f"kind=run&run={run_id}")
    page = client.get(f"/s/{slug}").text
    for path in re.findall(r'(?:href|src|action)="([^"]*)"', page):
        assert path.startswith(("#", f"/s/{slug}", "/static/")), path
    assert "customdata" not in page
    assert "/runs/" not in page


def test_under_a_sub_path_all_addresses_hold_it(settings: Settings, database: Database, run_id: str) -> None:
    with pages(settings.model_copy(update={"root_path": "/roofmark"})) as client:
        slug = share(client, f"kind=run&run={run_id}").removeprefix("/roofmark/shares?new=")
        page = client.get(f"/roofmark/s/{slug}").text
    assert f'content="{BASE_URL}/roofmark/s/{slug}.png"' in page
    assert f'href="/roofmark/s/{slug}.json"' in page
    assert 'href="/roofmark/static/css/share.css"' in page


def test_readers_need_no_password_and_get_no_cookie(settings: Settings, database: Database, run_id: str) -> None:
    with browser(settings, database) as client:
        slug = share(client, f"kind=run&run={run_id}")
    with browser(settings.model_copy(update={"password": SecretStr("x")}), database, has_origin=False) as reader:
        for form in FORMS:
            answer = reader.get(f"/s/{slug}{form}", follow_redirects=False)
            assert answer.status_code == 200
            assert "set-cookie" not in answer.headers
        assert reader.get("/shares", follow_redirects=False).status_code == 303
        assert reader.get("/s/", follow_redirects=False).status_code == 404
        assert reader.get("/s/../runs", follow_redirects=False).status_code == 303
        assert reader.get(f"/s/{slug}", headers={"host": "evil.example"}).status_code == 403


def test_a_public_host_name_must_be_allowed(settings: Settings, database: Database, run_id: str) -> None:
    known_settings = settings.model_copy(update={"allowed_hosts": ["bench.example"]})
    with pages(known_settings) as client:
        slug = share(client, f"kind=run&run={run_id}")
        page = client.get(f"/s/{slug}", headers={"host": "bench.example"}).text
    assert f'content="http://bench.example/s/{slug}"' in page


def test_revoked_all_of_it_is_gone_at_once(client: TestClient, run_id: str, database: Database) -> None:
    slug = share(client, f"kind=run&run={run_id}")
    assert f"{BASE_URL}/s/{slug}" in client.get("/shares").text
    client.post(f"/shares/{slug}/revoke")
    for form in FORMS:
        answer = client.get(f"/s/{slug}{form}")
        assert answer.status_code == 404
        assert "revoked or never existed" in answer.text
    listed = client.get("/shares").text
    assert slug not in listed
    assert "1 revoked link" in listed
    assert client.post(f"/shares/{slug}/revoke").status_code == 404
    with database.read() as session:
        assert session.exec(select(Share)).one().snapshot == {}


def test_an_address_that_is_no_share_says_no_more_than_a_revoked_one(client: TestClient, run_id: str) -> None:
    slug = share(client, f"kind=run&run={run_id}")
    client.post(f"/shares/{slug}/revoke")
    assert client.get(f"/s/{slug}").text == client.get("/s/nonesuch").text
    assert client.get("/s/nonesuch.json").json() == {
        "error": {"message": "There is nothing at this address: the link was revoked or never existed."}
    }
    error = client.get("/s/nonesuch").text
    assert not re.search(r'href="/(?!static/)', error)


def test_a_share_stays_what_it_was(client: TestClient, run_id: str, database: Database) -> None:
    query = f"kind=run&run={run_id}&include=note&include=machine"
    slug = share(client, query)
    before = {form: client.get(f"/s/{slug}{form}").content for form in FORMS}
    with database.write() as session:
        annotations.edit_note(session, run_id, "changed")
        machines.edit_machine(session, "strix-halo", name="renamed", accelerators=[])
        session.delete(session.exec(select(Run).where(Run.public_id == run_id)).one())
    assert {form: client.get(f"/s/{slug}{form}").content for form in FORMS} == before


def test_a_share_of_another_version_says_so(client: TestClient, run_id: str, database: Database) -> None:
    slug = share(client, f"kind=run&run={run_id}")
    with database.write() as session:
        session.exec(select(Share)).one().schema_version = 9
    for form in FORMS:
        answer = client.get(f"/s/{slug}{form}")
        assert answer.status_code == 409
        assert "This share has version 9" in answer.text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 422),
        ("kind=everything", 422),
        ("kind=run", 422),
        ("kind=run&run=nonesuch", 404),
        ("kind=run&run={}&include=everything", 422),
        ("kind=comparison&run={}", 422),
        ("kind=comparison&run={}&run=nonesuch", 404),
        ("kind=explorer&y=nonesuch", 422),
        ("kind=explorer&y=decode_tokens_per_s&x=labels", 422),
        ("kind=ceiling&total=8", 422),
    ],
)
def test_what_cannot_be_shared_is_one_sentence(client: TestClient, run_id: str, query: str, status: int) -> None:
    for path in ("/shares/new", "/shares/new/card"):
        assert client.get(f"{path}?{query.format(run_id)}").status_code == status
    assert client.post("/shares", data=parse_qs(query.format(run_id))).status_code == status


def test_a_run_without_numbers_is_not_shared(client: TestClient, run_id: str, database: Database) -> None:
    with database.write() as session:
        first = session.exec(select(Run)).first()
        assert first is not None
        session.add(Run(**first.model_dump(exclude={"id", "public_id"}), public_id="empty"))
    answer = client.get("/shares/new?kind=run&run=empty")
    assert answer.status_code == 422
    assert "no result that could be shared" in answer.text


def test_a_run_of_a_suite_that_is_gone_is_shared_without_its_prompt(
    client: TestClient, run_id: str, database: Database
) -> None:
    with database.write() as session:
        session.exec(select(Run).where(Run.public_id == run_id)).one().suite_sha256 = "gone"
    assert "Prompt text" not in preview(client, f"kind=run&run={run_id}")


def test_two_runs_of_the_same_are_told_by_their_days(client: TestClient, run_id: str) -> None:
    slug = share(client, COMPARISON)
    page, markdown = client.get(f"/s/{slug}").text, client.get(f"/s/{slug}.md").text
    title = re.search(r"Qwen3-30B-A3B: (\d{4}-\d\d-\d\d) against (\d{4}-\d\d-\d\d)", page)
    assert title
    assert title[1] != title[2]
    assert page.count('class="value-bar') == 6
    for text in (page, markdown):
        assert f"{title[1]} against {title[2]}" in text


def test_points_with_several_streams_are_told_apart(client: TestClient, run_id: str, database: Database) -> None:
    made = [
        replace(made_sample(n, Workload(512, 128, 4), 450.0 + n, 50.0), round=n // 4, stream=n % 4) for n in range(12)
    ]
    alone = [made_sample(12 + n, Workload(512, 128), 300.0 + n, 60.0) for n in range(3)]
    several = add_run(database, [*made, *alone], suite_key="concurrency")
    slug = share(client, f"kind=run&run={several}")
    page = client.get(f"/s/{slug}").text
    assert "Several streams at once" in page
    assert "All metrics at 512 prompt tokens, 128 output tokens, 4 streams" in page
    (points,) = [table for table in client.get(f"/s/{slug}.json").json()["figures"] if table["title"] == "Points"]
    assert [column["title"] for column in points["columns"]][:3] == ["Prompt tokens", "Output tokens", "Streams"]
    assert [row[2] for row in points["rows"]] == [4, 1]


def test_long_tables_are_cut_on_the_page_and_whole_in_the_data(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=300, detailed=0)
    slug = share(client, "kind=explorer&y=decode_tokens_per_s&x=ttft_ms")
    page = client.get(f"/s/{slug}").text
    assert "The first 200 of 300 rows" in page
    assert len(client.get(f"/s/{slug}.json").json()["figures"][0]["rows"]) == 300


def test_runs_that_cannot_be_compared_say_so(client: TestClient, database: Database) -> None:
    with database.write() as session:
        ids = seed(session, runs=30)
    lengths, triple = ids[10], ids[11]
    page = client.get(f"/s/{share(client, f'kind=comparison&run={lengths}&run={triple}')}").text
    assert "They cannot be compared" in page
    assert lengths not in page


def test_the_explorer_names_machines_by_their_hardware(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=30)
    page = client.get(f"/s/{share(client, EXPLORER)}").text
    assert "2 × GeForce RTX 3090" in page
    assert "2×3090" not in page


def test_pages_have_a_button_to_share(client: TestClient, run_id: str) -> None:
    assert f'href="/shares/new?kind=run&amp;run={run_id}"' in client.get(f"/runs/{run_id}").text
    for page in (client.get("/compare?run=seed000002&run=seed000001").text, client.get("/explore").text):
        (link,) = re.findall(r'href="(/shares/new[^"]*)"', page)
        assert client.get(unescape(link)).status_code == 200
    page = client.get("/ceiling").text
    (link,) = re.findall(r'href="(/shares/new\?kind=ceiling[^"]*)"', page)
    assert "Ceiling: 8.03 B parameters at 4.85 bits on GeForce RTX 3090" in client.get(unescape(link)).text


def test_a_ceiling_of_a_device_of_ones_own_does_not_name_it(client: TestClient) -> None:
    device = {"name": "basement-box", "kind": "gpu", "memory": "24", "bandwidth": "900", "source": "Ann"}
    client.post("/machines/devices", data=device)
    slug = share(client, "kind=ceiling&device=basement-box&total=8&bits=8")
    for form in FORMS:
        assert b"basement" not in client.get(f"/s/{slug}{form}").content
    assert "Ceiling: 8.00 B parameters at 8.00 bits on an accelerator" in client.get(f"/s/{slug}").text


def test_a_snapshot_is_of_one_language(client: TestClient, database: Database) -> None:
    with database.write() as session:
        newest = seed(session, runs=6, detailed=1)[-1]
    address = f"/shares/new?kind=run&run={newest}"
    digests = {
        re.findall(r'name="digest" value="([^"]+)"', client.get(address, headers={"accept-language": tag}).text)[0]
        for tag in ("en", "zh-TW")
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("x", "include", "named"), [("labels", "labels", "Labels"), ("setting.rig", "flags", "Engine flags")]
)
def test_a_view_of_own_words_alone_can_be_shared_once_they_are_ticked(
    client: TestClient, database: Database, x: str, include: str, named: str
) -> None:
    with database.write() as session:
        for public_id in seed(session, runs=6, detailed=1):
            annotations.set_labels(session, public_id, ["garage"])
        for config in session.exec(select(Config)):
            config.settings = config.settings | {"rig": "garage"}
    query = f"kind=explorer&y=decode_tokens_per_s&x={x}"
    page = preview(client, query)
    assert "To share them, add: " in page
    assert named in page
    assert 'name="digest"' not in page
    assert client.post("/shares", data=fields(page)).status_code == 409  # asks again, and shares nothing
    slug = share(client, f"{query}&include={include}")
    assert "garage" in client.get(f"/s/{slug}.csv").text
