"""Each measured point of a run under its ceiling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sqlmodel import Session

from app.ceiling.bytes_per_step import Step, step
from app.ceiling.decode import DecodeCeiling, with_drafts
from app.ceiling.efficiency import cache_guard, mbu, mfu, why_above_all
from app.ceiling.geometry import Certainty
from app.ceiling.prefill import PrefillCeiling, prefill
from app.core.i18n import _
from app.core.samples import Workload
from app.db.models import geometry_of
from app.db.tables import Config, Model, Run
from app.metrics import MetricResult
from app.metrics.token_counts import TokenCounts
from app.results.ceiling.cards import Unknown
from app.results.ceiling.placement import Placement, computing, resolve_placement
from app.results.hardware import Hardware, gpu_share_of
from app.results.speculation import Drafts, drafts_of
from app.results.token_counts import token_counts


@dataclass(frozen=True)
class PointCeiling:
    """One measured point under its ceiling. Shares are of 1 and never clamped; None is unknown."""

    point: Workload
    context: int
    """Mean context during decode, by the tokens that were counted."""
    step: Step
    drafts: Drafts | None
    """What speculative decoding added; None: the server does not tell."""
    decode: DecodeCeiling
    decode_tokens_per_s: float | None
    """Measured, all streams together: of several ones the throughput of their rounds, which holds their prompts too."""
    mbu: float | None
    above: tuple[str, ...]
    """Which assumption must be wrong when more than all was reached."""
    cache: str | None
    prefill: PrefillCeiling | None
    why_no_prefill: str
    prefill_tokens_per_s: float | None
    ttft_ms: float | None
    mfu: float | None
    assumptions: tuple[str, ...]
    does_not_fit: str | None = None
    """One sentence where the cards cannot hold the model and its cache: the ceiling is that of the best split."""

    @property
    def prefill_share(self) -> float | None:
        """Of the prefill ceiling, whatever binds there; MFU is of the compute peak alone."""
        if self.prefill is None or not self.prefill_tokens_per_s:
            return None
        return self.prefill_tokens_per_s / self.prefill.tokens_per_s

    @property
    def steps_per_s(self) -> float | None:
        """Readings of the weights, times the number of streams."""
        return self.decode_tokens_per_s and self.decode_tokens_per_s / tokens_per_step(self.drafts)


@dataclass(frozen=True)
class RunCeiling:
    placement: Placement
    points: tuple[PointCeiling, ...]

    @property
    def certainty(self) -> Certainty:
        return self.placement.geometry.certainty

    @property
    def not_understood(self) -> tuple[str, ...]:
        return self.placement.geometry.not_understood

    def at(self, point: Workload | None) -> PointCeiling | None:
        return next((each for each in self.points if each.point == point), None)


def run_ceiling(
    session: Session,
    run: Run,
    config: Config | None,
    model: Model | None,
    hardware: Hardware,
    measured: Sequence[MetricResult],
) -> RunCeiling | Unknown | None:
    """On `hardware`, which the run has frozen. None for a run whose configuration was never known."""
    if config is None or model is None:
        return None
    assert run.id is not None
    found = resolve_placement(
        hardware.devices, config, geometry_of(session, model), hardware.assumptions, gpu_share_of(run.evidence)
    )
    if isinstance(found, Unknown):
        return found
    drafts = {point: each for (_, point), each in drafts_of(session, [run.id]).items()}
    counts = {point: means for (_, point), means in token_counts(session, [run.id]).items()}
    return RunCeiling(found, run_ceilings(found, measured, drafts, counts))


def run_ceilings(
    found: Placement,
    measured: Sequence[MetricResult],
    drafts: Mapping[Workload, Drafts] = MappingProxyType({}),
    counts: Mapping[Workload, TokenCounts] = MappingProxyType({}),
) -> tuple[PointCeiling, ...]:
    """Of each point in the order measured."""
    points = dict.fromkeys(each.point for each in measured)
    shown = {(each.point, each.metric): each.value for each in measured if each.is_shown}
    return tuple(
        _roof(
            found,
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
    """What is held against a decode ceiling. No stream's speed times their number: they need not decode together."""
    return "decode_tokens_per_s" if point.concurrency == 1 else "output_tokens_per_s"


def step_of(found: Placement, point: Workload, counts: TokenCounts | None) -> Step:
    read = step(found.geometry, context_of(point, counts), found.kv, found.at_once(point))
    assert read is not None, "a placement has weights"
    return read


def decode_of(found: Placement, read: Step, drafts: Drafts | None) -> DecodeCeiling:
    ceiling = found.decode(read)
    if drafts is None or not drafts.drafted:
        return ceiling
    return with_drafts(ceiling, drafts.drafted_per_pass, drafts.accepted_per_pass)


def tokens_per_step(drafts: Drafts | None) -> float:
    """What a reading of the weights gave each stream, on average."""
    return 1 + (drafts.accepted_per_pass if drafts else 0)


def context_of(point: Workload, counts: TokenCounts | None) -> int:
    """Tokens in the cache during a decode, on average: as counted, else as many as the suite asked for."""
    counts = counts or TokenCounts()
    prompt_tokens = point.prompt_tokens if counts.prompt_tokens is None else counts.prompt_tokens
    output_tokens = point.output_tokens if counts.output_tokens is None else counts.output_tokens
    return point.depth + round(prompt_tokens + output_tokens / 2)


def _roof(
    found: Placement,
    point: Workload,
    drafts: Drafts | None,
    counts: TokenCounts,
    now: float | None,
    prefill_now: float | None,
    ttft_ms: float | None,
) -> PointCeiling:
    one = step_of(found, point, counts)
    ceiling = decode_of(found, one, drafts)
    share = mbu(now, ceiling.tokens_per_s) if now else None
    whole, why = _prefill(found, point, counts)
    peak = sum(device_share.device.peak_flops or 0 for device_share in found.device_shares)
    return PointCeiling(
        point=point,
        context=one.context,
        step=one,
        drafts=drafts,
        decode=ceiling,
        decode_tokens_per_s=now,
        mbu=share,
        above=_above(found, one, share, drafts) if share else (),
        cache=cache_guard(one, found.llc_bytes),
        prefill=whole,
        why_no_prefill=why,
        prefill_tokens_per_s=prefill_now,
        ttft_ms=ttft_ms,
        mfu=mfu(prefill_now, whole.tokens, whole.flops, peak) if whole and prefill_now else None,
        assumptions=(
            *filter(None, [found.geometry.doubt]),
            *found.geometry.assumptions,
            *found.assumptions,
            *(() if counts.prompt_tokens is not None else (_uncounted(point),)),
            *ceiling.assumptions,
            *(whole.assumptions if whole else ()),
        ),
        does_not_fit=found.layout.overflow(found.geometry, one),
    )


def _uncounted(point: Workload) -> str:
    return _(
        "nobody counted the tokens of the prompt, so the {tokens:,} that the suite asks for are taken",
        tokens=point.prompt_tokens,
    )


def _above(found: Placement, one: Step, share: float, drafts: Drafts | None) -> tuple[str, ...]:
    is_speculative = None if drafts is None else drafts.drafted > 0
    reasons = why_above_all(share, found.geometry, one, found.is_measured, found.llc_bytes, is_speculative)
    if reasons and found.ram_time_share(one):
        return (_("more of the model may be on GPUs than the ceiling was computed with"), *reasons)
    return reasons


def _prefill(found: Placement, point: Workload, counts: TokenCounts) -> tuple[PrefillCeiling | None, str]:
    """And why there is none. Of the tokens that were not cached."""
    if point.concurrency > 1:
        return None, _(
            "Several streams ran at once and shared the compute, so there is no prefill ceiling for one of them."
        )
    without = next(
        (device_share for device_share in found.device_shares if device_share.device.peak_flops is None), None
    )
    if without is not None:
        return None, _(
            "The peak compute of {without} is unknown, so there is no prefill ceiling and no TTFT floor. State it on "
            "the machine's page.",
            without=computing(without.device.name, without.is_ram),
        )
    held = [device_share.device for device_share in found.device_shares]
    cached = round(counts.cached_tokens or 0)
    whole = point.prompt_tokens if counts.prompt_tokens is None else round(counts.prompt_tokens)
    return prefill(found.geometry, held, max(whole - cached, 1), point.depth + cached, found.kv), ""
