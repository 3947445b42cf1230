"""The parts of a comparison besides metrics: inter-token gaps, and the ceilings of the hardware."""

from collections.abc import Mapping, Sequence
from statistics import median

from sqlmodel import Session

from app.core.i18n import _, joined
from app.core.samples import Sample, Workload
from app.db.machines import MachineDevice, devices
from app.db.models import all_stated, best_geometry
from app.db.tables import StatedGeometry
from app.metrics import (
    HEADLINE_METRICS,
    MetricResult,
    applies_to,
    is_usable,
    metrics,
    preferred,
    token_times,
    values_of,
)
from app.metrics.summary import percentiles
from app.metrics.token_times import token_counts_of
from app.results.ceiling import Placement, resolve_placement, run_ceilings
from app.results.compare.observations import SubjectData
from app.results.compare.result import Ceiling, Distribution
from app.results.hardware import Hardware, gpu_share_of, resolve_hardware


def gap_distribution(subject: SubjectData, point: Workload | None) -> Distribution:
    """Returns the gaps between tokens at a workload, over all usable samples."""
    samples = [sample for sample in subject.at(point) if is_usable(sample) and not sample.reuses_cache] if point else []
    streamed = [sample for sample in samples if not token_times.arrives_in_bursts(sample.trace)]
    gaps = [gap for sample in streamed for gap in token_times.gaps_ms(sample.trace)]
    if not gaps:
        reason = _("Its tokens arrived in bursts.") if samples else _("It has no usable sample at this point.")
        return Distribution((), 0, False, subject.reason_not_comparable or reason)
    quantiles = tuple(round(value, 4) for value in (min(gaps), *percentiles(gaps), max(gaps)))
    return Distribution(quantiles, len(gaps), any("multi_token_chunks" in sample.flags for sample in streamed))


def subject_ceilings(session: Session, subjects: Sequence[SubjectData], point: Workload | None) -> tuple[Ceiling, ...]:
    """Returns what the hardware of each subject allows at a workload."""
    machine_devices: dict[int, Sequence[MachineDevice]] = {}
    stated = all_stated(session)
    for subject in subjects:
        machine = subject.run.machine
        assert machine.id is not None
        if machine.id not in machine_devices:
            machine_devices[machine.id] = devices(session, machine)
    runs = [subject.run for subject in subjects]
    hardware = [resolve_hardware(run.hardware, machine_devices[run.machine_id]) for run in runs]
    return tuple(_ceiling(*pair, stated, point) for pair in zip(hardware, subjects, strict=True))


def _ceiling(
    hardware: Hardware, subject: SubjectData, stated: Mapping[tuple[str, str], StatedGeometry], point: Workload | None
) -> Ceiling:
    config, model = subject.run.config, subject.run.model
    at_point = (subject.at(point) if point else []) or subject.at(subject.main_point)
    if config is None or model is None or not at_point:
        has_measured = (point or subject.main_point) in subject.points
        no_samples = _("Its single samples are not stored.") if has_measured else _("It did not measure this point.")
        reason = subject.reason_not_comparable or no_samples
        return Ceiling(None, "", None, None, "", None, reason)
    geometry = best_geometry(model, stated.get((model.name, model.quantization)))
    gpu_share = gpu_share_of(subject.run.evidence)
    placement = resolve_placement(hardware.devices, config, geometry, hardware.assumptions, gpu_share)
    if not isinstance(placement, Placement):
        return Ceiling(None, "", None, None, "", None, joined(placement.reason, placement.remedy))
    counts = {at_point[0].point: token_counts_of(at_point)}
    (ceiling,) = run_ceilings(
        placement, [_shown(at_point, key) for key in (*HEADLINE_METRICS, "output_tokens_per_s")], counts=counts
    )
    return Ceiling(
        decode_tokens_per_s=ceiling.decode.tokens_per_s,
        decode_words=ceiling.decode.words,
        mbu=ceiling.mbu,
        prefill_tokens_per_s=ceiling.prefill.tokens_per_s if ceiling.prefill else None,
        prefill_words=ceiling.prefill.words if ceiling.prefill else ceiling.why_no_prefill,
        mfu=ceiling.mfu,
    )


def _shown(samples: Sequence[Sample], key: str) -> MetricResult:
    """Returns the samples of one point, without warm-ups, that a ceiling is compared with."""
    metric = metrics()[key]
    by_source = values_of(metric, [sample for sample in samples if applies_to(sample, metric)]).by_source
    sources = [source for source in preferred(key) if by_source.get(source)]
    value = median(by_source[sources[0]]) if sources else None
    return MetricResult(samples[0].point, key, (*sources, "client")[0], metric.unit, value, is_shown=True)
