"""One model on one device: everything that a ceiling says, and its JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.ceiling.bytes_per_step import F16, Step, kv_bytes, kv_bytes_per_token, step
from app.ceiling.decode import DecodeCeiling, Device, Drafting, speculative, with_drafts
from app.ceiling.geometry import Geometry
from app.ceiling.layout import Layout, Memory
from app.ceiling.number_formats import KvTypes
from app.ceiling.prefill import PrefillCeiling, prefill
from app.core.errors import BadInput
from app.core.i18n import N_, _, joined
from app.core.units import GIGA, TERA, format_bytes, format_number

USUAL_PROMPT = 512


@dataclass(frozen=True, slots=True)
class Report:
    """The ceilings of one model on one device, with their arithmetic and assumptions."""

    geometry: Geometry
    device: Device
    kv: KvTypes
    context: int
    prompt_tokens: int
    step: Step | None
    decode: DecodeCeiling | None
    prefill: PrefillCeiling | None
    assumptions: tuple[str, ...]
    """Assumptions of the geometry and of both ceilings, and why something is unknown."""
    no_decode: str = ""
    """Why there is no decode ceiling, and what to do about it."""

    @property
    def step_at_most(self) -> Step | None:
        """The step with the most bytes that files of this quantization have; None when the bytes are no range."""
        if self.geometry.weights_at_most is None:
            return None
        return step(replace(self.geometry, weights=self.geometry.weights_at_most), self.context, self.kv)

    def to_json(self) -> dict[str, Any]:
        """The report as the JSON document that the command line prints."""
        step, decode, prefill = self.step, self.decode, self.prefill
        return {
            "weight_bytes_per_token": step and step.weight_bytes,
            "kv_bytes_per_token": kv_bytes_per_token(self.geometry, self.kv),
            "kv_bytes": kv_bytes(self.geometry, self.context, self.kv),
            "step_bytes": step and step.n_bytes,
            "decode_ceiling_tokens_per_s": decode and decode.tokens_per_s,
            "decode_null_reason": self.no_decode or None,
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


def _alternatives(geometry: Geometry, layout: Layout, context: int, kv: KvTypes, batch: int) -> list[str]:
    """Returns the ceilings with the most bytes, when the bound uses the fewest."""
    variants: list[tuple[str, Geometry]] = []
    if geometry.attention and any(layers.may_see_all for layers in geometry.attention):
        full = tuple(replace(layers, window=None) if layers.may_see_all else layers for layers in geometry.attention)
        message = N_("if all layers see the whole context, a token reads {n_bytes}: {speed} tok/s")
        variants.append((message, replace(geometry, attention=full)))
    if geometry.weights_at_most:
        message = N_("files of this quantization differ: with the most bytes a token reads {n_bytes}: {speed} tok/s")
        variants.append((message, replace(geometry, weights=geometry.weights_at_most)))
    sentences = []
    for message, variant in variants:
        variant_step = step(variant, context, kv, batch)
        ceiling = layout.decode(variant, variant_step) if variant_step else None
        if variant_step and ceiling:
            size, speed = format_bytes(variant_step.n_bytes), format_number(ceiling.tokens_per_s)
            sentences.append(_(message, n_bytes=size, speed=speed))
    return sentences


def compute_limit(geometry: Geometry, device: Device, decode_tokens_per_s: float) -> str | None:
    """Says that a batch is so large that computing allows less than memory bandwidth does; None when it is not."""
    if device.peak_flops is None or not geometry.params_active:
        return None
    limit = device.peak_flops / (2 * geometry.params_active)
    if decode_tokens_per_s <= limit:
        return None
    return _(
        "compute limits decode to {limit} tok/s: {peak_flops} TFLOP/s / (2 x {params_active} B parameters)",
        limit=format_number(limit),
        peak_flops=format_number(device.peak_flops / TERA),
        params_active=format_number(geometry.params_active / GIGA),
    )


def without_ram_bandwidth(sentences: Sequence[str]) -> str:
    """Returns why there is no ceiling: a part of the model is in system memory whose bandwidth is unknown."""
    reason = _("the bandwidth of system memory is unknown: enter it")
    return joined(*sentences, reason, by="; ")


def report(
    geometry: Geometry,
    device: Device,
    context: int = 0,
    kv: KvTypes = F16,
    batch: int = 1,
    drafting: Drafting | None = None,
    draft: Geometry | None = None,
    layout: Layout | None = None,
) -> Report:
    """Computes decode with `context` tokens in the cache, and prefill of a prompt of that length, or of 512 tokens.

    `draft` is the geometry of the draft model; None: what drafting reads is unknown. `layout` is the model's placement;
    None: on the device, which is large enough. Raises BadInput.
    """
    if drafting is not None and batch > 1:
        raise BadInput(_("Speculative decoding is computed for one sequence, not for a batch of {batch}.", batch=batch))
    decode_step = step(geometry, context, kv, batch)
    layout = layout or Layout((Memory(device),))
    decode = layout.decode(geometry, decode_step) if decode_step else None
    if decode_step and decode and drafting:
        draft_step = step(draft, context, kv) if draft else None
        if draft_step is None or layout.sentences(geometry, decode_step):  # elsewhere than on the device
            decode = with_drafts(decode, drafting.drafted, drafting.accepted)
        else:
            decode = speculative(decode_step, draft_step, device, drafting)
    prompt_tokens = context or USUAL_PROMPT
    prefill_ceiling = prefill(geometry, [device], prompt_tokens, kv=kv)
    assumptions = [*filter(None, [geometry.doubt]), *geometry.assumptions, *kv.assumptions]
    no_decode = ""
    if decode_step is None:
        no_decode = _("without the weights there is no ceiling")
    elif decode is None:
        no_decode = without_ram_bandwidth(layout.sentences(geometry, decode_step))
    if decode is None:
        assumptions.append(no_decode)
    else:
        assumptions += [*decode.assumptions, *_alternatives(geometry, layout, context, kv, batch)]
        if (words := compute_limit(geometry, device, decode.tokens_per_s)) is not None:
            assumptions.append(words)
    if prefill_ceiling is not None:
        assumptions += [
            _("prefill of {prompt_tokens:,} tokens into an empty cache", prompt_tokens=prompt_tokens),
            *prefill_ceiling.assumptions,
        ]
    elif decode is not None:
        assumptions.append(_("the device's peak FLOP/s are unknown, so there is no prefill ceiling and no TTFT floor"))
    return Report(
        geometry,
        device,
        kv,
        context,
        prompt_tokens,
        decode_step,
        decode,
        prefill_ceiling,
        tuple(assumptions),
        no_decode,
    )
