"""The machine's sensors during a run, when the measured server is on this machine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from app.bench import Taken
from app.hardware.watch import Watch, columns
from app.http import is_loopback
from app.i18n import marked
from app.models import Server
from app.samples import Sample
from app.settings import Settings
from app.units import size

SWAPPED_BYTES = 64 * 1024**2
"""From so much on, swapping is no longer somebody else's forgotten page."""


@contextmanager
def watching(server: Server, settings: Settings) -> Iterator[Watch | None]:
    if not settings.sensors or not is_loopback(server.base_url):
        yield None
        return
    with Watch() as watch:
        yield watch


def sensed(taken: Taken, watch: Watch | None) -> Taken:
    """With what the sensors said meanwhile; only the first sample of a round keeps it."""
    if watch is None or taken.sample.stream:
        return taken
    start_s = taken.started_at.timestamp()
    seen = columns(watch.between(start_s, start_s + taken.seconds), start_s)
    return replace(taken, sample=replace(taken.sample, sensors={**taken.sample.sensors, **seen}))


def warnings(samples: Sequence[Sample]) -> list[str]:
    """What the sensors saw that slows a server down, one sentence each."""
    said = []
    throttles = sorted({why for sample in samples for why in sample.sensors.get("throttles", ())})
    if throttles:
        said.append(
            marked(
                "A card was held back during the run ({why}): measure again when it is cool, or with a higher limit.",
                why=", ".join(throttles),
            )
        )
    swapped = [each for sample in samples for each in sample.sensors.get("values", {}).get("swapped_bytes", ())]
    if swapped and swapped[-1] - swapped[0] >= SWAPPED_BYTES:
        said.append(
            marked(
                "This machine swapped {swapped} during the run: its memory is too small for the model "
                "and what else runs.",
                swapped=size(swapped[-1] - swapped[0]),
            )
        )
    return said
