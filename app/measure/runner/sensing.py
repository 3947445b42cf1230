"""The machine's sensors during a run, when the measured server is on this machine."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from app.core.i18n import _, joined
from app.core.samples import Sample
from app.core.settings import Settings
from app.core.units import format_bytes
from app.hardware.sensors import Reading
from app.hardware.watch import SensorProcess, columns
from app.measure.bench import SampleProgress
from app.metrics.sensors import SWAPPED_BYTES, is_usual_limit, swapped, throttle_words
from app.results.compare import soundness


@contextmanager
def watching(is_here: bool, settings: Settings) -> Iterator[SensorProcess | None]:
    """`is_here`: whether the server is on this machine; what the sensors of another one say is nothing to it."""
    if not settings.sensors or not is_here:
        yield None
        return
    with SensorProcess() as watch:
        yield watch


def absence(is_here: bool, watch: SensorProcess | None, samples: Sequence[Sample]) -> str | None:
    """Why nothing is known of the sensors, as a key of app.charts.sensors.ABSENCES; None where something is."""
    if watch is None:
        return "off" if is_here else "elsewhere"
    if any(sample.sensors.get("at_ms") for sample in samples):
        return None
    return "short" if watch.has_seen else "silent"


def during(taken: SampleProgress, watch: SensorProcess | None) -> list[Reading]:
    """What was read while this round was played, once for all of its streams."""
    if watch is None or taken.sample.stream:
        return []
    start_s = taken.started_at.timestamp()
    return watch.between(start_s, start_s + taken.seconds)


def sensed(taken: SampleProgress, watch: SensorProcess | None) -> SampleProgress:
    """With what the sensors said meanwhile; only the first sample of a round keeps it."""
    seen = columns(during(taken, watch), taken.started_at.timestamp())
    if not seen:
        return taken
    return replace(taken, sample=replace(taken.sample, sensors={**taken.sample.sensors, **seen}))


def warnings(samples: Sequence[Sample]) -> list[str]:
    """What the sensors saw that slows a server down, one sentence each."""
    said = []
    throttles = sorted({why for sample in samples for why in sample.sensors.get("throttles", ())})
    if unusual := [why for why in throttles if not is_usual_limit(why)]:
        said.append(
            _(
                "A GPU was held back during the run ({why}): measure again when it is cool, or with a higher limit.",
                why=joined(*map(throttle_words, unusual), by=", "),
            )
        )
    swapped_bytes = swapped(samples)
    if swapped_bytes >= SWAPPED_BYTES:
        said.append(
            _(
                "This machine swapped {swapped} during the run: its memory is too small for the model "
                "and what else runs.",
                swapped=format_bytes(swapped_bytes),
            )
        )
    return said


def disturbances(samples: Sequence[Sample]) -> list[soundness.Disturbance]:
    """What the sensors saw that began or ended during the run, as `Run.evidence["unsound"]` holds it.

    A card that is held back in every round is the machine as it is; one that is held back in some makes them unlike.
    """
    swapped_bytes = swapped(samples)
    seen = [soundness.swapped(swapped_bytes)] if swapped_bytes >= SWAPPED_BYTES else []
    rounds = [sample.sensors for sample in samples if not sample.is_warmup and sample.sensors.get("at_ms")]
    counts = Counter(why for sensors in rounds for why in sensors.get("throttles", ()) if not is_usual_limit(why))
    if partial := sorted(why for why, count in counts.items() if count < len(rounds)):
        seen.append(soundness.throttled(partial))
    return seen
