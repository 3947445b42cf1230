"""Where a token's time goes, how decode falls with context, and what would make it faster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlmodel import Session

from app import engines
from app.ceiling.advice import Advice, Fit, MeasuredRun, Observation, OtherLayout, TimeShare, advise, fit, waterfall
from app.ceiling.decode import CurvePoint, Device, Split, against_context, contexts_up_to
from app.ceiling.efficiency import device_class
from app.ceiling.layout import OVERHEAD, needed_bytes
from app.ceiling.offload import Offload
from app.core.i18n import _
from app.db.devices import load_catalogue
from app.db.machines import device_title
from app.db.tables import Config, Run
from app.hardware.catalogue import Catalogue
from app.results.ceiling.configs import newest_decodes
from app.results.ceiling.placement import Placement, class_of_devices
from app.results.ceiling.points import PointCeiling, RunCeiling, decode_of, tokens_per_step
from app.results.ceiling.predictions import (
    EarlierPrediction,
    Evidence,
    TrackRecord,
    earlier_prediction,
    evidence_on,
    track_record,
)

SHORTEST_CURVE = 8_192
LONGEST_CURVE = 131_072
NEXT_CARD = 1.25
"""The next device of a class has at least this many times the bandwidth."""


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
    prediction: EarlierPrediction | None
    """What would have been predicted before the point was measured; None without other runs before it."""
    track_record: TrackRecord
    """How earlier predictions on these devices did."""


def analyze_decode(
    session: Session,
    run: Run,
    config: Config,
    run_ceiling: RunCeiling,
    point_ceiling: PointCeiling,
    *,
    is_wrong: bool = False,
) -> DecodeAnalysis | None:
    """Explains the decode of one measured point: curve against context, milliseconds of a token, advice.

    A run that stands off from the others of its configuration has no fixed cost and no advice: they would explain what
    disturbed it. None when no decode was measured there.
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
    decodes = newest_decodes(session, run.machine_id)
    evidence = evidence_on(placement, [decode for decode in decodes if decode.config.id != config.id])
    layer_fit, fit_words = (None, ()) if is_wrong else _fit(placement, device, point_ceiling, evidence)
    advice: list[Advice] = []
    if not is_wrong:
        advice = _advice(load_catalogue(session), run_ceiling, device, point_ceiling, config, evidence)
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
        advice=tuple(advice),
        prediction=earlier_prediction(evidence, placement, config, point_ceiling),
        track_record=track_record(placement, decodes),
    )


def _longest(config: Config, run_ceiling: RunCeiling) -> int:
    """Returns the longest context to show: the server's where it is known, so that the curve covers what may be
    requested."""
    context = engines.with_flags(config.settings).get("context")
    longest_measured = max(point.context for point in run_ceiling.points)
    longest = context if isinstance(context, int) else max(SHORTEST_CURVE, 2 * longest_measured)
    return max(min(longest, LONGEST_CURVE), longest_measured)


def _fit(
    placement: Placement, device: Device, point_ceiling: PointCeiling, evidence: Sequence[Evidence]
) -> tuple[Fit | None, tuple[str, ...]]:
    """Fits the point and the run of another model or quantization on the same devices whose bytes differ most."""
    layers = placement.geometry.blocks
    if point_ceiling.point.concurrency != 1 or not layers or not point_ceiling.steps_per_s:
        return None, ()
    observation = Observation(point_ceiling.step.n_bytes, layers, point_ceiling.steps_per_s)
    candidates: list[tuple[float, Observation, str]] = []
    for measured in evidence:
        case = measured.measured_case.case
        if not case.layers or measured.placement.geometry.weights == placement.geometry.weights:
            continue
        candidate = Observation(case.n_bytes, case.layers, measured.measured_case.steps_per_s)
        difference = abs(candidate.n_bytes / candidate.layers - observation.n_bytes / observation.layers)
        candidates.append((difference, candidate, measured.decode.model.title))
    if not candidates:
        return None, (
            _("A run of another model or quantization on this machine would show the fixed cost of a layer."),
        )
    candidate, name = max(candidates, key=lambda row: row[0])[1:]
    result = fit(observation, candidate, device)
    if isinstance(result, str):
        return None, (_("With {name}, {result}.", name=name, result=result),)
    if result.notes:  # a fixed cost from such a fit would count the same time twice
        return None, tuple(_("With {name}, {result}.", name=name, result=note) for note in result.notes)
    return result, (_("The fixed cost of a layer comes from this run and that of {name}.", name=name),)


def _advice(
    catalogue: Catalogue,
    run_ceiling: RunCeiling,
    device: Device,
    point_ceiling: PointCeiling,
    config: Config,
    evidence: Sequence[Evidence],
) -> list[Advice]:
    if point_ceiling.point.concurrency != 1 or point_ceiling.decode_tokens_per_s is None:
        return []
    placement = run_ceiling.placement
    measured_run = MeasuredRun(
        placement.geometry,
        device,
        placement.kv,
        point_ceiling.context,
        point_ceiling.decode_tokens_per_s,
        tokens_per_step(point_ceiling.drafts),
        placement.layout if len(placement.device_shares) > 1 and not placement.layout.offload.is_observed else None,
        config.model.name,
        config.model.quantization,
    )
    others = [*_one_more_card(placement, point_ceiling), *_next_card(catalogue, placement, point_ceiling)]
    return advise(measured_run, others, [measured.measured_case for measured in evidence])


def _one_more_card(placement: Placement, point_ceiling: PointCeiling) -> Iterator[OtherLayout]:
    """Returns the same model with one more of the same card: where cards share each layer, or where the model does not
    fit those that there are. Cards that take turns are no faster for being more."""
    layout, cards = placement.layout, [share for share in placement.device_shares if not share.is_ram]
    if not cards or any(card.device != cards[0].device for card in cards) or layout.stages > 1:
        return
    bigger = replace(layout, cards=(*layout.cards, layout.cards[0]), shares=(), offload=Offload())
    is_divided = layout.split is Split.TENSOR and len(cards) > 1
    if not is_divided and not placement.is_partly_in_ram:
        return
    if bigger.overflow(placement.geometry, point_ceiling.step) is None:
        name = device_title(cards[0].device.name)
        yield OtherLayout(_("one more {device}", device=name), cards[0].device, bigger)


def _next_card(catalogue: Catalogue, placement: Placement, point_ceiling: PointCeiling) -> Iterator[OtherLayout]:
    """Returns the next faster device of the class that holds the model and its cache; none for several unlike
    devices."""
    present = class_of_devices(placement, catalogue)
    if present is None or placement.device is None or len(placement.device_shares) > 1:
        return
    assert placement.geometry.weights is not None, "a placement has weights"
    least_bytes = (1 + OVERHEAD) * needed_bytes(placement.geometry, point_ceiling.step)
    least = NEXT_CARD * placement.device.bandwidth_bytes_per_s
    candidates = [
        candidate
        for candidate in catalogue.devices
        if candidate.bandwidth_bytes_per_s >= least
        and (candidate.memory_bytes or 0) >= least_bytes
        and device_class(candidate.name, candidate.vendor, candidate.kind, candidate.memory_kind) == present
    ]
    if candidates:
        nearest = min(candidates, key=lambda candidate: (candidate.bandwidth_bytes_per_s, -(candidate.year or 0)))
        device = Device(nearest.name, nearest.bandwidth_bytes_per_s, nearest.peak_flops)
        yield OtherLayout(nearest.name, device, device_key=nearest.name)
