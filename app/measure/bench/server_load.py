"""How busy the server says it is while requests are timed, asked by a process of its own.

The child (`python -m app.measure.bench.server_load`) reads one line of JSON that says which server to ask, takes a
reading at once and then at most twice a second, and rests ten times as long as the answer took, so that a slow engine
is asked less often.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from statistics import fmean

from app import engines
from app.core.errors import ServerError
from app.core.i18n import _
from app.core.server_metrics import ServerMetric
from app.core.settings import Settings
from app.core.units import plural
from app.engines.base import LOADS, Engine
from app.engines.http import ServerClient
from app.hardware.sensors import Reading
from app.hardware.watch import INTERVAL_S, SensorProcess, until_input_ends

REST = 10
_REQUESTS = ("requests_running", "requests_waiting")
START_S = 3.0
"""For which a run waits for its watcher, whose start would else take processor time from what is timed."""


@contextmanager
def watching(
    engine: Engine, client: ServerClient, api_key: str | None, settings: Settings
) -> Iterator[SensorProcess | None]:
    """None where the server does not tell. The key goes through the child's input: no list of processes shows it."""
    if not settings.sensors or not _tells(engine, client):
        yield None
        return
    asked = {
        "engine": engine.key,
        "url": client.base_url,
        "api_key": api_key,
        "api_prefix": client.api_prefix,
        "model": client.model,
    }
    with SensorProcess(__name__, json.dumps(asked).encode() + b"\n", settings.as_environment()) as watch:
        watch.wait_for_first(START_S)
        yield watch


def _tells(engine: Engine, client: ServerClient) -> bool:
    try:
        return bool(engine.load(client))
    except ServerError:  # what went wrong with the server, its run says
        return False


def counted(readings: Sequence[Reading]) -> list[ServerMetric]:
    """Mean and highest of what was read while our requests were at work.

    A server without any request was asked a moment before the first of a round came, or after the last had ended.
    """
    at_work = [each.values for each in readings if _is_at_work(each.values)]
    found = []
    for name, unit in LOADS.items():
        values = [told[name] for told in at_work if name in told]
        if values:
            readings_of_it = plural(len(values), "reading")
            how = _("told by the server while requests were at work, {readings}", readings=readings_of_it)
            found += [
                ServerMetric(name, "mean", unit, fmean(values), how),
                ServerMetric(name, "max", unit, max(values), how),
            ]
    return found


def _is_at_work(told: Mapping[str, float]) -> bool:
    known = [told[name] for name in _REQUESTS if name in told]
    return not known or sum(known) > 0


def main() -> None:
    asked = json.loads(sys.stdin.buffer.readline())
    ended = until_input_ends()
    engine = engines.find(asked.pop("engine"))
    with ServerClient(**asked, settings=Settings()) as client:
        while True:
            begun = time.monotonic()
            try:
                told = engine.load(client)
            except ServerError:  # it may be back at the next look
                told = {}
            print(json.dumps(asdict(Reading(time.time(), told))), flush=True)
            if ended.wait(max(INTERVAL_S, REST * (time.monotonic() - begun))):
                return


if __name__ == "__main__":
    main()
