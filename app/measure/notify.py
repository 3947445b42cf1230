"""Notifications that a run ended badly, through Apprise and whatever services a person named.

They fail no run: what went wrong is in the log and in the run's evidence. Addresses hold passwords, so no message has
more of them than the names of their services.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlmodel import Session

from app.core.errors import BadInput
from app.core.i18n import lower_first
from app.core.settings import Settings
from app.core.units import change_interval, format_percent
from app.db import runs
from app.db.database import Database
from app.db.tables import Run
from app.metrics import metrics
from app.results.compare import standing
from app.stats.verdict import Verdict

if TYPE_CHECKING:
    from apprise import NotifyBase

log = logging.getLogger(__name__)


class Message(NamedTuple):
    """One notification."""

    title: str
    sentences: tuple[str, ...]


def notify_run_ended(database: Database, settings: Settings, public_id: str) -> None:
    """Notifies of a run that has just ended and was stored, if it failed or is worse than its baseline."""
    if settings.notify_urls is None:
        return
    try:
        with database.read() as session:
            message = _message(session, runs.run(session, public_id))
        problem = send(settings, message) if message else ""
        if problem:
            log.warning("run %s: %s", public_id, problem)
            with database.write() as session:
                runs.add_warning(session, public_id, problem)
    except Exception:
        log.exception("run %s: nobody could be notified", public_id)


def _message(session: Session, run: Run) -> Message | None:
    machine, server, model = run.machine, run.server, run.model
    subject = " ".join(filter(None, [model.name, model.quantization])) if model else f"Suite {run.suite_key}"
    circumstances = f"Suite {run.suite_key} on {server.name}, machine {machine.name}; run {run.public_id}."
    if run.status == "failed":
        return Message(f"{subject} failed", (run.error or "", circumstances))
    if run.status == "done" and (comparison := _worse_than_baseline(session, run.public_id)):
        return Message(f"{subject} is worse than its baseline", (comparison, circumstances))
    return None


def _worse_than_baseline(session: Session, public_id: str) -> str:
    """Which metrics are worse than those of the baseline, by how much; empty where none is."""
    comparison = standing(session, public_id)
    if comparison is None or comparison.verdict not in (Verdict.WORSE, Verdict.MIXED):
        return ""
    worse = [
        f"{lower_first(metrics()[key].title)} {format_percent(ratio.value - 1)} "
        f"({change_interval(ratio.low, ratio.high)})"
        for key, ratio in comparison.ratios.items()
        if ratio.verdict is Verdict.WORSE
    ]
    return f"Beside the baseline {comparison.baseline_id}: {', '.join(worse)}." if worse else ""


def send(settings: Settings, message: Message) -> str:
    """Sends a message to every service; returns in one sentence what went wrong, empty when nothing did."""
    try:
        targets = services(settings)
    except BadInput as error:
        return str(error)
    body = "\n".join(filter(None, message.sentences))
    failed = [
        service_name(target) for target in targets if not target.notify(title=f"Roofmark: {message.title}", body=body)
    ]
    return f"The notification did not get through to {', '.join(failed)}." if failed else ""


def services(settings: Settings) -> "Sequence[NotifyBase]":
    """The services that the settings name. Raises BadInput for an address that names none, and without the extra
    `notify`."""
    if settings.notify_urls is None:
        return []
    try:
        from apprise import Apprise  # large, and hardly ever needed
    except ImportError as error:
        raise BadInput("Notifications need the extra: pip install 'roofmark[notify]'.") from error
    for name in ("apprise", "urllib3"):  # both write addresses into the log
        logging.getLogger(name).setLevel(logging.CRITICAL)
    notifier = Apprise()
    if not notifier.add(settings.notify_urls.get_secret_value()):
        raise BadInput("ROOFMARK_NOTIFY_URLS has an address that Apprise does not understand.")
    return list(notifier)


def service_name(service: "NotifyBase") -> str:
    """The name of a service, such as Telegram; never its address."""
    return str(service.service_name)
