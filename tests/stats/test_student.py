"""Student's t against published tables and its own identities."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.stats.student import t_quantile, two_sided_p

FREEDOMS = st.floats(0.5, 1e4)


@pytest.mark.parametrize(
    ("freedom", "alpha", "t"),
    [  # Abramowitz and Stegun, table 26.10
        (1, 0.05, 12.706),
        (2, 0.05, 4.303),
        (3, 0.01, 5.841),
        (4, 0.05, 2.776),
        (10, 0.1, 1.812),
        (30, 0.05, 2.042),
        (120, 0.01, 2.617),
        (math.inf, 0.05, 1.960),
    ],
)
def test_published_values(freedom: float, alpha: float, t: float) -> None:
    assert t_quantile(freedom, alpha) == pytest.approx(t, abs=6e-4)


@given(FREEDOMS, st.floats(1e-6, 0.999))
def test_the_quantile_has_its_p_value(freedom: float, alpha: float) -> None:
    assert two_sided_p(t_quantile(freedom, alpha), freedom) == pytest.approx(alpha, rel=1e-5)


@given(FREEDOMS, st.floats(0, 50), st.floats(0, 50))
def test_a_larger_t_is_never_more_likely(freedom: float, first: float, second: float) -> None:
    small, large = sorted((first, second))
    assert 1 >= two_sided_p(small, freedom) >= two_sided_p(large, freedom) - 1e-12 >= -1e-12


@given(st.floats(-50, 50))
def test_one_degree_of_freedom_is_cauchys(t: float) -> None:
    assert two_sided_p(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(abs(t)), abs=1e-9)


@given(st.floats(-50, 50))
def test_two_degrees_of_freedom_have_a_formula_too(t: float) -> None:
    assert two_sided_p(t, 2) == pytest.approx(1 - abs(t) / math.sqrt(2 + t * t), abs=1e-9)


def test_what_is_certain() -> None:
    assert two_sided_p(0, 5) == 1
    assert two_sided_p(math.inf, 5) == 0
