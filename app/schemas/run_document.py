"""The JSON documents: one run ("roofmark.run/3") and a page of runs. The same for the API, `show` and `run`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlmodel import Session

from app.core.samples import Sample, Workload
from app.db.tables import Config, Machine, Model
from app.metrics import HEADLINE_METRICS, MetricResult, metrics
from app.metrics.server_vs_client import ServerClientComparison, disagreement
from app.metrics.serving import largest_within
from app.metrics.throughput import USUAL_SLO
from app.results.ceiling import DeviceShare, Limits, RunCeiling, Unknown
from app.results.compare import baseline
from app.results.compare.scatter import MainVerdict
from app.results.load_run import LeftOut, RunResult, load_run
from app.results.previous import Previous
from app.results.run_list import RunRow
from app.results.wrong_runs import WrongRun

RUN_SCHEMA = "roofmark.run/3"
RUNS_SCHEMA = "roofmark.runs/1"


def run_document(session: Session, public_id: str) -> dict[str, Any]:
    """`changes`, `unknown_settings` and `previous` are null for the first configuration of a model on a machine,
    `baseline` where none is pinned for a run that comes before this one. Raises NotFound."""
    return to_document(load_run(session, public_id))


def to_document(result: RunResult) -> dict[str, Any]:
    run, server, previous, verdicts = result.run, result.server, result.previous, result.verdicts
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
            "machine": _machine(result.machine),
            "hardware": run.hardware,
            "server": {"slug": server.slug, "name": server.name},
            "config": _config(result.config, result.model),
            "changes": list(previous.changes) if previous else None,
            "unknown_settings": list(previous.unknown) if previous else None,
            "previous": _previous(previous, verdicts.previous),
            "samples_done": run.samples_done,
            "samples_planned": run.samples_planned,
            "wrong": wrong_document(result.wrong),
            "warnings": result.warnings,
            "unsound": list(verdicts.unsound),
            "server_counted": [_server_metric(comparison) for comparison in result.server_comparisons],
            "error": run.error,
        },
        "baseline": baseline.to_json(verdicts.standing),
        "points": [*(_point(result, point) for point in result.points), *map(_left_out_point, result.left_out)],
        "serving": _serving(result),
        "samples": [_sample(sample) for sample in result.samples],
    }


def wrong_document(wrong: WrongRun | None) -> dict[str, Any] | None:
    """Returns how a run stands off from the other runs of its configuration; None where it does not."""
    if wrong is None:
        return None
    return {
        "sentence": wrong.sentence,
        "metrics": [{**metric._asdict(), "change": metric.change} for metric in wrong.metrics],
        "causes": list(wrong.causes),
    }


def runs_document(
    rows: Sequence[RunRow], total: int, page: int, per_page: int, wrong: Mapping[str, WrongRun]
) -> dict[str, Any]:
    """Returns a page of runs; `wrong` holds those that stand off from the other runs of their configuration."""
    return {
        "schema": RUNS_SCHEMA,
        "total": total,
        "page": page,
        "per_page": per_page,
        "metrics": {key: {"title": metric.title, "unit": metric.unit} for key, metric in metrics().items()},
        "runs": [
            {
                "id": row.public_id,
                "status": row.status,
                "suite": row.suite_key,
                "note": row.note,
                "run_labels": row.run_labels,
                "hidden": _hidden(row.hidden_at, row.hidden_reason),
                "wrong": wrong_document(wrong.get(row.public_id)),
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
                **{key: row.metrics[key]._asdict() for key in HEADLINE_METRICS},
                "metrics": {key: shown._asdict() for key, shown in row.metrics.items() if shown.value is not None},
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


def _previous(previous: Previous | None, main: MainVerdict | None) -> dict[str, Any] | None:
    """The newest run of the nearest earlier configuration with the same suite, and this run against it."""
    if previous is None or main is None:
        return None
    return {
        "id": previous.public_id,
        "verdict": main.verdict,
        "reason": main.reason,
        "ratios": {key: asdict(ratio) for key, ratio in main.ratios.items()},
        "values": {key: values._asdict() for key, values in main.values.items()},
        "unsound": list(main.unsound),
        "scatters": {key: asdict(scatter) for key, scatter in main.scatters.items()},
    }


def _server_metric(comparison: ServerClientComparison) -> dict[str, Any]:
    """A metric of the server's own, the client's value of the same requests, and why they may differ."""
    return {
        **comparison.server_metric.to_json(),
        "client": comparison.client,
        "difference": comparison.difference,
        "likely_cause": comparison.cause or None,
        "null_reason": comparison.null_reason,
    }


def _point(result: RunResult, point: Workload) -> dict[str, Any]:
    metric_results = result.metrics_at(point)
    return {
        "point": asdict(point),
        "metrics": [_metric(metric) for metric in metric_results if metric.value is not None],
        "nulls": _nulls(metric_results),
        "disagreement": disagreement(metric_results, result.samples_at(point)),
        "ceiling": _ceiling(result.ceiling, point),
        "limits": _limits(result.limits_at(point)),
    }


def _left_out_point(left_out: LeftOut) -> dict[str, Any]:
    nulls = [{"key": key, "reason": "exceeds_context"} for key in HEADLINE_METRICS]
    unknown = {"disagreement": None, "ceiling": None, "limits": None}
    return {"point": asdict(left_out.point), "metrics": [], "nulls": nulls, **unknown}


def _limits(limits: Limits) -> dict[str, Any]:
    """What limits the result at this point, what to change first in front; and what is not known of it."""
    return {"found": [asdict(limit) for limit in limits.findings], "unknown": list(limits.unknown)}


def _serving(result: RunResult) -> dict[str, Any] | None:
    """How many streams could be served within the usual limits; null without several streams."""
    served = result.serving(USUAL_SLO)
    if not served:
        return None
    return {
        "slo": asdict(USUAL_SLO),
        "largest_streams": largest_within(served),
        "points": [asdict(streams) for streams in served],
    }


def _ceiling(run_ceiling: RunCeiling | Unknown | None, point: Workload) -> dict[str, Any] | None:
    """What the hardware allows at this point and which share of it was reached; or the reason why that is unknown."""
    if isinstance(run_ceiling, Unknown):
        return {"reason": f"{run_ceiling.reason} {run_ceiling.remedy}"}
    ceiling = run_ceiling.at(point) if run_ceiling else None
    if run_ceiling is None or ceiling is None:
        return None
    prefill = ceiling.prefill
    return {
        "step_bytes": ceiling.step.n_bytes,
        "context": ceiling.context,
        "decode_tokens_per_s": ceiling.decode.tokens_per_s,
        "decode_words": ceiling.decode.words,
        "draft_tokens_per_step": ceiling.drafts and ceiling.drafts.drafted_per_pass,
        "accepted_tokens_per_step": ceiling.drafts and ceiling.drafts.accepted_per_pass,
        "mbu": ceiling.mbu,
        "prefill_tokens_per_s": prefill and prefill.tokens_per_s,
        "prefill_words": prefill and prefill.words,
        "ttft_floor_ms": prefill and prefill.ttft_floor_ms,
        "bound": prefill and prefill.bound,
        "mfu": ceiling.mfu,
        "devices": [_device_share(device_share) for device_share in run_ceiling.placement.device_shares],
        "certainty": run_ceiling.certainty,
        "not_understood": list(run_ceiling.not_understood),
        "geometry_source": run_ceiling.placement.geometry.source,
        "geometry_stated_at": _time(run_ceiling.placement.known_geometry.stated_at),
        "kv_type": str(run_ceiling.placement.kv),
        "does_not_fit": ceiling.does_not_fit,
        "cache_guard": ceiling.cache,
        "above": list(ceiling.above),
        "assumptions": list(ceiling.assumptions),
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


_SPEEDS = ("prefill_tokens_per_s", "decode_tokens_per_s")


def _nulls(results: Sequence[MetricResult]) -> list[dict[str, Any]]:
    """Metrics that no source could give, with the reason of the source that would be shown."""
    with_value = {result.metric for result in results if result.value is not None}
    by_rank = sorted(results, key=lambda result: result.is_shown)
    nulls = {result.metric: result.null_reason for result in by_rank if result.metric not in with_value}
    return [{"key": key, "reason": reason} for key, reason in nulls.items()]


def _metric(result: MetricResult) -> dict[str, Any]:
    return {
        "key": result.metric,
        "title": metrics()[result.metric].title if result.metric in metrics() else result.metric,
        "source": result.source,
        "value": result.value,
        "low": result.low,
        "high": result.high,
        "minimum": result.minimum,
        "maximum": result.maximum,
        "standard_deviation": result.standard_deviation,
        "samples": result.samples,
        "left_out": result.left_out,
        "unit": result.unit,
    }


def _sample(sample: Sample) -> dict[str, Any]:
    trace = sample.trace
    timings = {key: metrics()[key].read([sample])[0].value for key in ("ttft_ms", "ttfa_ms", "e2e_ms")}
    return {
        "ordinal": sample.ordinal,
        "point": asdict(sample.point),
        "warmup": sample.is_warmup,
        "status": trace.status.value,
        **timings,
        **{key: _by_source(sample, key) for key in _SPEEDS},
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
