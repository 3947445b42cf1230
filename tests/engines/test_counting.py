"""What servers count between two readings. Expected values are read off the recorded readings by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.counted import Counted
from app.engines import _prometheus, find
from app.engines.base import Counters
from tests.engines.conftest import Connect
from tests.engines.servers import scrape
from tests.replay import Script, capture


def between(
    engine: str, connect: Connect, path: str, *answers: Script, requests: int = 1, model: str = "m"
) -> dict[tuple[str, str], Counted]:
    counting, found = find(engine), []
    for answer in answers:
        _, client = connect({path: answer})
        counters = counting.counters(client)
        assert counters is not None
        found.append(counters)
    return {(each.name, each.statistic): each for each in counting.counted(found[0], found[1], model, requests)}


def rounded(found: dict[tuple[str, str], Counted]) -> dict[str, float]:
    return {f"{name} {statistic}": round(each.value, 3) for (name, statistic), each in found.items()}


def test_vllm_between_two_real_readings(connect: Connect) -> None:
    """20 requests of 2,761 prompt and 320 output tokens; TTFT 4.880608 s in all, 15 of 20 in (0.1, 0.25]."""
    readings = [scrape("vllm", name) for name in ("metrics-2-before-bench", "metrics-3-after-bench")]
    found = between("vllm", connect, "/metrics", *readings, model="tiny-qwen3")
    assert rounded(found) == {
        "requests total": 20,
        "prompt_tokens total": 2761,
        "cached_tokens total": 0,
        "output_tokens total": 320,
        "preemptions total": 0,
        "ttft_ms mean": 244.03,
        "ttft_ms p50": 200,  # 100 + 150 x 10/15
        "ttft_ms p99": 950,  # 750 + 250 x 0.8/1
        "itl_ms mean": 108.506,
        "itl_ms p50": 84.437,  # 75 + 25 x (150 - 93)/151
        "itl_ms p99": 666.667,  # 500 + 250 x (297 - 293)/6
        "tpot_ms mean": 108.506,
        "tpot_ms p50": 91.667,  # 75 + 25 x (10 - 2)/12
        "tpot_ms p99": 380,  # 300 + 100 x 0.8/1
        "e2e_ms mean": 1870.55,
        "e2e_ms p50": 1500,
        "e2e_ms p99": 9000,  # 5000 + 5000 x 0.8/1
        "queue_ms mean": 0.067,
        "queue_ms p50": 150,
        "queue_ms p99": 297,
        "prefill_ms mean": 228.802,
        "prefill_ms p50": 176.471,  # 300 x 10/17
        "prefill_ms p99": 740,  # 500 + 300 x 0.8/1
        "decode_ms mean": 1627.585,
        "decode_ms p50": 1357.143,  # 1000 + 500 x 10/14
        "decode_ms p99": 4500,  # 2500 + 2500 x 0.8/1
        "prefill_tokens_per_s mean": 603.36,
        "decode_tokens_per_s mean": 9.216,
        "cache_hit_rate mean": 0,
        "requests_running now": 0,
        "requests_waiting now": 0,
        "kv_cache_use now": 0,
    }
    median = found["ttft_ms", "p50"]
    assert (median.low, median.high) == (100, 250)
    assert median.how == "vllm:time_to_first_token_seconds, interpolated within its bucket, difference of two readings"


def test_llamacpp_between_two_real_readings(connect: Connect) -> None:
    """24 requests: its own gauges say 63.0955 and 1.39594 tokens/s, the latter being (281 - 24) / 184.105."""
    readings = [capture("llama.cpp", name) for name in ("get_metrics_before", "get_metrics_after")]
    assert rounded(between("llama.cpp", connect, "/metrics", *readings, requests=24)) == {
        "prompt_tokens total": 4264,
        "cached_tokens total": 308,
        "output_tokens total": 281,
        "prefill_tokens_per_s mean": 63.095,
        "decode_tokens_per_s mean": 1.396,
        "requests_running now": 0,
        "requests_waiting now": 0,
    }


def test_a_restart_counts_from_zero_again(connect: Connect) -> None:
    before = Script.text("llamacpp:prompt_tokens_total 900\nllamacpp:tokens_predicted_total 50\n")
    after = Script.text("llamacpp:prompt_tokens_total 100\nllamacpp:tokens_predicted_total 64\n")
    found = between("llama.cpp", connect, "/metrics", before, after)
    assert rounded(found) == {"prompt_tokens total": 100, "output_tokens total": 64}


def test_several_models_behind_one_server_are_kept_apart(connect: Connect) -> None:
    name = "vllm:time_to_first_token_seconds"

    def reading(mine: int, other: int) -> Script:
        lines = []
        for model, count in (('my \\"m\\"', mine), ("other", other)):
            for engine in "01":
                labels = f'engine="{engine}",model_name="{model}"'
                lines += [f"{name}_sum{{{labels}}} {count * 0.5}", f"{name}_count{{{labels}}} {count}"]
                lines += [f'{name}_bucket{{{labels},le="{le}"}} {count}' for le in ("1.0", "+Inf")]
                lines += [f"{name}_created{{{labels}}} 1.7e9"]
        return Script.text("\n".join(["vllm:prompt_tokens_total 5", *lines]))

    found = between("vllm", connect, "/metrics", reading(1, 10), reading(3, 50), model='my "m"')
    assert rounded({key: each for key, each in found.items() if key[0] == "ttft_ms"}) == {
        "ttft_ms mean": 500,
        "ttft_ms p50": 500,
        "ttft_ms p99": 990,
    }
    everything = _prometheus.growth(*(_prometheus.parse(reading(*n).rows[0][1].decode()) for n in ((1, 10), (3, 50))))
    observed = _prometheus.histogram(everything, name)
    assert observed is not None
    assert observed.count == 2 * (2 + 40)


def test_what_lies_beyond_the_last_bound_is_unknown() -> None:
    observed = _prometheus.Histogram(4, 8.0, [(1.0, 1), (float("inf"), 4)])
    assert observed.quantile(0.25) == (1.0, 0.0, 1.0)
    assert observed.quantile(0.5) is None


def test_sglang_and_trtllm_by_their_own_names(connect: Connect) -> None:
    def of(prefix: str, ttft: str, requests: str, count: int) -> Script:
        return Script.text(
            f'{prefix}{requests}{{model_name="m"}} {count}\n{prefix}{ttft}_sum{{model_name="m"}} {count * 0.25}\n'
            f'{prefix}{ttft}_count{{model_name="m"}} {count}\n'
        )

    for engine, prefix, requests, path in (
        ("sglang", "sglang:", "num_requests_total", "/metrics"),
        ("trtllm", "trtllm_", "request_success_total", "/prometheus/metrics"),
    ):
        readings = [of(prefix, "time_to_first_token_seconds", requests, count) for count in (2, 6)]
        assert rounded(between(engine, connect, path, *readings)) == {"requests total": 4, "ttft_ms mean": 250}


def test_strata_by_its_totals(connect: Connect) -> None:
    """409 tokens in 6.16 s; its decode time holds all n tokens."""
    nothing = {"since": 1, "requests": 0, "prompt_tokens": 0, "reused": 0, "output_tokens": 0}
    totals = {"since": 1, "requests": 1, "prompt_tokens": 1757, "reused": 500, "output_tokens": 409}
    readings = [
        Script.json({"totals": {**nothing, "prompt_ms": 0.0, "decode_ms": 0.0}}),
        Script.json({"totals": {**totals, "prompt_ms": 1898.0, "decode_ms": 6160.0}}),
    ]
    expected = {
        "requests total": 1,
        "prompt_tokens total": 1757,
        "cached_tokens total": 500,
        "output_tokens total": 409,
        "prefill_tokens_per_s mean": 662.276,
        "decode_tokens_per_s mean": 66.396,
    }
    assert rounded(between("strata", connect, "/metrics", *readings)) == expected
    restarted = Script.json({"totals": {**totals, "since": 2, "prompt_ms": 1898.0, "decode_ms": 6160.0}})
    assert rounded(between("strata", connect, "/metrics", readings[1], restarted)) == expected


def test_ollama_tells_where_the_model_is(connect: Connect) -> None:
    loaded = capture("ollama", "ps-loaded")
    found = between("ollama", connect, "/api/ps", loaded, loaded, model="gemma3-270m")
    assert rounded(found) == {"gpu_share now": 1, "context now": 2048}


@pytest.mark.parametrize("engine", ["generic", "tgi"])
def test_who_counts_nothing_says_nothing(engine: str, connect: Connect) -> None:
    _, client = connect({})
    counting = find("openai" if engine == "generic" else engine)
    assert counting.counters(client) is None
    assert counting.counted(Counters(), Counters(), None, 1) == ()


NAMES = st.from_regex(r"[a-z]{1,6}(_total|_sum|_count|_bucket|_created)?", fullmatch=True)


@given(st.dictionaries(NAMES, st.floats(0, 1e9)), st.dictionaries(NAMES, st.floats(0, 1e9)))
def test_growth_is_never_negative_and_never_more_than_there_is(
    before: dict[str, float], after: dict[str, float]
) -> None:
    for key, value in _prometheus.growth(before, after).items():
        assert 0 <= value <= after[key]
        assert not key.endswith("_created")


@given(st.text(max_size=200), st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text(max_size=12)))
def test_any_text_is_read_and_labels_come_back(garbage: str, known: dict[str, str]) -> None:
    _prometheus.growth({}, _prometheus.parse(garbage))
    written = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in known.items())
    if all(value.isprintable() and "\\" not in value for value in known.values()):
        (key,) = _prometheus.parse(f"a_total{{{written}}} 1")
        assert _prometheus.labels(key) == known
