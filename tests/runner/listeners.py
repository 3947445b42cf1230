"""Who listens to a run."""

from app.measure.runner import RunProgress


def silent(_: RunProgress) -> None:
    pass
