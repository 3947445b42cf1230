"""A notebook with runs of every kind that a filter can tell apart, and what to ask of it."""

import random
from collections.abc import Iterator

from sqlmodel import Session, select

from app.db import annotations
from app.db.tables import Config, Machine, Model, Run, Server, now
from tests.remembered import remembered
from tests.seed import seed

STATES = ("done", "done", "done", "failed", "cancelled")
LABELS: tuple[list[str], ...] = ([], ["fast"], ["Fast", "night"], ["Übertaktet"], ["fast lane"])
NOTES = ("", "Fans at 80 %", "quiet ROOM")


@remembered
def add_notebook(session: Session) -> None:
    """Of some labels there are several spellings; some runs failed, are hidden or have no configuration yet."""
    public_ids = seed(session, runs=40, detailed=0)
    for config in session.exec(select(Config)).all()[::2]:
        config.labels = [*config.labels, "FAST"]
    for number, public_id in enumerate(public_ids):
        annotations.set_labels(session, public_id, LABELS[number % len(LABELS)])
        annotations.edit_note(session, public_id, NOTES[number % len(NOTES)])
        run = session.exec(select(Run).where(Run.public_id == public_id)).one()
        run.status = STATES[number % len(STATES)]
        run.hidden_at = now() if number % 7 == 3 else None
        if number % 13 == 5:
            run.status, run.config_id, run.started_at = "failed", None, None


def questions(session: Session) -> list[dict[str, str]]:
    """Parameters of an address: every value of every field, in several spellings, and forty of them together."""
    asked = [{name: text} for name, text in _single(session)]
    chance = random.Random(11)
    for _ in range(40):
        asked.append({name: text for part in chance.sample(asked[:-1], k=3) for name, text in part.items()})
    return [{}, *asked]


def _single(session: Session) -> Iterator[tuple[str, str]]:
    names = {
        "status": ["done", "FAILED", "cancelled"],
        "machine": session.exec(select(Machine.slug)).all(),
        "server": session.exec(select(Server.slug)).all(),
        "model": [*session.exec(select(Model.name).distinct()).all(), "qwen3-30b-a3b", "Qwen3"],
        "suite": ["triple", "Lengths"],
        "config": [fingerprint[:10] for fingerprint in session.exec(select(Config.fingerprint)).all()],
        "engine": ["llama.cpp", "OpenAI", "nonesuch"],
        "label": ["fast", "FAST", "night", "übertaktet", "ÜBERTAKTET", "fas", "fast lane"],
        "text": ["fans", "ROOM quiet", "q8_0", "fast", "seed000007", "llama", "ÜBERTAKTET", "nowhere"],
        "hidden": ["only", "without"],
        "since": ["2026-09-01"],
        "until": ["2026-09-15"],
    }
    for name, texts in names.items():
        for text in texts:
            yield name, text
