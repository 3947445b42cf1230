"""A share of each kind, in each form, holds nothing that a person, a server or a file wrote, unless it was ticked."""

from collections.abc import Callable
from functools import partial

import pytest
from sqlmodel import Session

from app.core.errors import BadInput
from app.core.settings import Settings
from app.db.database import Database
from app.db.devices import known_devices, list_devices
from app.results import explore
from app.share import Option, Snapshot, ceiling, comparison, explorer, links, run
from app.web.calculator import calculate
from app.web.forms import Fields
from app.web.templates import engine_titles
from tests.share.planted import plant, secret, secrets_in
from tests.web.notebook import pages

FORMS = ("", ".json", ".csv", ".md", ".html", ".png")
TICKED = {
    Option.NOTE: {"RunNote"},
    Option.LABELS: {"ConfigLabels", "RunLabels"},
    Option.MACHINE: {"MachineName"},
    Option.FLAGS: {"ConfigFlags", "ConfigOwn", "Setting", "Split", "Kv", "Flash"},
    Option.PROMPT: {"SuitePrompt"},
}
"""Which secrets each option makes public."""

Make = Callable[[Session, frozenset[Option]], Snapshot]


@pytest.fixture
def makes(database: Database) -> dict[str, Make]:
    """Each kind of share over a planted notebook."""
    single, another, several = plant(database)
    return {
        "run": lambda session, ticked: run.snapshot(session, single, ticked),
        "run of several points": lambda session, ticked: run.snapshot(session, several, ticked),
        "comparison": lambda session, ticked: comparison.snapshot(session, [single, another], ticked),
        "comparison of what cannot be compared": lambda session, _: comparison.snapshot(
            session, [several, single, f"config:{another}"]
        ),
        **{f"explorer by {x}": partial(_explorer, x) for x in EXPLORED},
        "ceiling": lambda session, _: _ceiling(session),
    }


EXPLORED = ("machine", "server", "suite", "model", "configuration", "setting.context", "started_at")
COMPARISONS = ("comparison", "comparison of what cannot be compared")
KINDS = ("run", "run of several points", *COMPARISONS, *(f"explorer by {x}" for x in EXPLORED), "ceiling")


def _explorer(x: str, session: Session, ticked: frozenset[Option]) -> Snapshot:
    return explorer.snapshot(session, {"y": "decode_tokens_per_s", "x": x, "series": "configuration"}, ticked)


def _ceiling(session: Session) -> Snapshot:
    """On a device of a person's own."""
    (device,) = list_devices(session)
    calculation = calculate(Fields([("device", device.name), ("total", "8"), ("bits", "8.5")]), known_devices(session))
    assert secrets_in(calculation.reports[0].device.name)
    return ceiling.snapshot(calculation.reports, calculation.curve)


def leaked_secrets(settings: Settings, database: Database, snapshot: Snapshot) -> set[str]:
    """The secrets in all public forms together."""
    with database.write() as session:
        slug = links.publish(session, snapshot)
    secrets: set[str] = set()
    with pages(settings) as client:
        for form in FORMS:
            answer = client.get(f"/s/{slug}{form}")
            assert answer.status_code == 200
            secrets |= secrets_in(answer.content.decode("utf-8", errors="replace") + str(answer.headers))
    return secrets


def test_the_secrets_are_there_to_be_found(database: Database) -> None:
    plant(database)
    with database.read() as session:
        dump = "".join(session.connection().connection.iterdump())
    secrets = secrets_in(dump)
    assert set().union(*TICKED.values()) <= secrets
    assert len(secrets) > 60


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_was_not_ticked_is_told(
    settings: Settings, database: Database, makes: dict[str, Make], kind: str
) -> None:
    with database.read() as session:
        snapshot = makes[kind](session, frozenset())
    assert leaked_secrets(settings, database, snapshot) == set()


@pytest.mark.parametrize("kind", ["run", "comparison"])
@pytest.mark.parametrize("option", Option)
def test_what_is_ticked_is_told_and_nothing_else(
    settings: Settings, database: Database, makes: dict[str, Make], kind: str, option: Option
) -> None:
    with database.read() as session:
        snapshot = makes[kind](session, frozenset({option}))
    assert leaked_secrets(settings, database, snapshot) == TICKED[option]


@pytest.mark.parametrize(
    ("x", "option", "shown"),
    [
        ("machine", Option.MACHINE, {"MachineName"}),
        ("labels", Option.LABELS, {"ConfigLabels", "RunLabels"}),
        (f"setting.{secret('setting')}", Option.FLAGS, {"ConfigOwn", "Setting"}),
        ("setting.split_mode", Option.FLAGS, {"Split"}),
        ("setting.flags", Option.FLAGS, {"ConfigFlags"}),
    ],
)
def test_what_a_view_of_the_explorer_shows_in_own_words_must_be_ticked(
    settings: Settings, database: Database, makes: dict[str, Make], x: str, option: Option, shown: set[str]
) -> None:
    parameters = {"y": "decode_tokens_per_s", "x": x, "series": "model"}
    with database.read() as session:
        snapshot = explorer.snapshot(session, parameters, frozenset({option}))
        assert [offer.option for offer in explorer.offers(session, parameters)] == [option]
        hidden = _public_words(lambda: explorer.snapshot(session, parameters))
    cut_short = {"R"}  # of a name that is too long for an axis
    assert leaked_secrets(settings, database, snapshot) - cut_short == shown
    assert secrets_in(hidden) == set()


def test_no_field_of_the_explorer_tells_more(database: Database) -> None:
    plant(database)
    with database.read() as session:
        for name in explore.explore(session, {}, engine_titles()).fields:
            for axes in ({"x": name, "series": "model"}, {"x": "model", "series": name}, {"x": "model", "y": name}):
                public_words = _public_words(lambda: explorer.snapshot(session, {"y": "decode_tokens_per_s", **axes}))  # noqa: B023  # called at once
                assert secrets_in(public_words) == set(), name


def _public_words(make: Callable[[], Snapshot]) -> str:
    """Of a snapshot, or of the sentence why there is none."""
    try:
        return str(make().to_json())
    except BadInput as error:
        return str(error)
