"""What was checked before and after a run, in sentences: good news as checks, bad news as warnings."""

from collections.abc import Sequence
from typing import Any

from app.bench import Prepared
from app.engines.base import Counters
from app.runner import sensing
from app.samples import Sample, Status
from app.units import plural


def before(prepared: Prepared, warnings: Sequence[str]) -> dict[str, Any]:
    return {
        "warnings": list(warnings),
        "left_out": [{"point": case.point.key, "reason": sentence} for case, sentence in prepared.left_out],
        "checks": [
            f"The server's tokenizer counts {counted:,} tokens in the prompt of about {case.point.prompt_tokens:,}."
            for case, counted in prepared.cases
            if counted is not None
        ],
    }


def after(
    known: dict[str, Any],
    taken: Sequence[Sample],
    began: Counters | None,
    ended: Counters | None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """`known` with what the samples, the server's own counters and its `notes` afterwards say about the whole run."""
    checks, warnings = list(known.get("checks", ())), list(known.get("warnings", ()))
    complete = [sample for sample in taken if sample.trace.status is Status.OK]
    measured = [sample for sample in complete if not sample.is_warmup]
    cached = [sample.trace.cached_tokens for sample in measured]
    if cached and all(count == 0 for count in cached):
        checks.append("No prompt token came from the server's cache.")
    if measured and all(sample.trace.output_tokens == sample.point.output_tokens for sample in measured):
        checks.append("Every sample has exactly the asked output length.")
    models = list(dict.fromkeys(sample.trace.model for sample in taken if sample.trace.model))
    if len(models) > 1:
        warnings.append(
            f"The server answered with different models during the run: {', '.join(models)}. Measure each by itself."
        )
    warnings += [note for note in notes if note not in warnings]
    warnings += sensing.warnings(taken)
    if began and ended and len(complete) == len(taken):
        others = _of_others(complete, began, ended)
        if others > 0:
            warnings.append(
                f"The server processed {plural(others, 'prompt token')} for somebody else during the run: measure "
                "again while nobody else uses it."
            )
        elif others == 0:
            checks.append("The server's own counters saw no other request during the run.")
    return {**known, "checks": checks, "warnings": warnings}


def _of_others(taken: Sequence[Sample], began: Counters, ended: Counters) -> int:
    """Prompt tokens, fresh or cached, that the server counted beyond ours; -1 where it cannot be known."""
    ours = [sample.trace.prompt_tokens for sample in taken]
    pairs = [
        (began.prompt_tokens, ended.prompt_tokens),
        (began.cached_prompt_tokens or 0.0, ended.cached_prompt_tokens or 0.0),
    ]
    grown = 0.0
    for start, end in pairs:
        if start is None or end is None or end < start:  # a restart counts from zero again
            return -1
        grown += end - start
    if any(count is None for count in ours):
        return -1
    return max(0, round(grown) - sum(count or 0 for count in ours))
