"""A run beside the configuration or hardware that its server had before: what changed, and what that did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from app.configuration import changes
from app.metrics import TRIPLE, Measured
from app.models import Config, Model, Run
from app.store import hardware
from app.store.continuation import snapshot_of
from app.store.filters import COUNTS
from app.store.measurements import measurements_by_run


@dataclass(frozen=True)
class Step:
    """One metric of the triple before and now, both from the same source."""

    metric: str
    source: str
    then: float
    today: float
    is_within_spread: bool | None
    """Whether the 95 % intervals overlap; None where one is missing."""

    @property
    def change(self) -> float | None:
        """Relative: 0.03 is 3 % more."""
        return self.today / self.then - 1 if self.then else None


@dataclass(frozen=True)
class Previous:
    fingerprint: str
    """Of the previous configuration."""
    changes: Sequence[str]
    public_id: str | None
    """The newest run before the change with the very same suite; None if there is none."""
    triple: Sequence[Measured]
    """Of that run, at this run's main point, as lists show it."""
    steps: Sequence[Step]


def previous(session: Session, run: Run, engine_titles: Mapping[str, str] | None = None) -> Previous | None:
    """None for a run without a configuration, and for the first configuration of a server on its first hardware.

    Hidden runs do not count.
    """
    if run.config_id is None or run.started_at is None:
        return None
    before = select(Run).where(
        Run.server_id == run.server_id, col(Run.config_id).is_not(None), col(Run.started_at) < run.started_at, COUNTS
    )
    newest_first = before.order_by(col(Run.started_at).desc(), col(Run.id).desc()).limit(1)
    known = hardware.timelines(session, run.server_id)
    began = known.began(run.server_id, run.started_at)
    is_other = col(Run.config_id) != run.config_id
    if began is not None:
        is_other |= col(Run.started_at) < began
    last = session.exec(newest_first.where(is_other)).first()
    if last is None or last.started_at is None:
        return None
    comparable = session.exec(
        newest_first.where(
            Run.config_id == last.config_id,
            col(Run.started_at) <= last.started_at,
            Run.suite_sha256 == run.suite_sha256,
            Run.status == "done",
        )
    ).first()
    frozen = _frozen(session, [last, run])
    measured = measurements_by_run(session, [each.id for each in (comparable, run) if each and each.id])
    then = _main_triple(measured, comparable, run.main_point_key) if comparable else []
    today = _main_triple(measured, run, run.main_point_key)
    return Previous(
        fingerprint=frozen[last.config_id][0].fingerprint,
        changes=[
            *known.between(run.server_id, last.started_at, run.started_at),
            *changes(snapshot_of(*frozen[last.config_id]), snapshot_of(*frozen[run.config_id]), engine_titles),
        ],
        public_id=comparable.public_id if comparable else None,
        triple=[each for each in then if each.is_shown],
        steps=_steps(then, today),
    )


def before_config(session: Session, config: Config, engine_titles: Mapping[str, str] | None = None) -> Previous | None:
    """What its server had before its first run; None for the first configuration of a server."""
    counted = select(Run).where(Run.config_id == config.id, col(Run.started_at).is_not(None), COUNTS)
    first = session.exec(counted.order_by(col(Run.started_at), col(Run.id)).limit(1)).first()
    return previous(session, first, engine_titles) if first else None


def _frozen(session: Session, runs: Sequence[Run]) -> dict[int | None, tuple[Config, Model]]:
    """By the id of the configuration."""
    used = select(Config, Model).join(Model, col(Model.id) == Config.model_id)
    rows = session.exec(used.where(col(Config.id).in_({run.config_id for run in runs}))).all()
    return {config.id: (config, model) for config, model in rows}


def _main_triple(measured: Mapping[int, Sequence[Measured]], run: Run, point_key: str) -> list[Measured]:
    found = measured.get(run.id or 0, ())
    return [each for each in found if each.metric in TRIPLE and each.point.key == point_key]


def _steps(then: Sequence[Measured], today: Sequence[Measured]) -> list[Step]:
    before = {(each.metric, each.source): each for each in then}
    pairs = [(before.get((each.metric, each.source)), each) for each in today if each.is_shown]
    pairs.sort(key=lambda pair: TRIPLE.index(pair[1].metric))
    return [
        Step(now.metric, now.source, old.value, now.value, _overlap(old, now))
        for old, now in pairs
        if old is not None and old.value is not None and now.value is not None
    ]


def _overlap(one: Measured, other: Measured) -> bool | None:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return one.low <= other.high and other.low <= one.high
