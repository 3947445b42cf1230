"""What a person wrote is never translated, even if it is a message of Roofmark, or holds one."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from sqlmodel import select
from starlette.testclient import TestClient

from app.core import files, i18n
from app.core.settings import Settings
from app.db import annotations, shares, suites
from app.db.database import Database
from app.db.migrate import migrate
from app.db.tables import Config, Device, Machine, Model, Run, Server
from app.share import links, options, run
from tests.everywhere import addresses, compared, explored, newest_done
from tests.many import add_many
from tests.web.conftest import browser
from tests.web.notebook import text_of

CHINESE = {"accept-language": "zh-TW"}
WORDS = "power brake"
"""A message that no page of this notebook says by itself."""
OWN = f"undervolted, {WORDS}"
HIDDEN = f"{WORDS}."


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    settings = Settings(data_dir=Path(tmp_path_factory.mktemp("own")), sensors=False)
    database = Database(settings.effective_database_url)
    migrate(database, files.MIGRATIONS)
    _fill(database)
    with browser(settings, database) as client:
        yield client
    database.dispose()


def _fill(database: Database) -> None:
    """Every field that is a person's own, and every name that their server gave."""
    with database.write() as session:
        add_many(session, 40)
        for machine in session.exec(select(Machine)):
            machine.name, machine.notes, machine.cpu = f"{WORDS} {machine.id}", OWN, WORDS
        for server in session.exec(select(Server)):
            server.name, server.settings, server.labels = f"{WORDS} {server.id}", {WORDS: WORDS}, [WORDS]
        for place, config in enumerate(session.exec(select(Config))):
            config.note, config.labels = OWN, [WORDS]
            config.settings = {**config.settings, WORDS: f"{WORDS} {place % 2}", "on": "on"}
        for place, model in enumerate(session.exec(select(Model))):
            model.name = f"{WORDS} {place}"
        for row in session.exec(select(Run)):
            row.note, row.labels = OWN, [WORDS, OWN.replace(",", ";")]
        suites.save_suite(session, WORDS, {"prompt": WORDS, "output_tokens": 8})
        session.add(Device(name=WORDS, bandwidth_bytes_per_s=1e11, source=WORDS))
        newest = newest_done(session, 3)
        shared = run.snapshot(session, newest[0], options.parse_options(["note", "labels", "machine"]))
        links.publish(session, links.with_title(shared, WORDS))
        annotations.hide(session, newest[2], HIDDEN)


def _paths(client: TestClient) -> dict[str, str]:
    database = client.app.state.database  # type: ignore[attr-defined]  # it is a FastAPI
    with database.read() as session:
        newest = newest_done(session, 2)
        hidden = session.exec(select(Run.public_id).where(Run.hidden_reason != "")).one()
        share = shares.list_shares(session)[0].slug
        own = [("kind", "run"), ("run", newest[0]), *(("include", option) for option in ("note", "labels", "machine"))]
        setting = f"setting.{WORDS}"
        return addresses(session, share) | {
            "hidden run": f"/runs/{hidden}",
            "hidden runs": "/runs?hidden=only",
            "history by a setting": f"/history?{urlencode({'by': WORDS})}",
            "explore by label": explored("decode_tokens_per_s", "labels", setting),
            "explore by setting": explored("decode_tokens_per_s", setting, "machine"),
            "compare": compared(newest),
            "own suite": f"/suites/{WORDS.replace(' ', '-')}",
            "new run": "/runs/new",
            "shares, new": f"/shares/new?{urlencode(own)}",
        }


def test_no_page_translates_it(client: TestClient) -> None:
    with i18n.use("zh-Hant"):
        translation = i18n.gettext(WORDS)
    assert translation != WORDS
    pages = {name: client.get(path, headers=CHINESE) for name, path in _paths(client).items()}
    assert {name: page.status_code for name, page in pages.items() if page.status_code != 200} == {}
    assert [name for name, page in pages.items() if translation in page.text] == []
    for name in ("runs", "run", "hidden run", "compare", "share", "history by a setting", "suites", "devices"):
        assert WORDS in pages[name].text, name


def test_a_usual_reason_is_a_message_and_any_other_is_not(client: TestClient) -> None:
    database = client.app.state.database  # type: ignore[attr-defined]  # it is a FastAPI
    with database.read() as session:
        public_id = newest_done(session, 1)[0]
    client.post(f"/runs/{public_id}/hide", data={"reason": "只是試試看。"}, headers=CHINESE)
    assert "It was only a trial." in text_of(client.get(f"/runs/{public_id}").text)
    assert "只是試試看。" in text_of(client.get(f"/runs/{public_id}", headers=CHINESE).text)
    client.post(f"/runs/{public_id}/hide", data={"reason": HIDDEN}, headers=CHINESE)
    assert HIDDEN in text_of(client.get(f"/runs/{public_id}", headers=CHINESE).text)
    client.post(f"/runs/{public_id}/unhide", headers=CHINESE)
