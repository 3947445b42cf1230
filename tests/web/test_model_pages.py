"""Models: what each reads for a token, and the ways of telling it from a run's page and back."""

import json
import os
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlmodel import select

from app.db.database import Database
from app.db.tables import Model, StatedGeometry
from tests.ceiling.files import SMALL, dense, write_gguf
from tests.ceiling.models import MODELS
from tests.web.notebook import read, text_of

QWEN = json.dumps(MODELS["Qwen3-30B-A3B"])


@pytest.fixture
def unknown(database: Database, run: str) -> str:
    """The same run of a server that tells only totals."""
    with database.write() as session:
        model = session.get_one(Model, 1)
        model.geometry = {"parameters": 30_532_000_000, "size_bytes": 32_440_000_000}
        session.add(model)
    return run


def ask(client: TestClient, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status
    return text_of(answer.text)


def tell(client: TestClient, status: int = 303, **fields: str) -> str:
    answer = client.post("/models/1", data=fields, follow_redirects=False)
    assert answer.status_code == status, answer.text
    return text_of(answer.text) if status != 303 else answer.headers["location"]


def stated(database: Database) -> StatedGeometry | None:
    with database.read() as session:
        return session.exec(select(StatedGeometry)).first()


def test_the_list_says_bytes_and_source(client: TestClient, run: str) -> None:
    text = ask(client, "/models/weights")
    assert "Qwen3-30B-A3B Q8_0 3.23 GB 98.3 kB 1 from its config.json" in text
    assert 'aria-current="page">Models</a>' in client.get("/models/1").text


def test_nothing_measured_yet(client: TestClient) -> None:
    assert "No model was measured yet." in ask(client, "/models/weights")


def test_a_model_in_words_and_by_role(client: TestClient, run: str) -> None:
    text = ask(client, "/models/1")
    assert "30.5 B, 3.04 B active" in text
    assert "8 of 128 for each token" in text
    assert "48 see the whole context, 512 + 512 values per token" in text
    assert "Routed experts 29.0 30.8 GB 6.25 % 1.93 GB" in text
    assert "All 30.5 32.4 GB 9.96 % 3.23 GB" in text
    assert re.search(r"Radeon 8060S on strix-halo 256 79.2 [\d.]+ [\d,]+ from the catalogue", text)
    assert "RTX 3090 on 2×3090 holds 24.0 GB: the model does not fit" in text


def test_no_such_model(client: TestClient, run: str) -> None:
    assert "There is no model 7." in ask(client, "/models/7", 404)
    assert client.get("/models/seven").status_code in (404, 422)


def test_from_a_run_to_the_form_and_back(client: TestClient, unknown: str) -> None:
    page = client.get(f"/runs/{unknown}").text
    assert "The bytes the model reads per token are unknown" in text_of(page)
    link = re.search(r'href="(/models/1\?back=[^"]+)#tell">Add model details<', page)
    assert link is not None
    form = client.get(link[1]).text
    assert f'name="back" value="/runs/{unknown}#ceiling-title"' in form
    assert 'name="total" type="text" value="30.532"' in form
    assert re.search(r'name="bits"[^>]*value="8.5"', form)
    to = tell(client, way="figures", total="30.532", active="3.04", bits="8.5", back=f"/runs/{unknown}#ceiling-title")
    assert to == f"/runs/{unknown}#ceiling-title"
    text = read(client, unknown)
    assert re.search(r"Decode ceiling 79\.\d tok/s .* = 256 GB/s / 3.23 GB", text)
    assert re.search(r"the model as typed, stated on \d{4}-\d\d-\d\d", text)


@pytest.mark.parametrize(
    "back", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", ""]
)
def test_the_way_back_leads_to_this_site_only(client: TestClient, unknown: str, back: str) -> None:
    assert tell(client, way="figures", total="8", bits="8", back=back) == "/models/1"
    page = client.get("/models/1", params={"back": back}).text
    assert not re.search(r'(href|action)="[^"]*evil', page)


def test_a_config_as_a_file_or_a_text_stays_to_be_corrected(
    client: TestClient, database: Database, unknown: str
) -> None:
    upload = client.post(
        "/models/1",
        data={"way": "config", "text": "", "bits": "Q4_K_M"},
        files={"file": ("config.json", QWEN, "application/json")},
        follow_redirects=False,
    )
    assert upload.status_code == 303
    first = stated(database)
    assert first is not None
    assert first.form == {"way": "config", "text": QWEN, "bits": "Q4_K_M"}
    assert "1.84 GB" in ask(client, "/models/weights")
    assert "qwen3_moe" in client.get("/models/1").text
    assert re.search(r'name="bits"[^>]*value="Q4_K_M"', client.get("/models/1").text)
    tell(client, way="config", text=QWEN, bits="8.5")
    assert "3.23 GB 98.3 kB 1 from its config.json, stated on" in ask(client, "/models/weights")


def test_it_can_be_taken_back(client: TestClient, unknown: str) -> None:
    tell(client, way="figures", total="8", bits="8")
    assert "Stated on" in ask(client, "/models/1")
    assert client.post("/models/1/take-back", follow_redirects=False).headers["location"] == "/models/1"
    assert "so its runs have no ceiling" in ask(client, "/models/1")
    assert client.post("/models/1/take-back").status_code == 404


def test_what_a_server_tells_counts_before_a_guess(client: TestClient, run: str) -> None:
    tell(client, way="figures", total="8", bits="8")
    text = ask(client, "/models/1")
    assert "The server's report takes precedence over it." in text
    assert "30.5 B, 3.04 B active" in text


def test_a_gguf_file_on_this_machine(client: TestClient, unknown: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "llama", SMALL, dense())
    tell(client, way="gguf", path=f" {path} ")
    text = ask(client, "/models/1")
    assert "read from the model's GGUF file, stated on" in text
    assert "861 kB" in text
    assert f"the file {path}" in text


def test_a_path_is_opened_only_when_it_is_sent(client: TestClient, unknown: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "llama", SMALL, dense())
    asked = {"way": "gguf", "path": str(path), "bandwidth": "100"}
    assert "861 kB" not in client.get("/models/1", params=asked).text
    assert client.get("/ceiling", params=asked).status_code == 422


def test_paths_that_are_no_gguf_file(client: TestClient, database: Database, unknown: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("GGU, but a secret")
    (tmp_path / "empty.gguf").touch()
    os.mkfifo(tmp_path / "pipe.gguf")
    for path, text in (
        (str(secret), "secret.txt is not a valid GGUF file: it does not begin with the letters GGUF."),
        (str(tmp_path), "is not a file."),
        (str(tmp_path / "pipe.gguf"), "pipe.gguf is not a file."),
        (str(tmp_path / "absent.gguf"), "There is no file absent.gguf at that path"),
        ("models/m.gguf", "Enter the full path"),
        ("/dev/zero", "zero is not a file."),
        (str(tmp_path / "empty.gguf"), "empty.gguf is not a valid GGUF file: it does not begin with the letters GGUF."),
        (f"/{'x' * 5000}", "cannot be read: File name too long."),
        ("/nul\0byte", "Enter the full path"),
        ("", "Enter the full path"),
    ):
        page = tell(client, 422, way="gguf", path=path)
        assert text in page, path
        assert "but a secret" not in page
    assert stated(database) is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"way": "config", "text": "{"}, "This is not valid JSON"),
        ({"way": "config", "text": ""}, "This is not valid JSON"),
        ({"way": "config", "text": "[" * 200_000}, "This is not valid JSON"),
        ({"way": "config", "text": " " * 300_000}, "It is larger than any config.json."),
        ({"way": "config", "text": '{"a": 1}'}, "This is not the config.json of a language model"),
        ({"way": "config", "text": QWEN, "bits": "many"}, "Bits per weight must be a number"),
        ({"way": "figures", "total": "8"}, "Bits per weight are missing"),
        ({"way": "figures", "total": "8", "active": "9", "bits": "4"}, "Active parameters must be"),
        ({}, "Type the model's parameters"),
    ],
)
def test_what_makes_no_sense_is_one_sentence_and_stays(
    client: TestClient, unknown: str, fields: dict[str, str], text: str
) -> None:
    assert text in tell(client, 422, **fields)


def test_an_upload_is_bounded(client: TestClient, unknown: str) -> None:
    for content, text in ((b" " * 3_000_000, "larger than any config.json"), (b"\xff\xfe" * 99, "not valid JSON")):
        answer = client.post("/models/1", data={"way": "config"}, files={"file": ("c.json", content)})
        assert answer.status_code == 422
        assert text in text_of(answer.text)


def test_a_quantization_that_is_unknown_asks_for_its_bits(client: TestClient, unknown: str) -> None:
    config = json.dumps({**MODELS["Llama-3.1-8B"], "quantization_config": {"quant_method": "new"}})
    assert "enter the bits per weight too" in tell(client, 422, way="config", text=config)
    tell(client, way="config", text=config, bits="4.5")
