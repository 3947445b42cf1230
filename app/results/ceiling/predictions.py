"""Predictions held to account: what other configurations of a machine predict, beside what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlmodel import Session

from app.ceiling.prediction import Case, MeasuredCase, Prediction, predict
from app.db.tables import Config
from app.results.ceiling.configs import Decode, newest_decodes
from app.results.ceiling.placement import Placement, resolve_placement
from app.results.ceiling.points import PointCeiling, step_of, tokens_per_step


class Evidence(NamedTuple):
    """The newest decode speed of a configuration, as predictions need it."""

    decode: Decode
    placement: Placement
    measured_case: MeasuredCase


def evidence_on(placement: Placement, decodes: Sequence[Decode]) -> list[Evidence]:
    """Returns what was measured with one stream on the devices of a placement."""
    evidence = []
    for decode in decodes:
        resolved = _placement(decode) if decode.point.concurrency == 1 else None
        if resolved is not None and resolved.is_on_the_same_devices_as(placement):
            evidence.append(Evidence(decode, resolved, _measured_case(decode, resolved)))
    return evidence


def predictions_on(session: Session, machine_id: int, device_name: str, cases: Sequence[Case]) -> list[Prediction]:
    """Predicts decode steps on one device of a machine from what was measured on it alone; empty where nothing was.

    A step of a model and quantization that were measured there rests mostly on these.
    """
    evidence = []
    for decode in newest_decodes(session, machine_id):
        placement = _placement(decode)
        if placement is None or len(placement.device_shares) > 1 or decode.point.concurrency > 1:
            continue
        if placement.device_shares[0].device.name == device_name:
            evidence.append(_measured_case(decode, placement))
    predictions = [predict(case, evidence) for case in cases]
    return [prediction for prediction in predictions if prediction is not None]


def _placement(decode: Decode) -> Placement | None:
    placement = resolve_placement(
        decode.hardware.devices, decode.config, decode.known_geometry, gpu_share=decode.gpu_share
    )
    return placement if isinstance(placement, Placement) else None


def _measured_case(decode: Decode, placement: Placement) -> MeasuredCase:
    decode_step = step_of(placement, decode.point, decode.counts)
    case = Case(
        n_bytes=decode_step.n_bytes,
        layers=placement.geometry.blocks or 0,
        bandwidth_bytes_per_s=placement.equivalent_device(decode_step).bandwidth_bytes_per_s,
        model=decode.model.name,
        quantization=decode.model.quantization,
    )
    return MeasuredCase(case, decode.tokens_per_s / tokens_per_step(decode.drafts))


@dataclass(frozen=True)
class EarlierPrediction:
    """The speed that other configurations predicted before this one was measured, in tok/s."""

    low: float
    high: float
    measured: float
    evidence: int
    """The number of configurations it rests on."""

    @property
    def is_inside(self) -> bool:
        return self.low <= self.measured <= self.high


def earlier_prediction(
    evidence: Sequence[Evidence], placement: Placement, config: Config, point_ceiling: PointCeiling
) -> EarlierPrediction | None:
    """Returns what configurations of other models or quantizations predict that were measured before `config`; None
    without any, and for several streams."""
    if point_ceiling.point.concurrency != 1 or not point_ceiling.decode_tokens_per_s:
        return None
    step, model = point_ceiling.step, config.model
    target = Case(
        n_bytes=step.n_bytes,
        layers=placement.geometry.blocks or 0,
        bandwidth_bytes_per_s=placement.equivalent_device(step).bandwidth_bytes_per_s,
        model=model.name,
        quantization=model.quantization,
    )
    prediction = _predict_first(target, config.id or 0, evidence)
    if prediction is None:
        return None
    tokens = tokens_per_step(point_ceiling.drafts)
    return EarlierPrediction(
        low=tokens * prediction.low,
        high=tokens * prediction.high,
        measured=point_ceiling.decode_tokens_per_s,
        evidence=prediction.evidence,
    )


@dataclass(frozen=True)
class TrackRecord:
    """How many results lay inside the interval that was predicted before they were measured."""

    inside: int
    predictions: int


def track_record(placement: Placement, decodes: Sequence[Decode]) -> TrackRecord:
    """Returns the record on the devices of a placement: of each model and quantization, the first configuration that
    was measured counts, predicted from others before it."""
    first: dict[tuple[str, str], Evidence] = {}
    evidence = evidence_on(placement, decodes)
    for measured in sorted(evidence, key=lambda measured: measured.decode.config.id or 0):
        case = measured.measured_case.case
        first.setdefault((case.model, case.quantization), measured)
    inside = predictions = 0
    for measured in first.values():
        config_id = measured.decode.config.id or 0
        prediction = _predict_first(measured.measured_case.case, config_id, evidence)
        if prediction is not None:
            predictions += 1
            inside += prediction.contains(measured.measured_case.steps_per_s)
    return TrackRecord(inside, predictions)


def _predict_first(target: Case, config_id: int, evidence: Sequence[Evidence]) -> Prediction | None:
    """Predicts from what was measured before a configuration, of other models or quantizations. Configurations are
    numbered in the order in which they were first measured."""
    own = (target.model, target.quantization)
    earlier = {
        measured.decode.config.id: measured.measured_case
        for measured in evidence
        if (measured.decode.config.id or 0) < config_id
        and (measured.measured_case.case.model, measured.measured_case.case.quantization) != own
    }
    return predict(target, list(earlier.values()))
