"""One model on one device: everything that a ceiling says, and its JSON."""

from dataclasses import dataclass, replace
from typing import Any

from app.ceiling.decode import DecodeCeiling, Device, Drafting, decode_on, speculative, with_drafts
from app.ceiling.geometry import Geometry
from app.ceiling.prefill import PrefillCeiling, prefill
from app.ceiling.traffic import F16, Step, kv_bytes, kv_bytes_per_token, step
from app.ceiling.types import KvTypes
from app.errors import BadInput
from app.i18n import _
from app.units import GIGA, TERA, number, size

USUAL_PROMPT = 512


@dataclass(frozen=True, slots=True)
class Report:
    geometry: Geometry
    device: Device
    kv: KvTypes
    context: int
    prompt_tokens: int
    step: Step | None
    decode: DecodeCeiling | None
    prefill: PrefillCeiling | None
    assumptions: tuple[str, ...]
    """Of the geometry and of both ceilings, and why something is unknown."""

    @property
    def step_at_most(self) -> Step | None:
        """With the most bytes that files of this quantization have; None where the bytes are no range."""
        if self.geometry.weights_at_most is None:
            return None
        return step(replace(self.geometry, weights=self.geometry.weights_at_most), self.context, self.kv)

    def to_json(self) -> dict[str, Any]:
        step, decode, prefill = self.step, self.decode, self.prefill
        return {
            "weight_bytes_per_token": step and step.weight_bytes,
            "kv_bytes_per_token": kv_bytes_per_token(self.geometry, self.kv),
            "kv_bytes": kv_bytes(self.geometry, self.context, self.kv),
            "step_bytes": step and step.n_bytes,
            "decode_ceiling_tokens_per_s": decode and decode.tokens_per_s,
            "prefill_ceiling_tokens_per_s": prefill and prefill.tokens_per_s,
            "ttft_floor_ms": prefill and prefill.ttft_floor_ms,
            "bound": prefill and prefill.bound,
            "params_total": self.geometry.params_total,
            "params_active": self.geometry.params_active,
            "certainty": self.geometry.certainty,
            "not_understood": list(self.geometry.not_understood),
            "weight_bytes_per_token_at_most": self.step_at_most and self.step_at_most.weight_bytes,
            "assumptions": list(self.assumptions),
        }


def _alternatives(geometry: Geometry, device: Device, context: int, kv: KvTypes, batch: int) -> list[str]:
    """The ceilings with the most bytes, where the bound takes the fewest."""
    sentences = []
    if geometry.attention and any(layers.may_see_all for layers in geometry.attention):
        full = tuple(replace(layers, window=None) if layers.may_see_all else layers for layers in geometry.attention)
        if one := step(replace(geometry, attention=full), context, kv, batch):
            sentences.append(
                _(
                    "if all layers see the whole context, a token reads {n_bytes}: {speed} tok/s",
                    n_bytes=size(one.n_bytes),
                    speed=number(decode_on(one, device).tokens_per_s),
                )
            )
    if geometry.weights_at_most and (
        one := step(replace(geometry, weights=geometry.weights_at_most), context, kv, batch)
    ):
        sentences.append(
            _(
                "files of this quantization differ: with the most bytes a token reads {n_bytes}: {speed} tok/s",
                n_bytes=size(one.n_bytes),
                speed=number(decode_on(one, device).tokens_per_s),
            )
        )
    return sentences


def compute_limit(geometry: Geometry, device: Device, decode_tokens_per_s: float) -> str | None:
    """A sentence where a batch is so large that computing allows less than memory bandwidth does."""
    if device.peak_flops is None or not geometry.params_active:
        return None
    limit = device.peak_flops / (2 * geometry.params_active)
    if decode_tokens_per_s <= limit:
        return None
    return _(
        "computing allows decode no more than {limit} tok/s: {peak_flops} TFLOP/s / (2 x {params_active} B parameters)",
        limit=number(limit),
        peak_flops=number(device.peak_flops / TERA),
        params_active=number(geometry.params_active / GIGA),
    )


def report(
    geometry: Geometry,
    device: Device,
    context: int = 0,
    kv: KvTypes = F16,
    batch: int = 1,
    drafting: Drafting | None = None,
    draft: Geometry | None = None,
) -> Report:
    """Decode with `context` tokens in the cache; prefill of a prompt of that length, or of 512 tokens without one.

    `draft`: of the model that drafts; None: nothing is known of what drafting reads. Raises BadInput.
    """
    if drafting is not None and batch > 1:
        raise BadInput(_("Speculative decoding is computed for one sequence, not for a batch of {batch}.", batch=batch))
    one_step = step(geometry, context, kv, batch)
    decode = decode_on(one_step, device) if one_step else None
    if one_step and decode and drafting:
        read = step(draft, context, kv) if draft else None
        if read is None:
            decode = with_drafts(decode, drafting.drafted, drafting.accepted)
        else:
            decode = speculative(one_step, read, device, drafting)
    prompt_tokens = context or USUAL_PROMPT
    whole = prefill(geometry, [device], prompt_tokens, kv=kv)
    assumptions = [*filter(None, [geometry.doubt]), *geometry.assumptions, *kv.assumptions]
    if decode is None:
        assumptions.append(_("without the weights there is no ceiling"))
    else:
        assumptions += [*decode.assumptions, *_alternatives(geometry, device, context, kv, batch)]
        if (words := compute_limit(geometry, device, decode.tokens_per_s)) is not None:
            assumptions.append(words)
    if whole is not None:
        assumptions += [
            _("prefill of {prompt_tokens:,} tokens into an empty cache", prompt_tokens=prompt_tokens),
            *whole.assumptions,
        ]
    elif decode is not None:
        assumptions.append(_("the device's peak FLOP/s are unknown, so there is no prefill ceiling and no TTFT floor"))
    return Report(geometry, device, kv, context, prompt_tokens, one_step, decode, whole, tuple(assumptions))
