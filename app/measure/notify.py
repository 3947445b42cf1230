"""Notifications about runs that ended badly and engine updates that changed a speed, sent through Apprise to the
services in the settings.

A notification that fails does not fail the run: the error is in the log and in the run's evidence. Addresses contain
passwords, so messages only have the names of their services.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlmodel import Session

from app import engines
from app.core.errors import BadInput
from app.core.settings import Settings
from app.core.units import change_interval, format_date
from app.db import runs
from app.db.database import Database
from app.results.compare import Standing
from app.results.compare.words import metric_change
from app.results.history.news import completed_by
from app.results.history.updates import update_words
from app.results.load_run import RunResult, load_run
from app.stats.verdict import Verdict

if TYPE_CHECKING:
    from apprise import NotifyBase

log = logging.getLogger(__name__)


class Message(NamedTuple):
    """One notification."""

    title: str
    sentences: tuple[str, ...]


def notify_run_ended(database: Database, settings: Settings, public_id: str) -> None:
    """Notifies of a run that has just ended and was stored, if it failed, stands off from the other runs of its
    configuration, is worse than its baseline, or made the change of an engine update certain."""
    if settings.notify_urls is None:
        return
    try:
        with database.read() as session:
            message = _message(load_run(session, public_id))
            messages = [*([message] if message else []), *_of_updates(session, public_id)]
        if problem := " ".join(dict.fromkeys(filter(None, (send(settings, message) for message in messages)))):
            log.warning("run %s: %s", public_id, problem)
            with database.write() as session:
                runs.add_warning(session, public_id, problem)
    except Exception:  # a failed notification fails no run
        log.exception("run %s: nobody could be notified", public_id)


def _message(result: RunResult) -> Message | None:
    run, model = result.run, result.model
    what = " ".join(filter(None, [model.name, model.quantization])) if model else f"Suite {run.suite_key}"
    where = f"Suite {run.suite_key} on {result.server.name}, machine {result.machine.name}; run {run.public_id}."
    if run.status == "failed":
        return Message(f"{what} failed", (run.error or "", where))
    if run.status != "done":
        return None
    worse, wrong = _worse_than_baseline(result.verdicts.standing), result.wrong
    if wrong:
        advice = f"Run it again to be sure, or leave it out: `roofmark hide {run.public_id} --reason WHY`."
        title = f"{what}: {wrong.brief} the other runs"
        return Message(title, (wrong.sentence, wrong.details, worse, advice, where))
    return Message(f"{what} is worse than its baseline", (worse, where)) if worse else None


def _of_updates(session: Session, public_id: str) -> list[Message]:
    """Returns a message for each engine update that the run has made certain, so that each is told once."""
    return [
        Message(
            update_words(update, engines.titles()),
            (f"On {update.machine}, since {format_date(update.at)}; run {public_id} made it certain.",),
        )
        for update in completed_by(session, public_id)
    ]


def _worse_than_baseline(standing: Standing | None) -> str:
    """Returns which metrics are worse and by how much; empty when none is."""
    if standing is None or standing.verdict not in (Verdict.WORSE, Verdict.MIXED):
        return ""
    worse = [
        f"{metric_change(key, ratio.value)} ({change_interval(ratio.low, ratio.high)})"
        for key, ratio in standing.ratios.items()
        if ratio.verdict is Verdict.WORSE
    ]
    return f"Beside the baseline {standing.baseline_id}: {', '.join(worse)}." if worse else ""


def send(settings: Settings, message: Message) -> str:
    """Sends a message to every service; returns what went wrong in one sentence, empty when nothing did."""
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
    """Returns the services in the settings. Raises BadInput for an invalid address, and without the extra `notify`."""
    if settings.notify_urls is None:
        return []
    try:
        from apprise import Apprise  # of an extra
    except ImportError as error:
        raise BadInput("Notifications need the extra: pip install 'roofmark[notify]'.") from error
    for name in ("apprise", "urllib3"):  # both write addresses into the log
        logging.getLogger(name).setLevel(logging.CRITICAL)
    notifier = Apprise()
    if not notifier.add(settings.notify_urls.get_secret_value()):
        raise BadInput("ROOFMARK_NOTIFY_URLS has an address that Apprise does not understand.")
    return list(notifier)


def service_name(service: "NotifyBase") -> str:
    """Returns the name of a service, such as Telegram; never its address."""
    return str(service.service_name)
