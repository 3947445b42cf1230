"""Fields of a run: where and when it was measured, with which workload, and what a person wrote about it."""

from collections.abc import Callable

from app.core.config_settings import format_setting
from app.core.samples import Workload
from app.db.tables import Config, Machine, Run, Server
from app.results.fields.field import Disclosure, Field, RunContext, SearchColumn, SearchScope


def _workload_field(key: str, title: str, explanation: str, of_workload: Callable[[Workload], float]) -> Field:
    return Field(
        key, title, "Point", "number", explanation=explanation, of_workload=of_workload,
        read=lambda context: of_workload(context.workload), disclosure=Disclosure.ALWAYS,
    )  # fmt: skip


def requested_context_tokens(workload: Workload) -> int:
    """The tokens in the cache during a decode, on average, as the suite asks for them."""
    return workload.depth + round(workload.prompt_tokens + workload.output_tokens / 2)


WORKLOAD_FIELDS = [
    _workload_field(
        "prompt_tokens", "Prompt tokens", "As many as the suite asks for.", lambda workload: workload.prompt_tokens
    ),
    _workload_field(
        "output_tokens", "Output tokens", "As many as the suite asks for.", lambda workload: workload.output_tokens
    ),
    _workload_field(
        "concurrency", "Concurrency", "How many requests run at once.", lambda workload: workload.concurrency
    ),
    _workload_field("depth", "Depth", "Tokens in the cache before the prompt.", lambda workload: workload.depth),
    _workload_field(
        "context_tokens",
        "Context tokens",
        "As the suite asks for: depth, prompt and half of the output.",
        requested_context_tokens,
    ),
]


def _planned(key: str) -> Callable[[RunContext], str | None]:
    return lambda context: format_setting(context.plan[key]) if key in context.plan else None


RUN_FIELDS = [
    Field(
        "machine", "Machine", "Run", read=lambda context: context.machine or None,
        series_key="machine", difference="setting", disclosure=Disclosure.MACHINE, filter="machine",
        search=(SearchColumn(SearchScope.MACHINE, Machine.name),),
    ),
    Field(
        "hardware", "Hardware", "Run", in_explorer=False, read=lambda context: context.hardware or None,
        difference="setting", disclosure=Disclosure.ALWAYS, is_share_fact=True,
    ),
    Field(
        "server", "Server", "Run", read=lambda context: context.server or None,
        series_key="server", difference="procedure", disclosure=Disclosure.ALWAYS, filter="server",
        search=(SearchColumn(SearchScope.SERVER, Server.name),),
    ),
    Field(
        "suite", "Suite", "Run", read=lambda context: context.suite or None,
        difference="procedure", disclosure=Disclosure.ALWAYS, filter="suite",
    ),
    Field("repetitions", "Repetitions", "Run", in_explorer=False, read=_planned("repetitions"), difference="procedure"),
    Field("warmups", "Warm-ups", "Run", in_explorer=False, read=_planned("warmups"), difference="procedure"),
    Field(
        "started_at", "Day", "Run", "time", "UTC", "When the run started.",
        disclosure=Disclosure.ALWAYS, filter="since",
    ),
    Field(
        "run", "Run", "Run", in_explorer=False,
        search=(SearchColumn(SearchScope.RUN, Run.public_id),),
    ),
    Field("status", "State", "Run", in_explorer=False, filter="status"),
    Field(
        "note", "Note", "Run", in_explorer=False,
        search=(SearchColumn(SearchScope.RUN, Run.note), SearchColumn(SearchScope.CONFIG, Config.note)),
    ),
    Field(
        "hidden", "Hidden", "Run", in_explorer=False, filter="hidden",
        search=(SearchColumn(SearchScope.RUN, Run.hidden_reason),),
    ),
]  # fmt: skip
