import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.core.secrets import Secrets
from app.core.settings import Settings
from app.db import machines, servers
from app.db.database import Database
from app.db.tables import Server
from tests.engines.ollama_server import OllamaModel, OllamaServer
from tests.ports import free_port
from tests.replay import Replay, Script, serve
from tests.web.conftest import API_KEY

HTMX = {"hx-request": "true", "hx-request-type": "partial"}


def stored(database: Database, slug: str) -> Server:
    with database.read() as session:
        return servers.server(session, slug)


def form(url: str, **more: str) -> dict[str, str]:
    return {"base_url": url, "name": "box", "machine": "@here", "engine": ""} | more


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_probe_fills_the_form(client: TestClient, llama: Replay, headers: dict[str, str]) -> None:
    answer = client.post("/servers/probe", data={"base_url": f"{llama.url}/v1/"}, headers=headers)
    assert answer.status_code == 200
    assert "llama.cpp b11434-sdist11434" in answer.text
    assert "Q4_K_M · context 4,096 tokens" in answer.text
    assert f'value="llama.cpp {llama.url.removeprefix("http://")}"' in answer.text
    assert ("<html" in answer.text) == (not headers)


def test_another_url_is_probed_afresh(client: TestClient, llama: Replay) -> None:
    with serve({"/v1/models": Script.json({"data": [{"id": "tiny"}]})}) as other_server:
        before = {"name": "llama.cpp host", "suggested_name": "llama.cpp host", "engine": "llama.cpp"}
        answer = client.post("/servers/probe", data={"base_url": other_server.url, **before}, headers=HTMX)
        assert f'value="OpenAI-compatible {other_server.url.removeprefix("http://")}"' in answer.text
        typed = client.post(
            "/servers/probe", data={"base_url": other_server.url, **before, "name": "mine"}, headers=HTMX
        )
        assert 'name="name" type="text" value="mine"' in typed.text


def test_a_failed_probe_says_why_and_leaves_room_to_type(client: TestClient) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    answer = client.post("/servers/probe", data={"base_url": url}, headers=HTMX)
    assert answer.status_code == 200
    assert "the connection was refused" in answer.text
    assert 'name="setting_cards"' in answer.text
    assert client.post("/servers/probe", data={"base_url": url}).status_code == 502


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (Script.text("<html><body>It works!</body></html>", content_type="text/html"), "An HTML page came back"),
        (Script.json({"error": "Unauthorized"}, status=401), "key"),
    ],
)
def test_other_servers_are_told_apart(client: TestClient, script: Script, text: str) -> None:
    paths = ("/", "/props", "/v1/models", "/health", "/api/version", "/version")
    with serve(dict.fromkeys(paths, script)) as replay:
        answer = client.post("/servers/probe", data={"base_url": replay.url}, headers=HTMX)
    assert text in answer.text


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://user:pw@host", "http://host:99999", "http://a b"])
def test_what_is_no_url_is_one_sentence(client: TestClient, url: str) -> None:
    for path in ("/servers/probe", "/servers"):
        answer = client.post(path, data=form(url))
        assert answer.status_code == 422
        assert 'role="alert"' in answer.text


def test_a_server_is_added_with_what_its_probe_found(client: TestClient, database: Database, llama: Replay) -> None:
    text = form(llama.url, setting_cards="2", setting_kv_type_k="q8_0", setting_flags=" ", labels="night, new,")
    answer = client.post("/servers", data=text, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/servers/box")
    server = stored(database, "box")
    assert (server.engine, server.facts["engine_version"]) == ("llama.cpp", "b11434-sdist11434")
    assert (server.settings, server.labels) == ({"cards": 2, "kv_type_k": "q8_0"}, ["night", "new"])
    with database.read() as session:  # the form's choice "this machine"
        assert len(machines.list_machines(session)) == 1
    page = client.get("/servers/box").text
    assert "4,096 tokens" in page
    assert "q8_0" in page


def test_a_log_file_is_kept_with_the_server_and_in_no_configuration(
    client: TestClient, database: Database, llama: Replay
) -> None:
    client.post("/servers", data=form(llama.url, log_path="/var/log/llama.log"))
    server = stored(database, "box")
    assert (server.log_path, server.settings) == ("/var/log/llama.log", {})
    assert "/var/log/llama.log" in client.get("/servers/box").text
    assert 'value="/var/log/llama.log"' in client.get("/servers/box/edit").text
    wrong = client.post("/servers/box", data=form(llama.url, log_path="llama.log"))
    assert (wrong.status_code, "needs its full path" in wrong.text) == (422, True)
    client.post("/servers/box", data=form(llama.url))
    assert stored(database, "box").log_path is None


def test_a_server_that_is_down_is_added_all_the_same(client: TestClient, database: Database) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    answer = client.post("/servers", data=form(url, engine="llama.cpp", setting_quantization="Q8_0"))
    assert "the server did not answer" in answer.text
    server = stored(database, "box")
    assert (server.engine, server.facts, server.settings) == ("llama.cpp", {}, {"quantization": "Q8_0"})


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": ""}, "The name is missing."),
        ({"setting_cards": "two"}, "GPUs must be a whole number"),
        ({"engine": "magic"}, "There is no engine"),
    ],
)
def test_nothing_is_stored_of_a_form_that_makes_no_sense(
    client: TestClient, database: Database, wrong: dict[str, str], sentence: str
) -> None:
    answer = client.post("/servers", data=form("http://127.0.0.1:9", labels="kept") | wrong)
    assert answer.status_code == 422
    assert sentence in answer.text
    assert 'value="kept"' in answer.text
    with database.read() as session:
        assert not servers.list_servers(session)
        assert not machines.list_machines(session)


def test_an_api_key_is_kept_replaced_and_removed_and_stays_with_its_address(
    client: TestClient, settings: Settings, database: Database, llama: Replay
) -> None:
    def key() -> str | None:
        encrypted = stored(database, "box").api_key_encrypted
        return Secrets(settings).decrypt(encrypted) if encrypted else None

    client.post("/servers", data=form(llama.url, api_key=API_KEY))
    assert key() == API_KEY
    assert llama.requests[-1].headers["authorization"] == f"Bearer {API_KEY}"
    page = client.get("/servers/box/edit").text
    assert "(set)" in page
    same: dict[str, Any] = form(llama.url, machine=machine_slug(database))
    client.post("/servers/box", data=same)
    assert key() == API_KEY
    client.post("/servers/box", data=same | {"api_key": "another"})
    assert key() == "another"
    with serve({}) as elsewhere:
        client.post("/servers/box", data=same | {"base_url": elsewhere.url})
        assert key() is None
        assert all("authorization" not in request.headers for request in elsewhere.requests)
    client.post("/servers/box", data=same | {"api_key": API_KEY})
    client.post("/servers/box", data=same | {"remove_key": "yes"})
    assert key() is None


def machine_slug(database: Database) -> str:
    with database.read() as session:
        return machines.list_machines(session)[0].slug


def test_one_press_measures(client: TestClient, server: str) -> None:
    page = client.get(f"/servers/{server}").text
    form = page.partition('action="/runs"')[2].partition("</form>")[0]
    values = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    assert values == {"server": server, "suite": "triple"}
    assert client.post("/runs", data=values, follow_redirects=False).status_code == 303


def test_settings_that_came_from_elsewhere_are_shown_and_kept(
    client: TestClient, database: Database, server: str
) -> None:
    with database.write() as session:
        servers.edit_server(session, server, settings={"threads": 8, "tensor_split": "3,1", "cards": 2})
    page = client.get(f"/servers/{server}/edit").text
    assert 'name="setting_threads" type="text" value="8"' in page
    assert 'name="setting_tensor_split" type="text" value="3,1"' in page
    change = form("http://127.0.0.1:9", machine="strix-halo", setting_cards="", setting_threads="6")
    client.post(f"/servers/{server}", data=change)
    assert stored(database, server).settings == {"threads": 6, "tensor_split": "3,1"}


def test_a_known_server_is_probed_again(client: TestClient, database: Database, llama: Replay) -> None:
    client.post("/servers", data=form(f"http://127.0.0.1:{free_port()}", engine="llama.cpp"))
    with database.write() as session:
        servers.edit_server(session, "box", base_url=llama.url)
    assert client.post("/servers/box/probe").status_code == 200
    assert stored(database, "box").facts["context_tokens"] == 4096


def test_a_probe_that_fails_changes_nothing(client: TestClient, database: Database, server: str) -> None:
    before = stored(database, server).facts
    answer = client.post(f"/servers/{server}/probe")
    assert answer.status_code == 502
    assert f'action="/servers/{server}/probe"' in answer.text
    text = answer.text.partition('role="alert"><p>')[2].partition("</p>")[0]
    assert text.count(".") - text.count("127.0.0.1") * 3 == 1, "the first sentence alone; advice is smaller"
    assert stored(database, server).facts == before


def test_archiving_asks_first_and_says_what_goes_with_it(client: TestClient, server: str) -> None:
    assert f'href="/servers/{server}/archive"' in client.get(f"/servers/{server}").text
    asked = client.get(f"/servers/{server}/archive").text
    assert "It has no runs." in asked
    client.post("/runs", data={"server": server, "suite": "triple"})
    assert "Its run stays" in client.get(f"/servers/{server}/archive").text
    assert "Archived" not in client.get(f"/servers/{server}").text


def test_a_wrong_field_loses_nothing_and_is_pointed_at(client: TestClient, llama: Replay) -> None:
    typed = form(llama.url, suggested_name="llama.cpp there", setting_cards="two", engine="llama.cpp")
    page = client.post("/servers", data=typed).text
    assert 'id="setting_cards" name="setting_cards" type="text" value="two" aria-invalid="true" autofocus' in page
    assert "answers." in page
    assert "(cards)" not in page


def test_usual_values_are_suggested(client: TestClient, llama: Replay) -> None:
    page = client.post("/servers/probe", data=form(llama.url)).text
    assert 'list="setting_kv_type_k-options"' in page
    assert '<option value="q8_0">' in page


def test_an_archived_server_cannot_be_measured(client: TestClient, server: str) -> None:
    client.post(f"/servers/{server}/archive")
    assert server not in client.get("/runs/new").text
    answer = client.post("/runs", data={"server": server, "suite": "triple"})
    assert answer.status_code == 409
    assert "archived" in answer.text
    client.post(f"/servers/{server}/restore")
    assert client.post("/runs", data={"server": server, "suite": "triple"}).status_code == 200


def test_discovery_offers_what_answers_here(client: TestClient, llama: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    from app import engines

    monkeypatch.setattr(engines, "_MORE_PORTS", (int(llama.url.rpartition(":")[2]),))
    answer = client.get("/servers/discover", headers=HTMX)
    assert llama.url in answer.text
    assert "/servers/new?url=http%3A//127.0.0.1" in answer.text
    client.post("/servers", data=form(llama.url))
    assert "Added as box" in client.get("/servers/discover").text


def test_a_form_lists_engines_by_their_titles_and_the_general_one_last(client: TestClient, llama: Replay) -> None:
    page = client.post("/servers/probe", data={"base_url": llama.url}).text
    choices = re.search(r'<select id="engine".*?</select>', page, re.DOTALL)
    assert choices is not None
    titles = re.findall(r"<option[^>]*>([^<]+)</option>", choices[0])[1:]
    assert titles[:-1] == sorted(titles[:-1], key=str.lower)
    assert titles[-1] == "OpenAI-compatible"


def test_what_is_stated_of_a_model_stands_on_its_servers_page(client: TestClient, database: Database) -> None:
    half = OllamaModel("half:latest", gpu_share=0.5)
    ollama = OllamaServer([OllamaModel("small:latest"), half])
    ollama.load("half:latest", 4096)
    with serve(ollama.routes) as replay:
        probed = client.post("/servers/probe", data={"base_url": replay.url}, headers=HTMX)
        client.post("/servers", data=form(replay.url, name="ollama"))
    assert "Ollama holds 50 % of half in GPU memory" in probed.text
    with database.write() as session:
        server = servers.server(session, "ollama")
        assert server.id is not None
        servers.remember(session, server.id, settings={"context": 8192, "cards": 1}, model_id="small:latest")
    page = client.get("/servers/ollama").text
    assert re.search(r"small:latest.*?stated by you.*?Context 8,192, GPUs 1", page, re.DOTALL)
