"""Where a token's time goes, how decode falls with context, and what would make it faster."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session

from app import engines
from app.ceiling.advice import Advice, Fit, MeasuredRun, Observation, TimeShare, advise, fit, waterfall
from app.ceiling.decode import CurvePoint, Device, against_context, contexts_up_to
from app.core.i18n import _
from app.db.devices import load_catalogue
from app.db.tables import Config, Run
from app.hardware.catalogue import Catalogue
from app.results.ceiling.configs import Decode, newest_decodes
from app.results.ceiling.placement import Placement, resolve_placement
from app.results.ceiling.points import PointCeiling, RunCeiling, decode_of, step_of, tokens_per_step

SHORTEST_CURVE = 8_192
LONGEST_CURVE = 131_072
FASTER = (1.5, 2.5, 5.0)
"""The factors of bandwidth at which devices are suggested: for each, the slowest of the catalogue's devices that reads
at least this many times faster."""


@dataclass(frozen=True)
class DecodeAnalysis:
    """Why one measured point decodes as fast as it does."""

    curve: tuple[CurvePoint, ...]
    measured_points: tuple[PointCeiling, ...]
    """Measured points that belong on the curve."""
    waterfall: tuple[TimeShare, ...]
    """The parts of one token's time in milliseconds; unlike devices count as one equivalent device."""
    fit_words: tuple[str, ...]
    """The two runs that the fixed cost of a layer comes from, or why it is unknown."""
    advice: tuple[Advice, ...]


def analyze_decode(
    session: Session, run: Run, config: Config, run_ceiling: RunCeiling, point_ceiling: PointCeiling
) -> DecodeAnalysis | None:
    """Explains the decode of one measured point: curve against context, milliseconds of a token, advice.

    None when no decode was measured there.
    """
    if not point_ceiling.decode_tokens_per_s or not point_ceiling.steps_per_s:
        return None
    placement = run_ceiling.placement
    curve = against_context(
        placement.geometry,
        lambda decode_step: decode_of(placement, decode_step, point_ceiling.drafts),
        placement.kv,
        contexts_up_to(_longest(config, run_ceiling)),
        point_ceiling.step.batch,
    )
    same_concurrency = [
        point for point in run_ceiling.points if point.point.concurrency == point_ceiling.point.concurrency
    ]
    measured_points = tuple(point for point in same_concurrency if point.decode_tokens_per_s)
    device = placement.equivalent_device(point_ceiling.step)
    other_decodes = [decode for decode in newest_decodes(session, run.machine_id) if decode.config.id != config.id]
    layer_fit, fit_words = _fit(placement, device, point_ceiling, other_decodes)
    # the rounds of several streams include their prompts, so the time of a token cannot be divided
    is_decode = point_ceiling.point.concurrency == 1
    shares = (
        waterfall(point_ceiling.step, device, point_ceiling.steps_per_s, placement.geometry.blocks, layer_fit)
        if is_decode
        else []
    )
    return DecodeAnalysis(
        curve=tuple(curve),
        measured_points=measured_points,
        waterfall=tuple(shares),
        fit_words=fit_words,
        advice=tuple(_advice(load_catalogue(session), placement, device, point_ceiling, layer_fit)),
    )


def _longest(config: Config, run_ceiling: RunCeiling) -> int:
    """Returns the longest context to show: the server's where it is known, so that the curve covers what may be
    requested."""
    context = engines.with_flags(config.settings).get("context")
    longest_measured = max(point.context for point in run_ceiling.points)
    longest = context if isinstance(context, int) else max(SHORTEST_CURVE, 2 * longest_measured)
    return max(min(longest, LONGEST_CURVE), longest_measured)


def _fit(
    placement: Placement, device: Device, point_ceiling: PointCeiling, decodes: Sequence[Decode]
) -> tuple[Fit | None, tuple[str, ...]]:
    """Fits the point and the run of another model or quantization on the same devices whose bytes differ most."""
    layers = placement.geometry.blocks
    if point_ceiling.point.concurrency != 1 or not layers or not point_ceiling.steps_per_s:
        return None, ()
    observation = Observation(point_ceiling.step.n_bytes, layers, point_ceiling.steps_per_s)
    candidates: list[tuple[float, Observation, str]] = []
    for decode in decodes:
        candidate_placement = resolve_placement(
            decode.hardware.devices, decode.config, decode.known_geometry, gpu_share=decode.gpu_share
        )
        if not isinstance(candidate_placement, Placement) or not candidate_placement.is_on_the_same_devices_as(
            placement
        ):
            continue
        if (
            decode.point.concurrency != 1
            or not candidate_placement.geometry.blocks
            or candidate_placement.geometry.weights == placement.geometry.weights
        ):
            continue
        decode_step, steps_per_s = (
            step_of(candidate_placement, decode.point, decode.counts),
            decode.tokens_per_s / tokens_per_step(decode.drafts),
        )
        candidate = Observation(decode_step.n_bytes, candidate_placement.geometry.blocks, steps_per_s)
        difference = abs(candidate.n_bytes / candidate.layers - observation.n_bytes / observation.layers)
        candidates.append((difference, candidate, decode.model.title))
    if not candidates:
        return None, (
            _("A run of another model or quantization on this machine would show the fixed cost of a layer."),
        )
    candidate, name = max(candidates, key=lambda row: row[0])[1:]
    result = fit(observation, candidate, device)
    if isinstance(result, str):
        return None, (_("With {name}, {result}.", name=name, result=result),)
    return result, (_("The fixed cost of a layer comes from this run and that of {name}.", name=name), *result.notes)


def _advice(
    catalogue: Catalogue, placement: Placement, device: Device, point_ceiling: PointCeiling, layer_fit: Fit | None
) -> list[Advice]:
    if point_ceiling.point.concurrency != 1 or point_ceiling.decode_tokens_per_s is None:
        return []
    measured_run = MeasuredRun(
        placement.geometry,
        device,
        placement.kv,
        point_ceiling.context,
        point_ceiling.decode_tokens_per_s,
        tokens_per_step(point_ceiling.drafts),
        placement.layout if len(placement.device_shares) > 1 and not placement.layout.offload.is_observed else None,
    )
    return advise(measured_run, _faster(catalogue, placement, device, point_ceiling), layer_fit)


def _faster(catalogue: Catalogue, placement: Placement, device: Device, point_ceiling: PointCeiling) -> list[Device]:
    """Returns single devices that hold the model and its cache and are faster."""
    assert placement.geometry.weights is not None, "a placement has weights"
    needed_bytes = placement.geometry.weights.total.n_bytes + (point_ceiling.step.kv_bytes or 0)
    fitting = sorted(
        (
            candidate
            for candidate in catalogue.devices
            if candidate.kind != "ram" and (candidate.memory_bytes or 0) >= needed_bytes
        ),
        key=lambda candidate: (candidate.bandwidth_bytes_per_s, -(candidate.year or 0)),
    )
    faster = [
        next(
            (
                candidate
                for candidate in fitting
                if candidate.bandwidth_bytes_per_s >= factor * device.bandwidth_bytes_per_s
            ),
            None,
        )
        for factor in FASTER
    ]
    return [
        Device(candidate.name, candidate.bandwidth_bytes_per_s, candidate.peak_flops)
        for candidate in dict.fromkeys(faster)
        if candidate is not None
    ]
