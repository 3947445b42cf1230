"""Notes and labels that a person writes on a run or a configuration, and runs that they hide from the statistics."""

from collections.abc import Iterable

from sqlmodel import Session

from app.core.errors import BadInput
from app.core.i18n import N_, _
from app.db import runs
from app.db.configs import config
from app.db.tables import Config, Run, now

MAX_REASON_CHARS = 500
MAX_LABELS = 20
MAX_LABEL_CHARS = 60

REASONS = (
    N_("Something else was running on the machine."),
    N_("The server was not set up as the configuration says."),
    N_("It was only a trial."),
)
"""Usual reasons for hiding a run, stored as messages; any other sentence does as well, and stays as it is."""


def edit_note(session: Session, public_id: str, note: str) -> Run:
    """Replaces a run's note. Raises NotFound, and BadInput for a note that is too long."""
    run = runs.run(session, public_id)
    run.note = runs.checked_note(note)
    session.add(run)
    return run


def edit_config_note(session: Session, fingerprint: str, server_slug: str, note: str) -> Config:
    """Replaces a configuration's note, which is no part of its fingerprint. Raises NotFound, BadInput."""
    frozen = config(session, fingerprint, server_slug)
    frozen.note = runs.checked_note(note)
    session.add(frozen)
    return frozen


def set_labels(session: Session, public_id: str, labels: Iterable[str]) -> Run:
    """Replaces a run's own labels; those of its configuration are frozen. Raises NotFound, BadInput."""
    run = runs.run(session, public_id)
    run.labels = clean_labels(labels)
    session.add(run)
    return run


def clean_labels(labels: Iterable[str]) -> list[str]:
    """Returns the distinct labels in the order given, without blanks around them. Raises BadInput.

    >>> clean_labels([" night ", "", "fans 80 %", "night"])
    ['night', 'fans 80 %']
    """
    cleaned = list(dict.fromkeys(label for raw in labels if (label := " ".join(raw.split()))))
    for label in cleaned:
        if len(label) > MAX_LABEL_CHARS:
            raise BadInput(
                _(
                    "The label {label!r}... is longer than {most} characters.",
                    label=label[:MAX_LABEL_CHARS],
                    most=MAX_LABEL_CHARS,
                )
            )
        if "," in label:
            raise BadInput(_("The label {label!r} contains a comma, which separates labels.", label=label))
    if len(cleaned) > MAX_LABELS:
        raise BadInput(_("A run has at most {most} labels.", most=MAX_LABELS))
    return cleaned


def hide(session: Session, public_id: str, reason: str) -> Run:
    """Take a run out of histories and statistics, with a reason that everybody can read. Raises NotFound, and BadInput
    without a reason."""
    reason = reason if reason == reason.strip() else reason.strip()  # a message stays one
    if not reason:
        raise BadInput(_("Enter the reason for hiding the run: it is shown with the run."))
    if len(reason) > MAX_REASON_CHARS:
        raise BadInput(_("The reason is longer than {most} characters.", most=MAX_REASON_CHARS))
    run = runs.run(session, public_id)
    usual = next((_(text) for text in REASONS if reason in (text, _(text))), reason)
    run.hidden_at, run.hidden_reason = run.hidden_at or now(), usual
    session.add(run)
    return run


def unhide(session: Session, public_id: str) -> Run:
    """Bring a hidden run back into histories and statistics. Raises NotFound."""
    run = runs.run(session, public_id)
    run.hidden_at, run.hidden_reason = None, ""
    session.add(run)
    return run
