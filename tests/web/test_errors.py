"""Whatever goes wrong is one sentence in the right shape, and the traceback is in the log only."""

import logging

import pytest
from starlette.testclient import TestClient

from app.core.settings import Settings
from app.db import machines
from app.db.database import Database
from tests.web.conftest import browser


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(machines, "list_machines", fail)


@pytest.mark.usefixtures("broken")
def test_the_unexpected(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = client.get("/machines")
    assert answer.status_code == 500
    assert "An unexpected error occurred" in answer.text
    assert "secret detail" not in answer.text
    assert "Traceback" not in answer.text
    assert "secret detail" in caplog.text


@pytest.mark.usefixtures("broken")
def test_the_unexpected_as_a_fragment(client: TestClient) -> None:
    answer = client.get("/machines", headers={"hx-request": "true"})
    assert answer.status_code == 500
    assert "<html" not in answer.text
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nonesuch", 404), ("POST", "/history", 405)])
def test_addresses_that_are_none(client: TestClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert "Back to the overview" in answer.text


def test_every_address_keeps_the_sub_path(settings: Settings, database: Database) -> None:
    with browser(settings.model_copy(update={"root_path": "/roofmark"}), database) as client:
        for asked in ("/roofmark/machines", "/machines"):  # whether or not the proxy cuts it off
            page = client.get(asked).text
            assert 'href="/roofmark/machines/new"' in page
            assert 'src="/roofmark/static/js/app.js"' in page
            assert 'aria-current="page">Machines' in page
        answer = client.post("/machines", data={"name": "box"}, follow_redirects=False)
        assert answer.headers["location"] == "/roofmark/machines/box"
        assert client.get("/roofmark/static/css/app.css").status_code == 200
