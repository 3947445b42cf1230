"""Each measured point of a run under its ceiling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sqlmodel import Session

from app.ceiling.advice import mean_context
from app.ceiling.decode import DecodeCeiling, with_drafts
from app.ceiling.efficiency import cache_guard, mbu, mfu, why_above_all
from app.ceiling.geometry import Certainty
from app.ceiling.prefill import PrefillCeiling, prefill
from app.ceiling.traffic import Step, step
from app.i18n import _
from app.metrics import Measured
from app.models import Config, Model, Run
from app.roof.foundation import Foundation, Unknown, computing, foundation
from app.samples import Point
from app.store.drafts import Drafts, drafts_of
from app.store.hardware import Hardware
from app.store.models import told_of


@dataclass(frozen=True)
class PointRoof:
    """One measured point under its ceiling. Shares are of 1 and never clamped; None is unknown."""

    point: Point
    context: int
    """Mean context during decode."""
    step: Step
    drafts: Drafts | None
    """What speculative decoding added; None: the server does not tell."""
    decode: DecodeCeiling
    decode_tokens_per_s: float | None
    """Measured, all streams together."""
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
class RunRoof:
    foundation: Foundation
    points: tuple[PointRoof, ...]

    @property
    def certainty(self) -> Certainty:
        return self.foundation.geometry.certainty

    @property
    def not_understood(self) -> tuple[str, ...]:
        return self.foundation.geometry.not_understood

    def at(self, point: Point | None) -> PointRoof | None:
        return next((each for each in self.points if each.point == point), None)


def run_roof(
    session: Session,
    run: Run,
    config: Config | None,
    model: Model | None,
    hardware: Hardware,
    measured: Sequence[Measured],
) -> RunRoof | Unknown | None:
    """On `hardware`, which the run has frozen. None for a run whose configuration was never known."""
    if config is None or model is None:
        return None
    assert run.id is not None
    found = foundation(hardware.devices, config, told_of(session, model), hardware.said)
    if isinstance(found, Unknown):
        return found
    drafts = {point: each for (_, point), each in drafts_of(session, [run.id]).items()}
    return RunRoof(found, roofs(found, measured, drafts))


def roofs(
    found: Foundation, measured: Sequence[Measured], drafts: Mapping[Point, Drafts] = MappingProxyType({})
) -> tuple[PointRoof, ...]:
    """Of each point in the order measured."""
    points = dict.fromkeys(each.point for each in measured)
    shown = {(each.point, each.metric): each.value for each in measured if each.is_shown}
    return tuple(
        _roof(
            found,
            point,
            drafts.get(point),
            shown.get((point, "decode_tokens_per_s")),
            shown.get((point, "prefill_tokens_per_s")),
            shown.get((point, "ttft_ms")),
        )
        for point in points
    )


def step_of(found: Foundation, point: Point) -> Step:
    read = step(found.geometry, context_of(point), found.kv, found.at_once(point))
    assert read is not None, "a foundation has weights"
    return read


def decode_of(found: Foundation, read: Step, drafts: Drafts | None) -> DecodeCeiling:
    ceiling = found.decode(read)
    if drafts is None or not drafts.drafted:
        return ceiling
    return with_drafts(ceiling, drafts.drafted_per_pass, drafts.accepted_per_pass)


def tokens_per_step(drafts: Drafts | None) -> float:
    """What a reading of the weights gave each stream, on average."""
    return 1 + (drafts.accepted_per_pass if drafts else 0)


def context_of(point: Point) -> int:
    return point.depth + mean_context(point.prompt_tokens, point.output_tokens)


def _roof(
    found: Foundation,
    point: Point,
    drafts: Drafts | None,
    stream_tokens_per_s: float | None,
    prefill_now: float | None,
    ttft_ms: float | None,
) -> PointRoof:
    one = step_of(found, point)
    ceiling = decode_of(found, one, drafts)
    now = stream_tokens_per_s and stream_tokens_per_s * one.batch
    share = mbu(now, ceiling.tokens_per_s) if now else None
    whole, why = _prefill(found, point)
    peak = sum(holder.device.peak_flops or 0 for holder in found.holders)
    return PointRoof(
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
        mfu=mfu(prefill_now, point.prompt_tokens, whole.flops, peak) if whole and prefill_now else None,
        assumptions=(
            *filter(None, [found.geometry.doubt]),
            *found.geometry.assumptions,
            *found.assumptions,
            *ceiling.assumptions,
            *(whole.assumptions if whole else ()),
        ),
    )


def _above(found: Foundation, one: Step, share: float, drafts: Drafts | None) -> tuple[str, ...]:
    is_speculative = None if drafts is None else drafts.drafted > 0
    return why_above_all(share, found.geometry, one, found.is_measured, found.llc_bytes, is_speculative)


def _prefill(found: Foundation, point: Point) -> tuple[PrefillCeiling | None, str]:
    """And why there is none."""
    if point.concurrency > 1:
        return None, _("Several streams ran at once, which share what computing there is.")
    without = next((holder for holder in found.holders if holder.device.peak_flops is None), None)
    if without is not None:
        return None, _(
            "The peak compute of {without} is unknown, so there is no prefill ceiling and no TTFT floor. State it on "
            "the machine's page.",
            without=computing(without.device.name, without.is_ram),
        )
    held = [holder.device for holder in found.holders]
    return prefill(found.geometry, held, point.prompt_tokens, point.depth, found.kv), ""
