"""Where a token's time goes, how decode falls with context, and what would make it faster."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session

from app import engines
from app.ceiling import advice
from app.ceiling.advice import Advice, advise
from app.ceiling.curve import CurvePoint, against_context, contexts_up_to
from app.ceiling.decode import Device
from app.ceiling.fit import Fit, Observation, TimeShare, fit, waterfall
from app.core.i18n import _
from app.db.devices import load_catalogue
from app.db.tables import Config, Run
from app.hardware.catalogue import Catalogue
from app.results.ceiling.placement import Placement, resolve_placement
from app.results.ceiling.points import PointCeiling, RunCeiling, decode_of, step_of, tokens_per_step
from app.results.decode_speeds import Decode, newest_decodes

SHORTEST_CURVE = 8_192
LONGEST_CURVE = 131_072
FASTER = (1.5, 2.5, 5.0)
"""Devices to compare with: the slowest ones of the catalogue that read at least so many times faster."""


@dataclass(frozen=True)
class DecodeAnalysis:
    curve: tuple[CurvePoint, ...]
    measured_points: tuple[PointCeiling, ...]
    """Measured points that belong on the curve."""
    waterfall: tuple[TimeShare, ...]
    """The milliseconds of one token; unlike devices count as the one that they are worth together."""
    fit_words: tuple[str, ...]
    """From which two runs the fixed cost of a layer comes, or why it is unknown."""
    advice: tuple[Advice, ...]


def analyze_decode(
    session: Session, run: Run, config: Config, roof: RunCeiling, top: PointCeiling
) -> DecodeAnalysis | None:
    """`top`: the point to explain. None when no decode was measured there."""
    if not top.decode_tokens_per_s or not top.steps_per_s:
        return None
    found = roof.placement
    curve = against_context(
        found.geometry,
        lambda read: decode_of(found, read, top.drafts),
        found.kv,
        contexts_up_to(_longest(config, roof)),
        top.step.batch,
    )
    alike = [each for each in roof.points if each.point.concurrency == top.point.concurrency]
    measured_points = tuple(each for each in alike if each.decode_tokens_per_s)
    device = found.equivalent_device(top.step)
    others = [one for one in newest_decodes(session, run.machine_id) if one.config.id != config.id]
    fitted, words = _fit(found, device, top, others)
    # the time of several streams' rounds holds their prompts, so that nobody can tell where that of a token went
    is_decode = top.point.concurrency == 1
    parts = waterfall(top.step, device, top.steps_per_s, found.geometry.blocks, fitted) if is_decode else []
    return DecodeAnalysis(
        curve=tuple(curve),
        measured_points=measured_points,
        waterfall=tuple(parts),
        fit_words=words,
        advice=tuple(_advice(load_catalogue(session), found, device, top, fitted)),
    )


def _longest(config: Config, roof: RunCeiling) -> int:
    """The server's context where it is known, so that the curve shows what may be asked of it."""
    stated = engines.with_flags(config.settings).get("context")
    measured = max(each.context for each in roof.points)
    wanted = stated if isinstance(stated, int) else max(SHORTEST_CURVE, 2 * measured)
    return max(min(wanted, LONGEST_CURVE), measured)


def _fit(
    found: Placement, device: Device, top: PointCeiling, others: Sequence[Decode]
) -> tuple[Fit | None, tuple[str, ...]]:
    """With the run of another model or quantization on the same devices whose bytes differ most."""
    layers = found.geometry.blocks
    if top.point.concurrency != 1 or not layers or not top.steps_per_s:
        return None, ()
    here = Observation(top.step.n_bytes, layers, top.steps_per_s)
    candidates: list[tuple[float, Observation, str]] = []
    for one in others:
        theirs = resolve_placement(one.hardware.devices, one.config, one.known_geometry, gpu_share=one.gpu_share)
        if not isinstance(theirs, Placement) or not theirs.is_on_the_same_devices_as(found):
            continue
        if (
            one.point.concurrency != 1
            or not theirs.geometry.blocks
            or theirs.geometry.weights == found.geometry.weights
        ):
            continue
        read, steps_per_s = step_of(theirs, one.point, one.counts), one.tokens_per_s / tokens_per_step(one.drafts)
        there = Observation(read.n_bytes, theirs.geometry.blocks, steps_per_s)
        difference = abs(there.n_bytes / there.layers - here.n_bytes / here.layers)
        candidates.append((difference, there, one.model.title))
    if not candidates:
        return None, (
            _("A run of another model or quantization on this machine would tell the fixed cost of a layer."),
        )
    there, name = max(candidates, key=lambda each: each[0])[1:]
    result = fit(here, there, device)
    if isinstance(result, str):
        return None, (_("With {name}, {result}.", name=name, result=result),)
    return result, (_("The fixed cost of a layer comes from this run and that of {name}.", name=name), *result.notes)


def _advice(
    catalogue: Catalogue, found: Placement, device: Device, top: PointCeiling, fitted: Fit | None
) -> list[Advice]:
    if top.point.concurrency != 1 or top.decode_tokens_per_s is None:
        return []
    measured = advice.MeasuredRun(
        found.geometry,
        device,
        found.kv,
        top.context,
        top.decode_tokens_per_s,
        tokens_per_step(top.drafts),
        found.layout if len(found.device_shares) > 1 and not found.layout.offload.is_observed else None,
    )
    return advise(measured, _faster(catalogue, found, device, top), fitted)


def _faster(catalogue: Catalogue, found: Placement, device: Device, top: PointCeiling) -> list[Device]:
    """Single devices that hold the model and its cache."""
    assert found.geometry.weights is not None, "a placement has weights"
    needed = found.geometry.weights.total.n_bytes + (top.step.kv_bytes or 0)
    fitting = sorted(
        (one for one in catalogue.devices if one.kind != "ram" and (one.memory_bytes or 0) >= needed),
        key=lambda one: (one.bandwidth_bytes_per_s, -(one.year or 0)),
    )
    picked = [
        next((one for one in fitting if one.bandwidth_bytes_per_s >= factor * device.bandwidth_bytes_per_s), None)
        for factor in FASTER
    ]
    return [
        Device(one.name, one.bandwidth_bytes_per_s, one.peak_flops) for one in dict.fromkeys(picked) if one is not None
    ]
