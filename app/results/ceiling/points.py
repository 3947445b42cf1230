"""The ceiling of each measured point of a run, and the samples that are faster than their hardware can be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlmodel import Session

from app.ceiling.bytes_per_step import Step, step
from app.ceiling.decode import DecodeCeiling, with_drafts
from app.ceiling.efficiency import above_ceiling_reasons, cache_guard, mbu, mfu
from app.ceiling.geometry import Certainty
from app.ceiling.prefill import PrefillCeiling, prefill
from app.core.i18n import _
from app.core.samples import Sample, Workload
from app.db.models import geometry_of
from app.db.tables import Config, Model, Run
from app.metrics import MetricResult, headline_metrics
from app.metrics.token_times import TokenCounts
from app.results.ceiling.cards import Unknown
from app.results.ceiling.placement import Placement, computing, resolve_placement
from app.results.hardware import Hardware, gpu_share_of
from app.results.token_counts import Drafts, drafts_of, token_counts


@dataclass(frozen=True)
class PointCeiling:
    """One measured point and its ceiling. Shares are fractions of 1 and never clamped; None is unknown."""

    point: Workload
    context: int
    """The mean context during decode, from the counted tokens."""
    step: Step
    drafts: Drafts | None
    """The effect of speculative decoding; None when the server does not report it."""
    decode: DecodeCeiling
    decode_tokens_per_s: float | None
    """The measured speed of all streams together: with several, the throughput of their rounds, which includes the time
    of their prompts."""
    mbu: float | None
    above: tuple[str, ...]
    """The assumptions that may be wrong when more than the whole ceiling was reached."""
    cache: str | None
    prefill: PrefillCeiling | None
    why_no_prefill: str
    prefill_tokens_per_s: float | None
    ttft_ms: float | None
    mfu: float | None
    assumptions: tuple[str, ...]
    does_not_fit: str | None = None
    """One sentence when the cards cannot hold the model and its cache: the ceiling is then that of the best split."""

    @property
    def prefill_share(self) -> float | None:
        """The share of the prefill ceiling, whichever bound applies; MFU is the share of the compute peak alone."""
        if self.prefill is None or not self.prefill_tokens_per_s:
            return None
        return self.prefill_tokens_per_s / self.prefill.tokens_per_s

    @property
    def steps_per_s(self) -> float | None:
        """The readings of the weights per second, times the number of streams."""
        return self.decode_tokens_per_s and self.decode_tokens_per_s / tokens_per_step(self.drafts)


@dataclass(frozen=True)
class RunCeiling:
    """The ceilings of all measured points of a run."""

    placement: Placement
    points: tuple[PointCeiling, ...]

    @property
    def certainty(self) -> Certainty:
        """Whether the ceilings are bounds or estimates."""
        return self.placement.geometry.certainty

    @property
    def not_understood(self) -> tuple[str, ...]:
        """The keys of the model's file that may shape its bytes and are not understood."""
        return self.placement.geometry.not_understood

    def at(self, point: Workload | None) -> PointCeiling | None:
        """Returns the ceiling of this point; None when it was not measured."""
        return next((point_ceiling for point_ceiling in self.points if point_ceiling.point == point), None)


def run_ceiling(
    session: Session,
    run: Run,
    config: Config | None,
    model: Model | None,
    hardware: Hardware,
    measured: Sequence[MetricResult],
) -> RunCeiling | Unknown | None:
    """Computes the ceilings of a run on its frozen `hardware`; None when its configuration was never known."""
    if config is None or model is None:
        return None
    assert run.id is not None
    placement = resolve_placement(
        hardware.devices, config, geometry_of(session, model), hardware.assumptions, gpu_share_of(run.evidence)
    )
    if isinstance(placement, Unknown):
        return placement
    drafts = {point: drafts_of_point for (_, point), drafts_of_point in drafts_of(session, [run.id]).items()}
    counts = {point: means for (_, point), means in token_counts(session, [run.id]).items()}
    return RunCeiling(placement, run_ceilings(placement, measured, drafts, counts))


def run_ceilings(
    placement: Placement,
    measured: Sequence[MetricResult],
    drafts: Mapping[Workload, Drafts] = MappingProxyType({}),
    counts: Mapping[Workload, TokenCounts] = MappingProxyType({}),
) -> tuple[PointCeiling, ...]:
    """Computes the ceiling of each point, in the order measured."""
    points = dict.fromkeys(result.point for result in measured)
    shown = {(result.point, result.metric): result.value for result in measured if result.is_shown}
    return tuple(
        _point_ceiling(
            placement,
            point,
            drafts.get(point),
            counts.get(point, TokenCounts()),
            shown.get((point, speed_metric(point))),
            shown.get((point, "prefill_tokens_per_s")),
            shown.get((point, "ttft_ms")),
        )
        for point in points
    )


def speed_metric(point: Workload) -> str:
    """Returns the metric that is compared with a decode ceiling. It is not one stream's speed times their number, since
    streams need not decode together."""
    return "decode_tokens_per_s" if point.concurrency == 1 else "output_tokens_per_s"


def step_of(placement: Placement, point: Workload, counts: TokenCounts | None) -> Step:
    """Returns the bytes of a decode step at a point, with the tokens that were counted."""
    decode_step = step(placement.geometry, context_of(point, counts), placement.kv, placement.at_once(point))
    assert decode_step is not None, "a placement has weights"
    return decode_step


def decode_of(placement: Placement, decode_step: Step, drafts: Drafts | None) -> DecodeCeiling:
    """Returns the decode ceiling of a step, with the effect of speculative decoding."""
    ceiling = placement.decode(decode_step)
    if drafts is None or not drafts.drafted:
        return ceiling
    return with_drafts(ceiling, drafts.drafted_per_pass, drafts.accepted_per_pass)


def tokens_per_step(drafts: Drafts | None) -> float:
    """Returns how many tokens one reading of the weights gave each stream, on average."""
    return 1 + (drafts.accepted_per_pass if drafts else 0)


def context_of(point: Workload, counts: TokenCounts | None) -> int:
    """Returns the mean number of tokens in the cache during a decode: as counted, else as the suite requests."""
    counts = counts or TokenCounts()
    return point.mean_context(counts.prompt_tokens, counts.output_tokens)


def _point_ceiling(
    placement: Placement,
    point: Workload,
    drafts: Drafts | None,
    counts: TokenCounts,
    decode_tokens_per_s: float | None,
    prefill_tokens_per_s: float | None,
    ttft_ms: float | None,
) -> PointCeiling:
    decode_step = step_of(placement, point, counts)
    ceiling = decode_of(placement, decode_step, drafts)
    share = mbu(decode_tokens_per_s, ceiling.tokens_per_s) if decode_tokens_per_s else None
    prefill_ceiling, why_no_prefill = _prefill(placement, point, counts)
    peak_flops = sum(device_share.device.peak_flops or 0 for device_share in placement.device_shares)
    return PointCeiling(
        point=point,
        context=decode_step.context,
        step=decode_step,
        drafts=drafts,
        decode=ceiling,
        decode_tokens_per_s=decode_tokens_per_s,
        mbu=share,
        above=_above(placement, decode_step, share, drafts) if share else (),
        cache=cache_guard(decode_step, placement.llc_bytes),
        prefill=prefill_ceiling,
        why_no_prefill=why_no_prefill,
        prefill_tokens_per_s=prefill_tokens_per_s,
        ttft_ms=ttft_ms,
        mfu=mfu(prefill_tokens_per_s, prefill_ceiling.tokens, prefill_ceiling.flops, peak_flops)
        if prefill_ceiling and prefill_tokens_per_s
        else None,
        assumptions=(
            *filter(None, [placement.geometry.doubt]),
            *placement.geometry.assumptions,
            *placement.assumptions,
            *(() if counts.prompt_tokens is not None else (_uncounted(point),)),
            *ceiling.assumptions,
            *(prefill_ceiling.assumptions if prefill_ceiling else ()),
        ),
        does_not_fit=placement.layout.overflow(placement.geometry, decode_step),
    )


def _uncounted(point: Workload) -> str:
    return _(
        "the tokens of the prompt were not counted, so the suite's nominal {tokens:,} are used",
        tokens=point.prompt_tokens,
    )


def _above(placement: Placement, decode_step: Step, share: float, drafts: Drafts | None) -> tuple[str, ...]:
    is_speculative = None if drafts is None else drafts.drafted > 0
    reasons = above_ceiling_reasons(
        share, placement.geometry, decode_step, placement.is_measured, placement.llc_bytes, is_speculative
    )
    if reasons and placement.ram_time_share(decode_step):
        return (_("more of the model may be on GPUs than the ceiling was computed with"), *reasons)
    return reasons


def _prefill(placement: Placement, point: Workload, counts: TokenCounts) -> tuple[PrefillCeiling | None, str]:
    """Returns the prefill ceiling of the tokens that were not cached, or None and why there is none."""
    if point.concurrency > 1:
        return None, _(
            "Several streams ran at once and shared the compute, so there is no prefill ceiling for one of them."
        )
    without_peak = next(
        (device_share for device_share in placement.device_shares if device_share.device.peak_flops is None), None
    )
    if without_peak is not None:
        return None, _(
            "The peak compute of {without} is unknown, so there is no prefill ceiling and no TTFT floor. State it on "
            "the machine's page.",
            without=computing(without_peak.device.name, without_peak.is_ram),
        )
    devices = [device_share.device for device_share in placement.device_shares]
    cached_tokens = round(counts.cached_tokens or 0)
    prompt_tokens = point.prompt_tokens if counts.prompt_tokens is None else round(counts.prompt_tokens)
    return prefill(
        placement.geometry, devices, max(prompt_tokens - cached_tokens, 1), point.depth + cached_tokens, placement.kv
    ), ""


# --- samples above the ceiling ---------------------------------------------------------------------------------------
# Judged while reading: a ceiling may become known later.

MAX_CEILING_RATIO = 2.0
"""A speed this many times the ceiling cannot come from inaccurate figures of the ceiling."""
FLAG = "implausible"


def flag_above_ceiling(samples: Sequence[Sample], run_ceiling: RunCeiling | object) -> list[Sample]:
    """Flags samples whose decode or prefill exceeds twice the ceiling; without a ceiling they stay as they are."""
    if not isinstance(run_ceiling, RunCeiling):
        return list(samples)
    return [_flagged(sample) if _is_beyond(sample, run_ceiling.at(sample.point)) else sample for sample in samples]


def _flagged(sample: Sample) -> Sample:
    return sample if FLAG in sample.flags else replace(sample, flags=(*sample.flags, FLAG))


def _is_beyond(sample: Sample, point_ceiling: PointCeiling | None) -> bool:
    if point_ceiling is None or sample.point.concurrency > 1:
        return False
    speeds = headline_metrics(sample)
    decode, prefill = speeds["decode_tokens_per_s"] or 0.0, speeds["prefill_tokens_per_s"] or 0.0
    return decode > MAX_CEILING_RATIO * point_ceiling.decode.tokens_per_s or (
        point_ceiling.prefill is not None and prefill > MAX_CEILING_RATIO * point_ceiling.prefill.tokens_per_s
    )
