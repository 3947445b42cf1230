"""Notifications, sent by Apprise to a real receiver on this machine."""

import json
import logging
import re
from collections.abc import Iterator

import pytest

from app.core.errors import BadInput
from app.core.settings import Settings
from app.db import baselines
from app.db.database import Database
from app.measure import notify
from app.measure.runner import Runner
from tests.compare.runs import calm_history, place, timed
from tests.compare.runs import run as add_run
from tests.ports import free_port
from tests.replay import Replay, Script, case, serve
from tests.runner.conftest import add_server, run_named
from tests.runner.listeners import silent

# Apprise imports it for the encryption of mails
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise imports it

MODELS = {"/v1/models": Script.json({"object": "list", "data": [{"id": "syn-1", "object": "model"}]})}
SECRET = "hook-that-nobody-may-see"


@pytest.fixture
def receiver() -> Iterator[Replay]:
    with serve({f"/{SECRET}": Script.json({})}) as replay:
        yield replay


def with_urls(settings: Settings, *urls: str) -> Settings:
    return settings.model_copy(update={"notify_urls": Settings(notify_urls=" ".join(urls)).notify_urls})


def address(receiver: Replay) -> str:
    return f"{receiver.url.replace('http://', 'json://')}/{SECRET}"


def perform(database: Database, settings: Settings, base_url: str) -> str:
    slug = add_server(database, base_url, "openai")
    return Runner(database, settings).perform(slug, "triple", silent, repetitions=1, warmups=0)


def nobody() -> str:
    return f"http://127.0.0.1:{free_port()}"


def test_a_failed_run_is_told(database: Database, settings: Settings, receiver: Replay) -> None:
    public_id = perform(database, with_urls(settings, address(receiver)), nobody())
    run = run_named(database, public_id)
    assert run.status == "failed"
    (request,) = receiver.requests
    message = json.loads(request.body)
    assert message["title"] == "Roofmark: Suite triple failed"
    assert message["message"] == f"{run.error}\nSuite triple on server, machine box; run {public_id}."
    assert "warnings" not in run.evidence


def test_a_run_that_went_well_is_not(database: Database, settings: Settings, receiver: Replay) -> None:
    with serve({"/v1/chat/completions": case("S11"), **MODELS}) as server:
        public_id = perform(database, with_urls(settings, address(receiver)), server.url)
    assert run_named(database, public_id).status == "done"
    assert receiver.requests == []


def test_a_run_that_is_worse_than_its_baseline_is_told(
    database: Database, settings: Settings, receiver: Replay
) -> None:
    q8, _ = place(database)
    calm_history(database, q8)
    speeds = [(500, 50), (500, 50), (450, 55), (500, 46)]
    ids = [add_run(database, q8, timed(*speed), hours=n) for n, speed in enumerate(speeds)]
    with database.write() as session:
        baselines.pin(session, ids[0])
    for public_id in ids:
        notify.notify_run_ended(database, with_urls(settings, address(receiver)), public_id)
    (request,) = receiver.requests  # the others are the baseline, the same, and better
    message = json.loads(request.body)
    assert message["title"] == "Roofmark: Qwen3-8B Q8_0 is worse than its baseline"
    assert re.match(rf"Beside the baseline {ids[0]}: decode [78]\.\d % slower \(95 % interval −", message["message"])
    assert f"run {ids[3]}." in message["message"]


def test_a_wrong_run_is_told_with_what_can_be_done(database: Database, settings: Settings, receiver: Replay) -> None:
    q8, _ = place(database)
    calm_history(database, q8)
    wrong = add_run(database, q8, timed(500, 27.5))
    usual = add_run(database, q8, timed(500, 50), hours=1)
    for public_id in (usual, wrong):
        notify.notify_run_ended(database, with_urls(settings, address(receiver)), public_id)
    (request,) = receiver.requests
    message = json.loads(request.body)
    assert message["title"] == "Roofmark: Qwen3-8B Q8_0: decode 45 % below the other runs"
    assert message["message"].startswith("Decode 45 % below the other runs of this configuration.\nDecode: ")
    assert f"Run it again to be sure, or leave it out: `roofmark hide {wrong} --reason WHY`." in message["message"]
    assert message["message"].endswith(f"run {wrong}.")


def test_nobody_is_told_unless_somebody_is_named(database: Database, settings: Settings, receiver: Replay) -> None:
    perform(database, settings, nobody())
    assert receiver.requests == []


def test_a_receiver_that_is_down_fails_nothing_and_is_noted(
    database: Database, settings: Settings, receiver: Replay, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are told all the same, and no address is written anywhere."""
    dead = f"json://127.0.0.1:{free_port()}/{SECRET}"
    caplog.set_level(logging.DEBUG)
    public_id = perform(database, with_urls(settings, dead, address(receiver)), nobody())
    run = run_named(database, public_id)
    assert len(receiver.requests) == 1
    assert run.evidence["warnings"] == ["The notification did not get through to JSON."]
    assert run.error is not None
    assert "notification" not in run.error
    assert "did not get through" in caplog.text
    assert SECRET not in caplog.text


def test_an_address_that_is_none_is_said_without_it(database: Database, settings: Settings) -> None:
    wrong = with_urls(settings, f"nonsense-{SECRET}")
    with pytest.raises(BadInput) as caught:
        notify.services(wrong)
    assert SECRET not in str(caught.value)
    public_id = perform(database, wrong, nobody())
    assert run_named(database, public_id).evidence["warnings"] == [str(caught.value)]


def test_the_addresses_stay_secret(settings: Settings, receiver: Replay) -> None:
    configured = with_urls(settings, address(receiver), "tgram://123456789:abcdefg_hijklmnop/12315544/")
    assert [notify.service_name(service) for service in notify.services(configured)] == ["JSON", "Telegram"]
    assert SECRET not in repr(configured)
    assert SECRET in configured.to_env()["ROOFMARK_NOTIFY_URLS"]  # a worker needs it
