"""Who listens to a run."""

from app.measure.active_run import RunProgress


def silent(_: RunProgress) -> None:
    pass
