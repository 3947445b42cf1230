"""Which quantization of a model is the fastest on a machine and what it costs, in words."""

from app.ceiling.number_formats import USUAL_BITS
from app.core.i18n import _, enumerated, lower_first
from app.core.units import format_bytes, format_quantity
from app.metrics import HEADLINE_METRICS
from app.metrics.base import Metric
from app.results.compare.words import metric_change
from app.results.model.speeds import MachineSpeeds, ModelSpeeds, QuantizationSpeed
from app.stats.verdict import Verdict

MOST_MACHINES = 3
"""The most machines of which the answer of a page speaks."""


def model_words(model: ModelSpeeds) -> list[str]:
    """Returns one sentence for each of the first machines; empty where nothing was measured."""
    return [machine_words(machine, model.metric) for machine in model.machines[:MOST_MACHINES]]


def machine_words(machine: MachineSpeeds, metric: Metric) -> str:
    """Returns which quantization is the best on a machine: only what is certain is called the best."""
    leaders, all_speeds = machine.leaders, machine.quantizations
    if len(all_speeds) == 1:
        return _(
            "Of what counts here, only {quantization} was measured on {machine}: {metric} {value}.",
            quantization=all_speeds[0].title,
            machine=machine.machine,
            metric=lower_first(metric.title),
            value=_value(all_speeds[0], metric),
        )
    if len(leaders) > 1:
        return _alike(machine, leaders, metric)
    best = leaders[0]
    reference = _largest([speed for speed in all_speeds if speed is not best])
    change = metric_change(metric.key, best.row.best.value / reference.row.best.value)
    names = {"quantization": best.title, "machine": machine.machine, "change": change, "other": reference.title}
    cost = _cost(best, reference)
    if metric.key in HEADLINE_METRICS:
        sentence = _("{quantization} is the fastest on {machine}: {change} than {other}{cost}.", cost=cost, **names)
    else:
        sentence = _("{quantization} is the best on {machine}: {change} than {other}{cost}.", cost=cost, **names)
    return sentence


def _alike(machine: MachineSpeeds, leaders: list[QuantizationSpeed], metric: Metric) -> str:
    """Returns which quantizations are equally good, or not told apart by their runs, and how far the others are."""
    names = enumerated(_("{name} ({value})", name=speed.title, value=_value(speed, metric)) for speed in leaders)
    others = [speed for speed in machine.quantizations if speed not in leaders]
    is_same = all(speed.ratio is None or speed.ratio.verdict is Verdict.SAME for speed in leaders)
    if is_same:
        sentence = _("{names} are about equally fast on {machine}", names=names, machine=machine.machine)
    else:
        sentence = _("{names} are not told apart by their runs on {machine}", names=names, machine=machine.machine)
    if not others:
        return _("{sentence}.", sentence=sentence)
    reference = _largest(others)
    return _(
        "{sentence}. {other}: {change} than {first}{cost}.",
        sentence=sentence,
        other=reference.title,
        change=metric_change(metric.key, reference.row.best.value / leaders[0].row.best.value),
        first=leaders[0].title,
        cost=_cost(reference, leaders[0]),
    )


def _cost(speed: QuantizationSpeed, reference: QuantizationSpeed) -> str:
    """Returns how much less or more memory one needs than another, as the end of a sentence; empty where unknown."""
    if speed.memory is None or reference.memory is None:
        return ""
    less = speed.memory.less_than(reference.memory)
    if less is None or abs(less) < 0.01 * reference.memory.used_bytes:
        return ""
    size = format_bytes(abs(less))
    return _(", with {size} less memory", size=size) if less > 0 else _(", with {size} more memory", size=size)


def _largest(speeds: list[QuantizationSpeed]) -> QuantizationSpeed:
    """Returns the quantization that keeps the most of the model: the one with the most memory, else the most bits."""

    def size(speed: QuantizationSpeed) -> tuple[float, float]:
        bits = USUAL_BITS.get(speed.row.quantization.upper(), 0.0)
        return (speed.memory.used_bytes if speed.memory else 0.0, bits)

    return max(speeds, key=size)


def _value(speed: QuantizationSpeed, metric: Metric) -> str:
    return format_quantity(speed.row.best.value, metric.unit)
