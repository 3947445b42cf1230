"""The JSON documents: one run ("roofmark.run/2") and a page of runs. The same for the API, `show` and `run`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlmodel import Session

from app.core.samples import Sample, Workload
from app.core.server_metrics import ServerMetric
from app.db import measurements, runs, samples
from app.db.tables import Config, Machine, Model, Run
from app.metrics import MetricResult, metrics
from app.metrics.server_vs_client import compare_with_client, disagreement
from app.metrics.serving import largest_within, serving
from app.metrics.throughput import USUAL_SLO
from app.results import hardware
from app.results.ceiling import DeviceShare, Limits, RunCeiling, Unknown, flag_above_ceiling, limits_of_run, run_ceiling
from app.results.compare import baseline
from app.results.compare.main_verdict import MainVerdict
from app.results.previous import Previous, previous
from app.results.run_list import Row

RUN_SCHEMA = "roofmark.run/2"
RUNS_SCHEMA = "roofmark.runs/1"


def run_document(session: Session, public_id: str) -> dict[str, Any]:
    """`changes` and `previous` are null for the first configuration of a server, `baseline` where none is pinned for a
    run that comes before this one. Raises NotFound."""
    run = runs.run(session, public_id)
    assert run.id is not None
    machine, server, config, model = run.machine, run.server, run.config, run.model
    taken = samples.samples_of(session, run.id)
    measured = measurements.measurements_of(session, run.id)
    roof = run_ceiling(session, run, config, model, hardware.hardware_of(session, run), measured)
    taken = flag_above_ceiling(taken, roof)
    from app import engines  # loads every engine: not at start

    before = previous(session, run, engines.titles())
    verdicts = baseline.verdicts_of_run(session, run, before.run if before else None)
    return {
        "schema": RUN_SCHEMA,
        "run": {
            "id": run.public_id,
            "status": run.status,
            "source": run.source,
            "note": run.note,
            "labels": run.labels,
            "hidden": _hidden(run.hidden_at, run.hidden_reason),
            "queued_at": _time(run.queued_at),
            "started_at": _time(run.started_at),
            "finished_at": _time(run.finished_at),
            "suite": {"key": run.suite_key, "sha256": run.suite_sha256},
            "machine": _machine(machine),
            "hardware": run.hardware,
            "server": {"slug": server.slug, "name": server.name},
            "config": _config(config, model),
            "changes": list(before.changes) if before else None,
            "previous": _previous(before, verdicts.previous),
            "samples_done": run.samples_done,
            "samples_planned": run.samples_planned,
            "warnings": run.evidence.get("warnings", []),
            "unsound": list(verdicts.unsound),
            "server_counted": _counted(run.evidence.get("server", []), taken),
            "error": run.error,
        },
        "baseline": baseline.to_json(verdicts.standing),
        "points": _points(run, config, measured, roof, taken),
        "serving": _serving(taken),
        "samples": [_sample(sample) for sample in taken],
    }


def runs_document(rows: Sequence[Row], total: int, page: int, per_page: int) -> dict[str, Any]:
    return {
        "schema": RUNS_SCHEMA,
        "total": total,
        "page": page,
        "per_page": per_page,
        "runs": [
            {
                "id": row.public_id,
                "status": row.status,
                "suite": row.suite_key,
                "note": row.note,
                "run_labels": row.run_labels,
                "hidden": _hidden(row.hidden_at, row.hidden_reason),
                "error": row.error,
                "queued_at": _time(row.queued_at),
                "started_at": _time(row.started_at),
                "finished_at": _time(row.finished_at),
                "machine": row.machine_slug,
                "server": row.server_slug,
                "engine": row.engine,
                "engine_version": row.engine_version,
                "model": row.model,
                "quantization": row.quantization,
                "settings": row.settings,
                "labels": row.labels,
                "fingerprint": row.fingerprint,
                "ttft_ms": row.ttft._asdict(),
                "prefill_tokens_per_s": row.prefill._asdict(),
                "decode_tokens_per_s": row.decode._asdict(),
            }
            for row in rows
        ],
    }


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _hidden(since: datetime | None, reason: str) -> dict[str, Any] | None:
    return {"since": _time(since), "reason": reason} if since else None


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "slug": machine.slug,
        "name": machine.name,
        "kind": machine.kind,
        "accelerators": machine.accelerators,
        "ram_bytes": machine.ram_bytes,
        "os": machine.os,
        "cpu": machine.cpu,
    }


def _config(config: Config | None, model: Model | None) -> dict[str, Any] | None:
    if config is None or model is None:
        return None
    return {
        "engine": config.engine,
        "engine_version": config.engine_version,
        "model": model.name,
        "quantization": model.quantization or None,
        "settings": config.settings,
        "labels": config.labels,
        "note": config.note,
        "fingerprint": config.fingerprint,
    }


def _previous(before: Previous | None, main: MainVerdict | None) -> dict[str, Any] | None:
    """The newest run of the server's previous configuration with the same suite, and this run against it."""
    if before is None or main is None:
        return None
    return {
        "id": before.public_id,
        "verdict": main.verdict,
        "reason": main.reason,
        "ratios": {key: asdict(ratio) for key, ratio in main.ratios.items()},
        "values": {key: values._asdict() for key, values in main.values.items()},
        "unsound": list(main.unsound),
        "scatters": {key: asdict(scatter) for key, scatter in main.scatters.items()},
    }


def _counted(kept: Sequence[Mapping[str, Any]], taken: Sequence[Sample]) -> list[dict[str, Any]]:
    """What the server counted, with the client's figure of the same requests and the likely cause of a difference."""
    return [
        {
            **each.counted.to_json(),
            "client": each.client,
            "difference": each.difference,
            "likely_cause": each.cause or None,
            "null_reason": each.null_reason,
        }
        for each in compare_with_client([ServerMetric.from_json(figure) for figure in kept], taken)
    ]


def _points(
    run: Run,
    config: Config | None,
    measured: Sequence[MetricResult],
    roof: RunCeiling | Unknown | None,
    taken: Sequence[Sample],
) -> list[dict[str, Any]]:
    engine = config.engine if config else ""
    by_point: dict[Workload, list[MetricResult]] = {}
    for each in measured:
        by_point.setdefault(each.point, []).append(each)
    points = [
        {
            "point": asdict(point),
            "metrics": [_metric(each) for each in found if each.value is not None],
            "nulls": _nulls(found),
            "disagreement": disagreement(found, [sample for sample in taken if sample.point == point]),
            "ceiling": _ceiling(roof, point),
            "limits": _limits(limits_of_run(taken, point, roof, run.evidence, engine)),
        }
        for point, found in by_point.items()
    ]
    for left_out in run.evidence.get("left_out", []):
        point = Workload.from_key(left_out["point"])
        nulls = [{"key": key, "reason": "exceeds_context"} for key in ("ttft_ms", *_TIMED)]
        unknown = {"disagreement": None, "ceiling": None, "limits": None}
        points.append({"point": asdict(point), "metrics": [], "nulls": nulls, **unknown})
    return points


def _limits(found: Limits) -> dict[str, Any]:
    """What limits the result at this point, what to change first in front; and what is not known of it."""
    return {"found": [asdict(each) for each in found.found], "unknown": list(found.unknown)}


def _serving(taken: Sequence[Sample]) -> dict[str, Any] | None:
    """How many streams could be served within the usual limits; null without several streams."""
    found = serving(taken, USUAL_SLO)
    if not found:
        return None
    return {
        "slo": asdict(USUAL_SLO),
        "largest_streams": largest_within(found),
        "points": [asdict(each) for each in found],
    }


def _ceiling(roof: RunCeiling | Unknown | None, point: Workload) -> dict[str, Any] | None:
    """What the hardware allows at this point and which share of it was reached; or the reason why that is unknown."""
    if isinstance(roof, Unknown):
        return {"reason": f"{roof.reason} {roof.remedy}"}
    found = roof.at(point) if roof else None
    if roof is None or found is None:
        return None
    prefill = found.prefill
    return {
        "step_bytes": found.step.n_bytes,
        "context": found.context,
        "decode_tokens_per_s": found.decode.tokens_per_s,
        "decode_words": found.decode.words,
        "draft_tokens_per_step": found.drafts and found.drafts.drafted_per_pass,
        "accepted_tokens_per_step": found.drafts and found.drafts.accepted_per_pass,
        "mbu": found.mbu,
        "prefill_tokens_per_s": prefill and prefill.tokens_per_s,
        "prefill_words": prefill and prefill.words,
        "ttft_floor_ms": prefill and prefill.ttft_floor_ms,
        "bound": prefill and prefill.bound,
        "mfu": found.mfu,
        "devices": [_device_share(device_share) for device_share in roof.placement.device_shares],
        "certainty": roof.certainty,
        "not_understood": list(roof.not_understood),
        "geometry_source": roof.placement.geometry.source,
        "geometry_stated_at": _time(roof.placement.told.stated_at),
        "kv_type": str(roof.placement.kv),
        "does_not_fit": found.does_not_fit,
        "cache_guard": found.cache,
        "above": list(found.above),
        "assumptions": list(found.assumptions),
    }


def _device_share(device_share: DeviceShare) -> dict[str, Any]:
    return {
        "name": device_share.device.name,
        "bandwidth_bytes_per_s": device_share.device.bandwidth_bytes_per_s,
        "bandwidth_source": device_share.stated.source,
        "bandwidth_at": _time(device_share.stated.at),
        "bandwidth_after_run": device_share.stated.is_later,
        "peak_flops": device_share.device.peak_flops,
    }


_TIMED = ("prefill_tokens_per_s", "decode_tokens_per_s")


def _nulls(found: Sequence[MetricResult]) -> list[dict[str, Any]]:
    """Metrics that no source could give, with the reason of the source that would be shown."""
    known = {each.metric for each in found if each.value is not None}
    by_rank = sorted(found, key=lambda each: each.is_shown)
    nulls = {each.metric: each.null_reason for each in by_rank if each.metric not in known}
    return [{"key": key, "reason": reason} for key, reason in nulls.items()]


def _metric(each: MetricResult) -> dict[str, Any]:
    return {
        "key": each.metric,
        "source": each.source,
        "value": each.value,
        "low": each.low,
        "high": each.high,
        "minimum": each.minimum,
        "maximum": each.maximum,
        "standard_deviation": each.standard_deviation,
        "samples": each.samples,
        "left_out": each.left_out,
        "unit": each.unit,
    }


def _sample(sample: Sample) -> dict[str, Any]:
    trace = sample.trace
    read = {key: metrics()[key].read([sample])[0].value for key in ("ttft_ms", "ttfa_ms", "e2e_ms")}
    return {
        "ordinal": sample.ordinal,
        "point": asdict(sample.point),
        "warmup": sample.is_warmup,
        "status": trace.status.value,
        **read,
        **{key: _by_source(sample, key) for key in _TIMED},
        "prompt_tokens": trace.prompt_tokens,
        "cached_tokens": trace.cached_tokens,
        "output_tokens": trace.output_tokens,
        "token_count_source": trace.count_source.value if trace.count_source else None,
        "finish_reason": trace.finish_reason,
        "text_sha256": trace.text_sha256,
        "flags": list(sample.flags),
        "error": trace.error,
    }


def _by_source(sample: Sample, key: str) -> dict[str, float | None]:
    return {reading.source: reading.value for reading in metrics()[key].read([sample])}
