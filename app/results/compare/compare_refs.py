"""What a comparison of a few runs or configurations reads: one query for each kind of row, however many they are."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlmodel import Session, col, func, select

from app.core.errors import BadInput, NotFound
from app.core.i18n import _
from app.db import baselines, runs
from app.db.tables import Run
from app.results.previous import previous
from app.results.run_filter import NOT_HIDDEN

FEWEST, MOST = 2, 8
NEWEST_RUNS = 30
"""So many runs of a configuration are taken together at most."""
CONFIG = "config:"
WORDS = ("latest", "previous", "baseline")


class Reference(NamedTuple):
    """What was named: a run, or with `is_config` all runs of its configuration with its suite."""

    public_id: str
    is_config: bool

    @property
    def key(self) -> str:
        """The reference as it is written: a run id, or `config:` and a run id."""
        return f"{CONFIG if self.is_config else ''}{self.public_id}"


def resolve(session: Session, names: Sequence[str]) -> list[Reference]:
    """Resolve what a comparison names: run ids, `config:` with a run id, and words.

    `latest` is the newest finished run; `previous` and `baseline` are seen from the last run that is named by itself,
    or from the latest. Raises BadInput and NotFound.
    """
    if not FEWEST <= len(names) <= MOST:
        raise BadInput(
            _("A comparison takes {fewest} to {most} runs, not {count}.", fewest=FEWEST, most=MOST, count=len(names))
        )
    own = next((name for name in reversed(names) if name.removeprefix(CONFIG) not in WORDS), "latest")
    anchor = _latest(session) if own == "latest" else own.removeprefix(CONFIG)
    references = [_reference(session, name, anchor) for name in names]
    for place, reference in enumerate(references):
        if reference in references[:place]:
            first, second = names[references.index(reference)], names[place]
            if first == second:
                raise BadInput(_("{key} is named twice: a comparison needs different runs.", key=reference.key))
            raise BadInput(
                _(
                    "{one} and {other} are both {key}: a comparison needs different runs.",
                    one=first,
                    other=second,
                    key=reference.key,
                )
            )
    return references


def resolve_run_id(session: Session, name: str) -> str:
    """The id of one run: its own, or one of WORDS, seen from the latest. Raises NotFound."""
    return _reference(session, name, _latest(session)).public_id if name in WORDS else name


def _reference(session: Session, name: str, anchor: str) -> Reference:
    bare = name.removeprefix(CONFIG)
    is_config = bare != name
    if bare not in WORDS:
        return Reference(bare, is_config)
    if bare == "latest":
        return Reference(_latest(session), is_config)
    run = runs.run(session, anchor)
    if bare == "baseline":
        pinned = baselines.baseline_of(session, run)
        if pinned is None:
            raise NotFound(_("Run {anchor} has no baseline: pin one with `roofmark baseline set RUN`.", anchor=anchor))
        return Reference(pinned, is_config)
    before = previous(session, run)
    if before is None or before.public_id is None:
        raise NotFound(
            _("Before run {anchor}, its server had no other configuration that played the same suite.", anchor=anchor)
        )
    return Reference(before.public_id, is_config)


def _latest(session: Session) -> str:
    newest = select(Run.public_id).where(col(Run.status) == "done", NOT_HIDDEN)
    public_id = session.exec(newest.order_by(col(Run.started_at).desc(), col(Run.id).desc()).limit(1)).first()
    if public_id is None:
        raise NotFound(_("There is no finished run yet."))
    return public_id


def newest_alike(session: Session, of: Collection[Run]) -> dict[str, list[Run]]:
    """For each of some runs, by its public id: the newest finished runs of its configuration with its very suite that
    nobody has hidden, newest first."""
    key = (col(Run.config_id), col(Run.suite_sha256))
    age = func.row_number().over(partition_by=key, order_by=[col(Run.started_at).desc(), col(Run.id).desc()])
    aged = (
        select(col(Run.id).label("id"), age.label("age"))
        .where(
            col(Run.status) == "done",
            NOT_HIDDEN,
            col(Run.config_id).in_({run.config_id for run in of}),
            col(Run.suite_sha256).in_({run.suite_sha256 for run in of}),
        )
        .subquery()
    )
    query = select(Run).join(aged, col(Run.id) == aged.c.id).where(aged.c.age <= NEWEST_RUNS).order_by(aged.c.age)
    rows = session.exec(query).all() if of else []
    return {
        run.public_id: [row for row in rows if (row.config_id, row.suite_sha256) == (run.config_id, run.suite_sha256)]
        for run in of
    }
