"""Who listens to a run."""

from app.measure.runner import Progress


def silent(_: Progress) -> None:
    pass
