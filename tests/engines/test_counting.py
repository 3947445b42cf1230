"""What servers count between two readings. Expected values are read off the recorded readings by hand."""

import gzip
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.server_metrics import ServerMetric
from app.engines import find
from app.engines.base import Counters
from app.engines.protocol import prometheus
from tests.engines.conftest import Connect
from tests.engines.servers import scrape
from tests.replay import Script, capture


def between(
    engine: str, connect: Connect, path: str, *answers: Script, requests: int = 1, model: str = "m"
) -> dict[tuple[str, str], ServerMetric]:
    source, readings = find(engine), []
    for answer in answers:
        _, client = connect({path: answer})
        counters = source.counters(client)
        assert counters is not None
        readings.append(counters)
    metrics = source.server_metrics(readings[0], readings[1], model, requests)
    return {(metric.name, metric.statistic): metric for metric in metrics}


def rounded(metrics: dict[tuple[str, str], ServerMetric]) -> dict[str, float]:
    """Those with a value, which no percentile of a histogram has."""
    return {
        f"{name} {statistic}": round(metric.value, 3)
        for (name, statistic), metric in metrics.items()
        if metric.value is not None
    }


def ranges(metrics: dict[tuple[str, str], ServerMetric]) -> dict[str, tuple[float | None, float | None]]:
    return {
        f"{name} {statistic}": (metric.low, metric.high)
        for (name, statistic), metric in metrics.items()
        if metric.is_range
    }


def test_vllm_between_two_real_readings(connect: Connect) -> None:
    """20 requests of 2,761 prompt and 320 output tokens; TTFT 4.880608 s in all, 15 of 20 in (0.1, 0.25]."""
    readings = [scrape("vllm", name) for name in ("metrics-2-before-bench", "metrics-3-after-bench")]
    metrics = between("vllm", connect, "/metrics", *readings, model="tiny-qwen3")
    assert rounded(metrics) == {
        "requests total": 20,
        "prompt_tokens total": 2761,
        "cached_tokens total": 0,
        "output_tokens total": 320,
        "preemptions total": 0,
        "ttft_ms mean": 244.03,
        "itl_ms mean": 108.506,
        "tpot_ms mean": 108.506,
        "e2e_ms mean": 1870.55,
        "queue_ms mean": 0.067,
        "prefill_ms mean": 228.802,
        "decode_ms mean": 1627.585,
        "prefill_tokens_per_s mean": 603.36,
        "decode_tokens_per_s mean": 9.216,
        "cache_hit_rate mean": 0,
    }
    bounds = ranges(metrics)
    assert bounds["ttft_ms p50"] == (100, 250)
    assert bounds["e2e_ms p50"] == (1000, 1500)
    assert bounds["itl_ms p99"] == (500, 750)
    assert len(bounds) == 14
    assert bounds["ttft_ms p99"] == (750, 1000)
    assert bounds["queue_ms p50"] == (0, 300)
    median = metrics["ttft_ms", "p50"]
    assert (median.value, median.unit) == (None, "ms")
    assert median.provenance == "vllm:time_to_first_token_seconds, the bucket that holds it, difference of two readings"


def test_llamacpp_between_two_real_readings(connect: Connect) -> None:
    """24 requests: its own gauges say 63.0955 and 1.39594 tokens/s, the latter being (281 - 24) / 184.105."""
    readings = [capture("llama.cpp", name) for name in ("get_metrics_before", "get_metrics_after")]
    assert rounded(between("llama.cpp", connect, "/metrics", *readings, requests=24)) == {
        "fresh_prompt_tokens total": 4264,
        "cached_tokens total": 308,
        "output_tokens total": 281,
        "prefill_tokens_per_s mean": 63.095,
        "decode_tokens_per_s mean": 1.396,
    }


LLAMACPP = "llamacpp:prompt_tokens_total {}\nllamacpp:tokens_predicted_total {}\n"
TWO_VLLM = 'vllm:prompt_tokens_total{{engine="0"}} {}\nvllm:prompt_tokens_total{{engine="1"}} {}\n'
STARTED = "process_start_time_seconds {}\n"


@pytest.mark.parametrize(
    ("engine", "path", "before", "after", "is_restart"),
    [
        ("llama.cpp", "/metrics", LLAMACPP.format(900, 50), LLAMACPP.format(901, 50), False),
        ("llama.cpp", "/metrics", LLAMACPP.format(900, 50), LLAMACPP.format(100, 64), True),
        # one of them is already above what it was before
        ("llama.cpp", "/metrics", LLAMACPP.format(900, 50), LLAMACPP.format(2000, 20), True),
        ("llama.cpp", "/metrics", LLAMACPP.format(900, 50), LLAMACPP.format(0, 0), True),
        # one engine of two
        ("vllm", "/metrics", TWO_VLLM.format(5, 5), TWO_VLLM.format(9, 6), False),
        ("vllm", "/metrics", TWO_VLLM.format(5, 5), TWO_VLLM.format(99, 1), True),
        # all are above what they were, but it says when it began
        (
            "vllm",
            "/metrics",
            TWO_VLLM.format(5, 5) + STARTED.format(1),
            TWO_VLLM.format(9, 9) + STARTED.format(2),
            True,
        ),
        (
            "vllm",
            "/metrics",
            TWO_VLLM.format(5, 5) + STARTED.format(1),
            TWO_VLLM.format(9, 9) + STARTED.format(1),
            False,
        ),
        # gauges may fall, and so may what the table does not name
        (
            "vllm",
            "/metrics",
            TWO_VLLM.format(5, 5) + "vllm:x_count 7\n",
            TWO_VLLM.format(5, 5) + "vllm:x_count 3\n",
            False,
        ),
        (
            "strata",
            "/metrics",
            json.dumps({"totals": {"since": 1, "requests": 5}}),
            json.dumps({"totals": {"since": 1, "requests": 6}}),
            False,
        ),
        (
            "strata",
            "/metrics",
            json.dumps({"totals": {"since": 1, "requests": 5}}),
            json.dumps({"totals": {"since": 2, "requests": 6}}),
            True,
        ),
        ("koboldcpp", "/api/extra/perf", json.dumps({"total_gens": 5}), json.dumps({"total_gens": 6}), False),
        ("koboldcpp", "/api/extra/perf", json.dumps({"total_gens": 5}), json.dumps({"total_gens": 1}), True),
    ],
)
def test_a_restart_in_between_is_noticed(
    engine: str, path: str, before: str, after: str, is_restart: bool, connect: Connect
) -> None:
    both = []
    for answer in (before, after):
        _, client = connect({path: Script.text(answer)})
        counters = find(engine).counters(client)
        assert counters is not None
        both.append(counters)
    assert both[1].was_reset(both[0]) is is_restart


def test_several_models_behind_one_server_are_kept_apart(connect: Connect) -> None:
    name = "vllm:time_to_first_token_seconds"

    def reading(own_count: int, foreign_count: int) -> Script:
        lines = []
        for model, count in (('my \\"m\\"', own_count), ("other", foreign_count)):
            for engine in "01":
                labels = f'engine="{engine}",model_name="{model}"'
                lines += [f"{name}_sum{{{labels}}} {count * 0.5}", f"{name}_count{{{labels}}} {count}"]
                lines += [f'{name}_bucket{{{labels},le="{le}"}} {count}' for le in ("1.0", "+Inf")]
                lines += [f"{name}_created{{{labels}}} 1.7e9"]
        return Script.text("\n".join(["vllm:prompt_tokens_total 5", *lines]))

    metrics = between("vllm", connect, "/metrics", reading(1, 10), reading(3, 50), model='my "m"')
    assert rounded({key: metric for key, metric in metrics.items() if key[0] == "ttft_ms"}) == {
        "ttft_ms mean": 500,
    }
    everything = prometheus.growth(*(prometheus.parse(reading(*n).rows[0][1].decode()) for n in ((1, 10), (3, 50))))
    observed = prometheus.histogram(everything, name)
    assert observed is not None
    assert observed.count == 2 * (2 + 40)


def test_what_lies_beyond_the_last_bound_is_unknown() -> None:
    observed = prometheus.Histogram(4, 8.0, [(1.0, 1), (float("inf"), 4)])
    assert observed.percentile_bounds(25) == (0.0, 1.0)
    assert observed.percentile_bounds(50) == (1.0, None)
    assert prometheus.Histogram(4, 8.0, [(1.0, 2), (2.0, 4)]).percentile_bounds(99) == (1.0, 2.0)
    assert prometheus.Histogram(4, 8.0, [(1.0, 1)]).percentile_bounds(50) is None  # three are in no bucket


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


def test_ollama_tells_where_the_model_is(connect: Connect) -> None:
    loaded = capture("ollama", "ps-loaded")
    metrics = between("ollama", connect, "/api/ps", loaded, loaded, model="gemma3-270m")
    assert rounded(metrics) == {"gpu_share now": 1, "context now": 2048}


@pytest.mark.parametrize("engine", ["generic", "mlx-lm"])
def test_who_counts_nothing_says_nothing(engine: str, connect: Connect) -> None:
    _, client = connect({})
    source = find("openai" if engine == "generic" else engine)
    assert source.counters(client) is None
    assert source.server_metrics(Counters(), Counters(), None, 1) == ()


def test_a_model_that_has_not_counted_yet_is_not_taken_for_all_of_them(connect: Connect) -> None:
    """Samples of a model appear with its first request."""
    other_model = 'vllm:prompt_tokens_total{model_name="other"} 900\n'
    after = other_model.replace("900", "950") + 'vllm:prompt_tokens_total{model_name="m"} 30\n'
    metrics = between("vllm", connect, "/metrics", Script.text(other_model), Script.text(after))
    assert rounded(metrics) == {"prompt_tokens total": 30}


def test_shares_of_several_engines_are_averaged_and_numbers_summed(connect: Connect) -> None:
    lines = [
        f'{name}{{engine="{engine}",model_name="m"}} {value}'
        for name, values in (("num_requests_running", (3, 1)), ("kv_cache_usage_perc", (0.9, 0.5)))
        for engine, value in enumerate(values)
    ]
    _, client = connect({"/metrics": Script.text("\n".join(f"vllm:{line}" for line in lines))})
    assert find("vllm").load(client) == {"requests_running": 4, "kv_cache_use": pytest.approx(0.7)}


def test_llamacpp_tells_of_its_load_without_touching_its_metrics(connect: Connect) -> None:
    server, client = connect({"/slots": capture("llama.cpp", "get_slots_busy")})
    assert find("llama.cpp").load(client) == {"requests_running": 1}
    assert [request.path for request in server.requests] == ["/slots"]
    _, client = connect({"/slots": Script.json({"error": "off"}, status=501)})
    assert find("llama.cpp").load(client) == {}


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a 3", "a", 3),
        ("a\t3", "a", 3),
        ("  a   3   1700000000123", "a", 3),
        ("a 3\r", "a", 3),
        ("a +3.5e2", "a", 350),
        ('a{x="1"} 3', 'a{x="1"}', 3),
        ('a{x="1"}3', 'a{x="1"}', 3),
        ('a {x="1"} 3', 'a{x="1"}', 3),
        ('a{x="1",} 3', 'a{x="1",}', 3),
        ("a{} 3", "a", 3),
        ('a{x="} 4"} 3', 'a{x="} 4"}', 3),
        ('a{x="\\"} 4"} 3', 'a{x="\\"} 4"}', 3),
        ('a{x="é # {"} 3', 'a{x="é # {"}', 3),
        # OpenMetrics: an exemplar has labels and a value of its own
        ('a_bucket{le="0.5"} 8 # {trace_id="K} 1"} 0.43 1520879607.789', 'a_bucket{le="0.5"}', 8),
        ('a_total 17 1520879607.789 # {id="x"} 1', "a_total", 17),
        # names that need quotes
        ('{"a.b",x="1"} 3', 'a.b{x="1"}', 3),
        ('{"a.b"} 3', "a.b", 3),
    ],
)
def test_a_sample_in_whatever_dress(line: str, key: str, value: float) -> None:
    assert prometheus.parse(f"# HELP a of it\n{line}\n# EOF\n") == {key: value}


@pytest.mark.parametrize(
    "line",
    [
        "# a 3",
        "#a 3",
        "# EOF",
        "a",
        "a NaN",
        "a +Inf",
        "a -inf",
        "a x",
        'a{x="1} 3',
        'a{x="1"',
        '{x="1"} 3',
        "<b>3</b>",
        "",
    ],
)
def test_what_is_no_sample_is_left_out(line: str) -> None:
    assert prometheus.parse(f"before 1\n{line}\nafter 2") == {"before": 1, "after": 2}


def test_a_compressed_answer_is_read(connect: Connect) -> None:
    packed = gzip.compress(LLAMACPP.format(900, 50).encode())
    answer = Script.text("")
    answer = replace(answer, headers={**answer.headers, "content-encoding": "gzip"}, rows=((0.0, packed),))
    _, client = connect({"/metrics": answer})
    counters = find("llama.cpp").counters(client)
    assert counters is not None
    assert (counters.prompt_tokens, counters.output_tokens) == (900, 50)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_largest_bucket_alone_gives_no_quantile(count: int) -> None:
    grown = {'a_bucket{le="+Inf"}': float(count), "a_count": float(count), "a_sum": 1.0}
    histogram = prometheus.histogram(grown, "a")
    assert histogram is None if count == 0 else histogram is not None and histogram.percentile_bounds(50) is None


@given(st.lists(st.floats(0.001, 20), min_size=1, max_size=60), st.sampled_from([50, 99]))
def test_a_percentile_lies_within_its_bounds(seconds: list[float], percent: int) -> None:
    bounds = [0.1, 0.5, 1.0, 2.5, 5.0, float("inf")]
    buckets = [(bound, float(sum(value <= bound for value in seconds))) for bound in bounds]
    bucket = prometheus.Histogram(len(seconds), sum(seconds), buckets).percentile_bounds(percent)
    true = sorted(seconds)[math.ceil(len(seconds) * percent / 100) - 1]
    assert bucket is not None
    low, high = bucket
    assert low <= true
    assert true > 5.0 if high is None else true <= high


NAMES = st.from_regex(r"[a-z]{1,6}(_total|_sum|_count|_bucket|_created)?", fullmatch=True)


@given(st.dictionaries(NAMES, st.floats(0, 1e9)), st.dictionaries(NAMES, st.floats(0, 1e9)))
def test_growth_is_never_negative_and_never_more_than_there_is(
    before: dict[str, float], after: dict[str, float]
) -> None:
    after = {key: value + before.get(key, 0.0) for key, value in after.items()}
    for key, value in prometheus.growth(before, after).items():
        assert 0 <= value <= after[key]
        assert not key.endswith("_created")


VALUES = st.floats(allow_nan=False, allow_infinity=False)
LABELS = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True),
    st.text(st.characters(codec="utf-8"), max_size=12),
    max_size=4,
)
TAILS = st.sampled_from(("", " 1700000000", ' # {trace_id="}{"} 0.5', " 1.5 # {} 3 1.0", "\r"))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True), LABELS, VALUES, TAILS), max_size=6
    )
)
def test_whatever_was_exported_comes_back(rows: list[tuple[str, dict[str, str], float, str]]) -> None:
    """Any name, labels and value; with a time, an exemplar, or neither behind it."""
    lines, expected = ["# TYPE x counter"], {}
    for name, labels, value, tail in rows:
        written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{written}}} {value!r}{tail}" if labels else f"{name} {value!r}{tail}")
        expected[name, *sorted(labels.items())] = value
    samples = prometheus.parse("\n".join([*lines, "# EOF"]))
    assert {
        (key.partition("{")[0], *sorted(prometheus.labels(key).items())): value for key, value in samples.items()
    } == expected


@given(st.text(max_size=200))
def test_any_text_is_read(garbage: str) -> None:
    samples = prometheus.parse(garbage)
    prometheus.growth({}, samples)
    prometheus.of_model("m", samples)
