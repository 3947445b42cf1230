"""Who listens to a run."""

from app.runner import Progress


def silent(_: Progress) -> None:
    pass
