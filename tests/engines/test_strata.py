"""Strata: how it is recognised, what it does while it is unloaded, and which record of `/metrics` is our request's."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import ServerError
from app.core.samples import ServerFigures, Trace
from app.engines import find, of_build, probe
from app.engines.base import DIFFERING, CompletionRequest
from app.engines.http import ServerClient
from app.measure.server_log import merge_log_figures
from app.metrics.decode import read_decode
from app.metrics.expert_cache import read_expert_cache
from tests.engines.conftest import Connect
from tests.engines.prompt_cache import Turn
from tests.engines.servers import CHAT, Finishing, Route, models, sample_of
from tests.engines.written import strata as written
from tests.replay import Script
from tests.traces import sample

STRATA = find("strata")
TURN = Turn(1757)
OURS = written.record(TURN)
"""1757 prompt tokens in 3,514 ms, 3 tokens in 30 ms; 41 of 96 drafts; 83.4 % hits."""
HEALTH = sample_of("strata", "health")
UNLOADED = {**HEALTH, "max_context": 0, "loaded": False}


def other(**changes: Any) -> dict[str, Any]:
    return {**OURS, "time": 1795950800.0, **changes}


def play(client: ServerClient) -> Trace:
    return STRATA.stream_completion(client, CompletionRequest("hello", 8, "m", nonce="0123abcd"))


def routes(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], answer: Script | None = None
) -> dict[str, Route]:
    document = sample_of("strata", "metrics")
    engine = Finishing(
        answer or written.answer(TURN, has_timings=False),
        Script.json({**document, "requests": before}),
        Script.json({**document, "requests": after}),
    )
    return {CHAT: engine.chat, "/metrics": engine.status, "/health": Script.json(HEALTH)}


def server_speed(trace: Trace) -> float | None:
    return {reading.source: reading.value for reading in read_decode(sample(trace))}["server"]


# --- its records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "is_found"),
    [
        ([], [OURS], True),
        ([other()], [OURS, other()], True),
        ([other()], [OURS], True),  # the list keeps only so many
        ([], [OURS, other(prompt_tokens=20)], True),  # somebody else's, of another length
        ([], [OURS, other()], False),  # two of the same length
        ([OURS], [OURS], False),
        ([], [], False),
    ],
    ids=["first", "behind another", "list is full", "another's length", "ambiguous", "nothing new", "nothing"],
)
def test_the_record_of_our_request(
    connect: Connect, before: list[dict[str, Any]], after: list[dict[str, Any]], is_found: bool
) -> None:
    _, client = connect(routes(before, after), pace=0.01)
    trace = play(client)
    assert trace.output_tokens == 3
    assert (trace.server is not None) is is_found
    if trace.server is not None:
        assert (trace.server.prompt_ms, trace.server.expert_hit_share) == (3514.0, 0.834)
        assert trace.server.raw["time"] == OURS["time"]


def test_of_several_of_its_length_the_one_with_its_times_is_ours(connect: Connect) -> None:
    """Two streams at once, each with a nonce of the same length."""
    records = [other(prompt_ms=3600.04, hit_rate=0.5), {**OURS, "decode_ms": 30.04}, other(decode_ms=31.0)]
    _, client = connect(routes([], records, written.answer(TURN)), pace=0.01)
    server = play(client).server
    assert server is not None
    assert (server.expert_hit_share, server.raw["time"]) == (0.834, OURS["time"])


@pytest.mark.parametrize("has_timings", [True, False])
@pytest.mark.parametrize("has_record", [True, False])
@pytest.mark.parametrize("made", [3, 5])
def test_each_source_gives_the_engines_own_speed(
    connect: Connect, made: int, has_record: bool, has_timings: bool
) -> None:
    """Its clock is of all tokens that it made, five here for an answer that ended with the third: 100 per second."""
    if not (has_record or has_timings):
        return
    answer = written.answer(TURN, made, has_timings=has_timings)
    _, client = connect(routes([], [written.record(TURN, made)] if has_record else [], answer), pace=0.01)
    trace = play(client)
    assert trace.server is not None
    assert trace.output_tokens == trace.server.output_tokens == 3
    assert trace.server.decode_ms == pytest.approx(20.0)
    assert server_speed(trace) == pytest.approx(100.0)
    assert DIFFERING not in trace.server.raw
    if has_record:
        assert [reading.value for reading in read_expert_cache(sample(trace))] == [pytest.approx(83.4)]
        assert trace.server.raw["file_mb"] == 12.5


def test_what_is_no_plain_value_is_not_kept(connect: Connect) -> None:
    odd = {**OURS, "finish": float("nan"), "projection": {"a": 1}, "file_mb": float("inf")}
    _, client = connect(routes([], [odd]), pace=0.01)
    server = play(client).server
    assert server is not None
    assert not {"finish", "projection", "file_mb"} & server.raw.keys()


def test_totals_that_cannot_be_are_unknown(connect: Connect) -> None:
    totals = {"requests": 1, "prompt_tokens": 5, "reused": 9}
    _, client = connect({"/metrics": Script.json({"totals": totals})})
    counters = find("strata").counters(client)
    assert counters is not None
    assert counters.prompt_tokens is None


def test_a_record_of_an_older_engine(connect: Connect) -> None:
    """It says neither what it made nor how much it read, and has only a rate."""
    old = {**OURS, "reused": 1700, **dict.fromkeys(["engine_generated", "prompt_read", "decode_ms", "hit_rate"])}
    _, client = connect(routes([], [old]), pace=0.01)
    trace = play(client)
    assert trace.server is not None
    assert trace.server.prompt_tokens == 57
    assert server_speed(trace) == pytest.approx(100.0)
    assert trace.server.expert_hit_share is None


def test_a_record_that_contradicts_the_stream_is_told_of(connect: Connect) -> None:
    _, client = connect(
        routes([], [{**OURS, "decode_ms": 60.0, "drafts_offered": 90}], written.answer(TURN)), pace=0.01
    )
    server = play(client).server
    assert server is not None
    assert server.raw[DIFFERING] == ["draft_tokens", "decode_ms"]
    assert server.decode_ms == pytest.approx(20.0)
    assert server.draft_tokens == 96


@pytest.mark.parametrize(
    ("line_ms", "names"), [("50 ms", None), ("90 ms", ["decode_ms"])], ids=["agrees", "contradicts"]
)
def test_a_log_beside_the_stream(connect: Connect, line_ms: str, names: list[str] | None) -> None:
    line = (
        "strata serve: prompt 1757 tokens = 0 reused + 1757 read in 3514 ms (500.0 tok/s), "
        f"5 generated in {line_ms} (100.0 tok/s), drafts accepted 41 of 96, 1 checkpoints\n"
        "strata serve: decode expert cache hit rate: 83.4% (834 hits / 1000 lookups)\n"
    )
    _, client = connect(routes([], [written.record(TURN, 5)], written.answer(TURN, 5)), pace=0.01)
    (merged,) = merge_log_figures([play(client)], STRATA.read_log(line))
    assert merged.server is not None
    assert "from_log" in merged.server.raw
    assert merged.server.raw.get(DIFFERING) == names
    assert merged.server.decode_ms == pytest.approx(20.0)


def test_a_log_alone_gives_the_same_speed(connect: Connect) -> None:
    line = (
        "strata serve: prompt 1757 tokens = 0 reused + 1757 read in 3514 ms (500.0 tok/s), "
        "5 generated in 50 ms (100.0 tok/s), drafts accepted 41 of 96\n"
    )
    _, client = connect({CHAT: written.answer(TURN, has_timings=False)}, pace=0.01)
    trace = play(client)
    assert trace.server is None
    (merged,) = merge_log_figures([trace], STRATA.read_log(line))
    assert server_speed(merged) == pytest.approx(100.0)


# --- runs of earlier versions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_timings", [True, False])
def test_figures_of_an_earlier_version_are_made_anew_from_what_was_sent(has_timings: bool) -> None:
    """A hundredth of the hit rate, and a clock of three steps taken for two."""
    raw = {**written.record(TURN), **(written.timings_of(TURN) if has_timings else {})}
    stored = ServerFigures(1757, 3514.0, 3, 30.0 if has_timings else 20.0, expert_hit_share=0.00834, raw=raw)
    corrected = STRATA.corrected(stored)
    assert corrected.decode_ms == pytest.approx(20.0)
    assert corrected.expert_hit_share == 0.834
    assert STRATA.corrected(corrected) == corrected
    assert corrected == replace(stored, decode_ms=corrected.decode_ms, expert_hit_share=0.834)


def test_what_came_from_a_log_stays() -> None:
    raw = {**written.record(TURN, decode_ms=None, decode_tok_s=None, hit_rate=None), "from_log": ["decode_ms"]}
    stored = ServerFigures(1757, 3514.0, 3, 20.0, expert_hit_share=0.9, raw=raw)
    assert STRATA.corrected(stored) == stored
    assert STRATA.corrected(ServerFigures()) == ServerFigures()


def test_a_run_that_was_stored_as_another_engines() -> None:
    assert of_build("llama.cpp", "Strata 0.1.41") is STRATA
    assert of_build("llama.cpp", "b11434-abc") is find("llama.cpp")
    assert of_build("gone", None) is None


# --- what it says of itself ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("health", "live", "ready", "busy", "words"),
    [
        (HEALTH, {"state": "idle", "queued": 0}, True, False, "ready"),
        (HEALTH, {"state": "reading", "queued": 1}, True, True, "2 other requests."),
        (HEALTH, {"state": "generating", "queued": 0}, True, True, "1 other request."),
        (HEALTH, {"state": "idle", "running": 2, "waiting": 1, "queued": 0}, True, True, "3 other requests."),
        (HEALTH, {}, True, None, "ready"),
        (UNLOADED, {"state": "unloaded", "queued": 0}, True, False, "first request loads"),
        (UNLOADED, {"state": "unloaded", "queued": 1}, True, True, "1 other request."),
    ],
)
def test_health(
    connect: Connect, health: dict[str, Any], live: dict[str, Any], ready: bool, busy: bool | None, words: str
) -> None:
    _, client = connect({"/health": Script.json(health), "/metrics": Script.json({"live": live})})
    reported_health = STRATA.health(client)
    assert (reported_health.ready, reported_health.busy) == (ready, busy)
    assert words in reported_health.detail


def test_its_load(connect: Connect) -> None:
    document = {"live": {"state": "generating", "queued": 2}}
    _, client = connect({"/metrics": Script.json(document)})
    assert STRATA.load(client) == {"requests_running": 1.0, "requests_waiting": 2.0}
    _, client = connect({})
    assert STRATA.load(client) == {}


def test_probe_of_an_unloaded_one(connect: Connect) -> None:
    listed = models(written.MODEL, status={"value": "unloaded"}, meta={"n_ctx": 0})
    _, client = connect({**written.server().routes, "/health": Script.json(UNLOADED), "/v1/models": listed})
    info = probe(client)
    (model,) = info.models
    assert (info.engine, info.loading, info.context_tokens) == ("strata", False, None)
    assert (model.id, model.is_loaded, model.quantization) == (written.MODEL, False, "IQ4_XS")
    assert info.notes == ()


def test_probe_of_one_that_lists_nothing_while_it_starts_again(connect: Connect) -> None:
    routes = {**written.server().routes, "/health": Script.json(UNLOADED), "/v1/models": models()}
    _, client = connect({**routes, "/props": Script.json({"error": {"message": "the engine is not running"}}, 503)})
    assert [model.id for model in probe(client).models] == [written.MODEL]


def test_other_names_of_its_model_are_no_models(connect: Connect) -> None:
    entries = [{"id": written.MODEL, "aliases": ["mine"]}, {"id": "mine", "alias_of": written.MODEL}]
    _, client = connect({**written.server().routes, "/v1/models": Script.json({"data": entries})})
    assert [model.id for model in probe(client).models] == [written.MODEL]


@pytest.mark.parametrize("hidden", [(), ("/health",), ("/props", "/slots"), ("/metrics",), ("/props", "/metrics")])
def test_what_a_proxy_hides_makes_it_no_llamacpp(connect: Connect, hidden: Sequence[str]) -> None:
    _, client = connect({path: route for path, route in written.server().routes.items() if path not in hidden})
    assert probe(client).engine == "strata"


def test_probe_of_an_older_one(connect: Connect) -> None:
    """Its health does not say `service` yet."""
    old = {key: value for key, value in HEALTH.items() if key not in ("service", "loaded")}
    _, client = connect({**written.server().routes, "/health": Script.json(old), "/metrics": Script(status=404)})
    info = probe(client)
    assert (info.engine, info.engine_version, info.context_tokens) == ("strata", "0.1.41", 131072)


def test_a_server_that_an_earlier_version_took_for_llamacpp(connect: Connect) -> None:
    _, client = connect(written.server().routes)
    with pytest.raises(ServerError, match=r"says that it is Strata, not llama\.cpp"):
        probe(client, "llama.cpp", is_believed=False)


# --- what it counts --------------------------------------------------------------------------------------------------


def metrics_at(requests: int, records: Sequence[dict[str, Any]]) -> dict[str, Route]:
    document = sample_of("strata", "metrics")
    totals = {key: value * requests for key, value in document["totals"].items()}
    histograms = "".join(
        f'{name}_bucket{{model_name="q",le="{bound}"}} {count * requests}\n'
        for name in ("vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds")
        for bound, count in (("0.5", 0), ("2.5", 1), ("+Inf", 1))
    ) + (
        f'vllm:time_to_first_token_seconds_sum{{model_name="q"}} {2.0 * requests}\n'
        f'vllm:time_to_first_token_seconds_count{{model_name="q"}} {requests}\n'
        f'vllm:inter_token_latency_seconds_sum{{model_name="q"}} {6.16 * requests}\n'
        f'vllm:inter_token_latency_seconds_count{{model_name="q"}} {408 * requests}\n'
    )
    return {
        "/metrics": Script.json({**document, "requests": list(records), "totals": totals}),
        "/metrics?format=prometheus": Script.text(histograms),
    }


def measured(connect: Connect, before: dict[str, Route], after: dict[str, Route]) -> dict[tuple[str, str], Any]:
    counters = [STRATA.counters(connect(reading)[1]) for reading in (before, after)]
    assert counters[0] is not None
    assert counters[1] is not None
    assert not counters[1].was_reset(counters[0])
    metrics = STRATA.server_metrics(counters[0], counters[1], written.MODEL, 2)
    return {(metric.name, metric.statistic): metric.value for metric in metrics}


def test_what_it_counted_between_two_readings(connect: Connect) -> None:
    earlier = [other(file_mb=500.0)]
    values = measured(connect, metrics_at(1, earlier), metrics_at(3, [OURS, other(time=1.0), *earlier]))
    assert values["requests", "total"] == 2
    assert values["decode_tokens_per_s", "mean"] == pytest.approx(409 / 6.16)
    assert values["draft_acceptance", "mean"] == pytest.approx(235 / 385)
    assert (values["expert_reads_from_ram", "total"], values["expert_reads_from_files", "total"]) == (14, 4)
    assert values["expert_file_reads", "total"] == 25.0
    assert values["ttft_ms", "mean"] == pytest.approx(2000)
    # its histogram divides the time of 409 steps by 408
    assert values["itl_ms", "mean"] == pytest.approx(6160 / 409)
    assert (values["gpu_power", "now"], values["gpu_memory", "now"], values["gpu_temperature", "now"]) == (42.5, 16, 51)


def test_an_older_one_has_no_histograms(connect: Connect) -> None:
    readings = [{"/metrics": metrics_at(requests, [])["/metrics"]} for requests in (1, 3)]
    values = measured(connect, *readings)
    assert ("requests", "total") in values
    assert ("ttft_ms", "mean") not in values
