"""Samples in the database: one row each, raw events as zlib-compressed JSON columns."""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from app import engines
from app.core.samples import CacheDefeat, CountSource, Event, Kind, Sample, ServerFigures, Status, Trace, Workload
from app.db.tables import Config, Run, SampleRow
from app.engines.base import Engine
from app.metrics import refreshed_flags
from app.metrics.drift import with_drift
from app.metrics.overlap import with_prefill_overlaps

MICROSECONDS_PER_MS = 1000
_STORED_NAMES = {"sched_delay_ms": "lag_ms", "learned_capabilities": "learned"}
"""The keys of a stored trace that differ from the names of `Trace`'s fields."""


def add_sample(session: Session, run_id: int, sample: Sample, started_at: datetime) -> SampleRow:
    trace = {_STORED_NAMES.get(name, name): value for name, value in asdict(replace(sample.trace, events=())).items()}
    for elsewhere in ("events", "status", "error", "sent_ns"):
        trace.pop(elsewhere)
    row = SampleRow(
        run_id=run_id,
        ordinal=sample.ordinal,
        point=asdict(sample.point),
        is_warmup=sample.is_warmup,
        status=sample.trace.status.value,
        started_at=started_at,
        record={
            "trace": trace,
            "cache_defeat": sample.cache_defeat.value,
            "expected_prompt_tokens": sample.expected_prompt_tokens,
            "reuses_cache": sample.reuses_cache,
            "round": sample.round,
            "stream": sample.stream,
            "sent_at_ms": sample.sent_at_ms,
            "engine_batches": sample.engine_batches,
        },
        events=pack_events(sample.trace.events),
        sensors=sample.sensors,
        flags=list(sample.flags),
        error=sample.trace.error,
    )
    session.add(row)
    session.flush()
    return row


def samples_of(session: Session, run_id: int) -> list[Sample]:
    """Returns the samples in the order measured, with the flags that are judged from all of them together."""
    return with_drift(samples_by_run(session, [run_id]).get(run_id, []))


def samples_by_run(session: Session, run_ids: Collection[int]) -> dict[int, list[Sample]]:
    """Returns the samples by run in the order measured; a run without samples is missing."""
    query = select(SampleRow).where(col(SampleRow.run_id).in_(run_ids)).order_by(col(SampleRow.ordinal))
    samples: dict[int, list[Sample]] = {}
    for row in session.exec(query):
        samples.setdefault(row.run_id, []).append(_sample(row))
    return {run_id: with_prefill_overlaps(of_run) for run_id, of_run in samples.items()}


def refresh_flags(session: Session, run_id: int) -> list[Sample]:
    """Brings the stored flags of a run to today's rules, and the server's figures to what their `raw` means by today's
    knowledge of its engine; gives its samples with them."""
    engine = _engine_of(session, run_id)
    rows = session.exec(select(SampleRow).where(SampleRow.run_id == run_id).order_by(col(SampleRow.ordinal))).all()
    samples = []
    for row in rows:
        if engine is not None:
            _correct_figures(session, row, engine)
        stored = _sample(row)
        sample = replace(stored, flags=refreshed_flags(stored))
        if sample.flags != stored.flags:
            row.flags = list(sample.flags)
            session.add(row)
        samples.append(sample)
    return with_prefill_overlaps(samples)


def _engine_of(session: Session, run_id: int) -> Engine | None:
    query = select(Config.engine, Config.engine_version).join(Run, col(Run.config_id) == col(Config.id))
    build = session.exec(query.where(col(Run.id) == run_id)).first()
    return None if build is None else engines.of_build(*build)


def _correct_figures(session: Session, row: SampleRow, engine: Engine) -> None:
    stored = row.record["trace"].get("server")
    if stored is None:
        return
    figures = ServerFigures(**_fields_of(ServerFigures, stored))
    if (corrected := engine.corrected(figures)) != figures:
        row.record = {**row.record, "trace": {**row.record["trace"], "server": asdict(corrected)}}
        session.add(row)


def _sample(row: SampleRow) -> Sample:
    record = row.record
    return Sample(
        ordinal=row.ordinal,
        point=Workload(**row.point),
        is_warmup=row.is_warmup,
        cache_defeat=CacheDefeat(record["cache_defeat"]),
        trace=_trace(row, record["trace"]),
        flags=tuple(row.flags),
        expected_prompt_tokens=record["expected_prompt_tokens"],
        reuses_cache=record.get("reuses_cache", False),  # older samples: each was a round of its own
        round=record.get("round", row.ordinal),
        stream=record["stream"],
        sent_at_ms=record["sent_at_ms"],
        sensors=row.sensors,
        engine_batches=record.get("engine_batches", True),
    )


def _trace(row: SampleRow, stored: Mapping[str, Any]) -> Trace:
    renamed = {name: stored[key] for name, key in _STORED_NAMES.items() if key in stored}
    values = _fields_of(Trace, {**stored, **renamed})
    server, count_source = values.pop("server"), values.pop("count_source")
    cache_defeat = CacheDefeat(values.pop("cache_defeat"))
    return Trace(
        **values,
        status=Status(row.status),
        events=unpack_events(row.events),
        server=ServerFigures(**_fields_of(ServerFigures, server)) if server is not None else None,
        count_source=CountSource(count_source) if count_source else None,
        cache_defeat=cache_defeat,
        error=row.error,
    )


def _fields_of(kind: type[Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that a class has; records of other versions may hold more."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in stored.items() if name in names}


def pack_events(events: Sequence[Event]) -> bytes:
    """Packs events as columns, which compress better than rows; offsets are whole microseconds."""
    columns = {
        "at_us": [round(event.at_ms * MICROSECONDS_PER_MS) for event in events],
        "kind": [event.kind.value for event in events],
        "size_bytes": [event.size_bytes for event in events],
        "tokens": [event.tokens for event in events],
    }
    return zlib.compress(json.dumps(columns, separators=(",", ":")).encode())


def unpack_events(packed: bytes) -> tuple[Event, ...]:
    columns = json.loads(zlib.decompress(packed))
    at_ms = [at_us / MICROSECONDS_PER_MS for at_us in columns["at_us"]]
    kinds = [_KINDS[kind] for kind in columns["kind"]]
    return tuple(map(Event._make, zip(at_ms, kinds, columns["size_bytes"], columns["tokens"], strict=True)))


_KINDS = {kind.value: kind for kind in Kind}
"""A lookup for thousands of events of a page, where `Kind(...)` is slow."""
