"""Addresses of every kind of page and document over a notebook that `tests.many` filled."""

from collections.abc import Sequence
from urllib.parse import urlencode

from sqlmodel import Session, col, select

from app.db.runs import counts_by_status
from app.db.tables import Config, Machine, Model, Run, Server
from app.results.run_columns import columns
from app.share import links, run
from app.web.pages.runs import PER_PAGE


def add_share(session: Session) -> str:
    """Of the newest result; gives its slug."""
    return links.publish(session, run.snapshot(session, newest_done(session, 1)[0]))


def newest_done(session: Session, count: int) -> Sequence[str]:
    done = select(Run.public_id).where(Run.status == "done", col(Run.hidden_at).is_(None), Run.suite_key == "triple")
    return session.exec(done.order_by(col(Run.id).desc()).limit(count)).all()


def compared(public_ids: Sequence[str]) -> str:
    return f"/compare?{urlencode([('run', public_id) for public_id in public_ids])}"


def explored(y: str, x: str, series: str = "", name: str = "/explore", **more: str) -> str:
    return f"{name}?{urlencode({'y': y, 'x': x, 'series': series, **more})}"


def addresses(session: Session, share: str) -> dict[str, str]:
    """By what they show."""
    newest, machine = newest_done(session, 8), session.exec(select(Machine)).first()
    server, config = session.exec(select(Server)).first(), session.exec(select(Config)).first()
    assert machine
    assert server
    assert config
    last_page = -(-sum(counts_by_status(session).values()) // PER_PAGE)
    wide = {"group": "configuration", "columns": columns(session)}
    decode, ttft = "decode_tokens_per_s", "ttft_ms"
    return {
        "overview": "/",
        "runs": "/runs",
        "runs, last page": f"/runs?page={last_page}",
        "runs by decode": f"/runs?sort={decode.split('_')[0]}",
        "runs by model": "/runs?sort=model&order=asc",
        "runs of a machine with a label": f"/runs?machine={machine.slug}&label=night",
        "runs that failed": "/runs?status=failed",
        "runs, search": "/runs?text=quiet",
        "runs, search for two words": "/runs?text=qwen+b6400",
        "runs in groups with all columns": f"/runs?{urlencode(wide, doseq=True)}",
        "runs, new": f"/runs/new?{urlencode({'like': newest[0]})}",
        "runs, delete 3": f"/runs/chosen/delete?{urlencode({'run': newest[:3]}, doseq=True)}",
        "run": f"/runs/{newest[0]}",
        "run, delete": f"/runs/{newest[0]}/delete",
        "configuration": f"/configs/{config.fingerprint}",
        "history": "/history",
        "history of a metric": "/history?metric=itl_ms_p99",
        "history by quantization": "/history?by=quantization",
        "history by label": "/history?by=label",
        "history of one model": f"/history?{urlencode({'model': 'Qwen3-30B-A3B', 'only': 'quantization:Q8_0'})}",
        "explore": "/explore",
        "explore TTFT, prompt length": explored(ttft, "prompt_tokens", "variant"),
        "explore decode, context": explored(decode, "context_tokens", "variant"),
        "explore decode against context": "/explore/context",
        "explore decode against context, all builds": "/explore/context?builds=all",
        "explore throughput, streams": explored("output_tokens_per_s", "concurrency", "variant"),
        "explore share of the ceiling": explored("ceiling_share", "quantization", "model"),
        "explore decode, TTFT": explored(decode, ttft, "model"),
        "explore every run by day": explored(decode, "started_at", raw="on"),
        "explore.csv": "/explore.csv",
        "explore.json": "/explore.json",
        "compare, choose": "/compare",
        "machines": "/machines",
        "machine": f"/machines/{machine.slug}",
        "models": "/models",
        "models by TTFT, in groups": "/models?by=ttft&group=machine&sort=model",
        "models.csv": "/models.csv",
        "model, its quantizations": f"/models/named?{urlencode({'name': config.model.name})}",
        "bytes per token": "/models/weights",
        "model": f"/models/{config.model_id}",
        "servers": "/servers",
        "server": f"/servers/{server.slug}",
        "suites": "/suites",
        "suite": "/suites/triple",
        "ceiling": "/ceiling",
        "devices": "/machines/devices",
        "glossary": "/glossary",
        "shares": "/shares",
        "share, preview": f"/shares/new?kind=run&run={newest[0]}",
        "share": f"/s/{share}",
        "share.json": f"/s/{share}.json",
        "API runs": "/api/v1/runs",
        "API 500 runs": "/api/v1/runs?per_page=500",
        "API run": f"/api/v1/runs/{newest[0]}",
        "API best": "/api/v1/best",
        "API updates": "/api/v1/updates",
        "API notes": "/api/v1/notes",
        "API explore": "/api/v1/explore",
        "compare 2": compared(newest[:2]),
        "compare 3": compared(newest[:3]),
        "compare 8": compared(newest),
    }


def choices_in_history(session: Session) -> list[str]:
    """What a person chooses on the history page, one after the other: each filter, and back to everything."""
    machine, server = session.exec(select(Machine)).first(), session.exec(select(Server)).first()
    assert machine
    assert server
    model = session.exec(select(Model.name).order_by(Model.name)).first()
    return [
        f"/history?{urlencode(chosen)}"
        for chosen in (
            {"metric": "itl_ms_p99"},
            {"by": "quantization"},
            {"machine": machine.slug},
            {"server": server.slug},
            {"model": model},
            {"label": "night"},
            {"only": "quantization:Q8_0"},
            {"from": "2026-11-01"},
            {},
        )
    ]
