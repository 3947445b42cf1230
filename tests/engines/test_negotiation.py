"""What a server refuses is left out once and remembered; what it only complains about is not."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engines.http import Answer
from app.engines.http.text import TextCleaner
from app.engines.protocol.error_parsing import refused_fields
from app.engines.protocol.param_negotiation import Negotiation, nested
from tests.engines.streams import json_values

FIELDS: Mapping[str, Any] = {
    "max_tokens": 8,
    "stream_options.include_usage": True,
    "stream_options.continuous_usage_stats": True,
    "temperature": 0,
    "seed": 1,
    "ignore_eos": True,
    "min_tokens": 8,
    "cache_salt": "x",
}


def answer(body: Any, status: int = 400) -> Answer:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return Answer("/v1/chat/completions", status, {"content-type": "application/json"}, data, TextCleaner())


def error_body(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (error_body("Unknown field: ignore_eos"), "ignore_eos"),
        (error_body("`min_tokens` is not supported by this engine"), "min_tokens"),
        (
            error_body("'max_tokens' is wrong here. Use 'max_completion_tokens' instead.", param="max_tokens"),
            "max_tokens",
        ),
        (error_body("cache_salt: Extra inputs are not permitted", type="BadRequestError", code=400), "cache_salt"),
        ({"detail": "Unexpected keys in the request: {'cache_salt'}"}, "cache_salt"),
        ({"detail": "Unsupported fields in the request: {'seed'}"}, "seed"),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "x"}]}, "stream_options"),
        (
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options", "continuous_usage_stats"]}]},
            "stream_options.continuous_usage_stats",
        ),
        (error_body("stream_options: unknown key continuous_usage_stats"), "stream_options.continuous_usage_stats"),
        (error_body("unknown field", param="stream_options.include_usage"), "stream_options.include_usage"),
        (error_body("'stream_options' is a no-go here"), "stream_options"),
        ({"error": 'json: unknown field "min_tokens"'}, "min_tokens"),
        ({"error": json.dumps(error_body("temperature does not support 0", param="temperature"))}, "temperature"),
        ("ignore_eos", "ignore_eos"),
    ],
)
def test_a_field_is_refused(body: Any, refused: str) -> None:
    assert refused_fields(answer(body), FIELDS) == {refused}
    assert refused_fields(answer(body, 422), FIELDS) == {refused}


@pytest.mark.parametrize(
    "body",
    [
        error_body("max_tokens must be at least 16"),
        error_body("max_tokens is too large: 8. It exceeds the quota."),
        error_body("min_tokens must be less than or equal to max_tokens=4, got 8.", param="min_tokens"),
        {"detail": [{"type": "int_parsing", "loc": ["body", "max_tokens"], "msg": "Input should be a valid integer"}]},
        error_body("'messages' is required"),
        error_body("boom"),
        "",
    ],
)
def test_a_complaint_about_the_output_length_refuses_no_field(body: Any) -> None:
    assert refused_fields(answer(body), FIELDS) == set()


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (error_body("Input validation error: `temperature` must be strictly positive"), "temperature"),
        (error_body("temperature out of range", param="temperature"), "temperature"),
        (error_body("Value error", param="seed", type="greater_than_equal"), "seed"),
        (error_body("seed should be a valid integer", param="seed"), "seed"),
        ({"error": 'option "seed" must be of type integer'}, "seed"),
        (
            {"detail": [{"type": "greater_than", "loc": ["body", "temperature"], "msg": "greater than 0"}]},
            "temperature",
        ),
        (error_body("ignore_eos must be false"), "ignore_eos"),
    ],
)
def test_a_value_that_only_steadies_the_answer_is_given_up(body: Any, refused: str) -> None:
    assert refused_fields(answer(body), FIELDS) == {refused}


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("TypeError: generate() got an unexpected keyword argument 'min_tokens'", {"min_tokens"}),
        ("unknown field: seed", {"seed"}),
        ("CUDA error while min_tokens were being made", set()),
        ("boom", set()),
    ],
)
def test_a_server_that_breaks_down_over_a_field(message: str, refused: set[str]) -> None:
    assert refused_fields(answer(error_body(message), 500), FIELDS) == refused
    assert refused_fields(answer(error_body(message), 502), FIELDS) == set()


@pytest.mark.parametrize("status", [200, 401, 403, 404, 408, 409, 413, 429, 502, 503])
def test_other_statuses_refuse_no_field(status: int) -> None:
    assert (
        refused_fields(answer(error_body("unknown field max_tokens: max_tokens per minute"), status), FIELDS) == set()
    )


def test_several_fields_pointed_at_are_refused_together() -> None:
    entries = [
        {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra"},
        {"type": "extra_forbidden", "loc": ["body", "min_tokens"], "msg": "Extra"},
        {"type": "less_than", "loc": ["body", "max_tokens"], "msg": "Input should be less than 5"},
    ]
    assert refused_fields(answer({"detail": entries}), FIELDS) == {"seed", "min_tokens"}


@given(json_values, st.integers(100, 599))
def test_no_answer_is_too_odd(body: Any, status: int) -> None:
    names = {name for field in FIELDS for name in (field, field.partition(".")[0])}
    assert refused_fields(answer(body, status), FIELDS) <= names


def test_what_was_refused_stays_out() -> None:
    negotiation = Negotiation({})
    assert negotiation.accepted(FIELDS) == FIELDS
    assert negotiation.learned_capabilities == {}
    assert negotiation.learn(answer(error_body("unknown field cache_salt")), FIELDS)
    assert negotiation.learned_capabilities == {"refused_fields": ["cache_salt"]}
    assert not negotiation.accepts("cache_salt")
    assert "cache_salt" not in negotiation.accepted(FIELDS)
    assert not negotiation.learn(answer(error_body("unknown field cache_salt")), FIELDS)  # asking again would not end


@pytest.mark.parametrize("body", ["", "Bad Request", error_body("Extra inputs are not permitted"), {"detail": []}])
@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_without_a_name_is_taken_to_mean_the_likeliest(body: Any, status: int) -> None:
    negotiation = Negotiation({})
    assert negotiation.learn(answer(body, status), FIELDS, ["messages"])
    assert negotiation.learned_capabilities == {"refused_fields": ["stream_options"]}
    assert not negotiation.learn(answer(body, status), negotiation.accepted(FIELDS), ["messages"])


@pytest.mark.parametrize(
    "body", [error_body("messages: the last one is empty"), error_body("max_tokens must be at least 16")]
)
def test_a_refusal_that_names_what_was_sent_means_that(body: Any) -> None:
    assert not Negotiation({}).learn(answer(body), FIELDS, ["messages"])
    assert not Negotiation({}).learn(answer("", 500), FIELDS, ["messages"])


def test_a_refused_parent_takes_all_below_with_it() -> None:
    negotiation = Negotiation({"refused_fields": ["stream_options"]})
    assert {name for name in FIELDS if "stream" not in name} == negotiation.accepted(FIELDS).keys()
    only = Negotiation({"refused_fields": ["stream_options.continuous_usage_stats"]})
    assert nested(only.accepted(FIELDS))["stream_options"] == {"include_usage": True}


def test_what_a_version_is_known_not_to_have_is_never_sent() -> None:
    negotiation = Negotiation({"cache_salt": False, "ignore_eos": True})
    assert negotiation.accepted(FIELDS).keys() == FIELDS.keys() - {"cache_salt"}
    assert negotiation.learned_capabilities == {}


def test_odd_memories_are_no_trouble() -> None:
    assert Negotiation({"refused_fields": "seed"}).accepted(FIELDS) == FIELDS
    assert Negotiation({"refused_fields": [1, None, "seed"]}).accepted(FIELDS).keys() == FIELDS.keys() - {"seed"}
