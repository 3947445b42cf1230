"""Ceilings: decode against context, and one token's milliseconds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from app.ceiling.curve import CurvePoint
from app.charts.base import Figure, Key, Table, axis
from app.units import number


class Reached(NamedTuple):
    """A measured speed at its mean context."""

    context: int
    tokens_per_s: float


def against_context(curve: Sequence[CurvePoint], reached: Sequence[Reached] = ()) -> Figure | None:
    """The decode ceiling as it falls with context, the band where most good results stand, and the measured points."""
    if not curve:
        return None
    contexts = [point.context for point in curve]
    traces = [
        _line("60 % of the ceiling", contexts, [point.low_tokens_per_s for point in curve], "edge"),
        _line("85 % of the ceiling", contexts, [point.high_tokens_per_s for point in curve], "band"),
        _line("Ceiling", contexts, [point.ceiling_tokens_per_s for point in curve], "roof"),
    ]
    if reached:
        traces.append(_measured(reached))
    return Figure(
        data=traces,
        layout={
            "xaxis": axis("Tokens in the cache", range=[0, contexts[-1]]),
            "yaxis": axis("Decode tok/s"),
            "hovermode": "closest",
        },
        summary=_summary(curve),
        table=Table(
            columns=("Tokens in the cache", "Ceiling tok/s", "60 %", "85 %", "KV cache, % of the bytes"),
            rows=tuple(
                (
                    f"{point.context:,}",
                    number(point.ceiling_tokens_per_s),
                    number(point.low_tokens_per_s),
                    number(point.high_tokens_per_s),
                    number(point.kv_share * 100),
                )
                for point in curve
            ),
        ),
        legend=(Key(0, "This run"),) if reached else (),
    )


def _line(name: str, x: Sequence[int], y: Sequence[float], role: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": {"series": None, "role": role},
        "x": list(x),
        "y": [round(value, 3) for value in y],
        "hovertemplate": f"{name}<br>%{{y:,.3~r}} tok/s with %{{x:,}} tokens<extra></extra>",
        "showlegend": False,
    }


def _measured(reached: Sequence[Reached]) -> dict[str, Any]:
    ordered = sorted(reached)
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(ordered) > 1 else "markers",
        "name": "This run",
        "meta": {"series": 0},
        "x": [point.context for point in ordered],
        "y": [round(point.tokens_per_s, 3) for point in ordered],
        "hovertemplate": "This run<br>%{y:,.3~r} tok/s with %{x:,} tokens<extra></extra>",
        "showlegend": False,
    }


def _summary(curve: Sequence[CurvePoint]) -> str:
    first, last = curve[0], curve[-1]
    words = f"The ceiling is {number(first.ceiling_tokens_per_s)} tok/s with an empty cache"
    if last.kv_share:
        words += (
            f" and {number(last.ceiling_tokens_per_s)} with {last.context:,} tokens, where the KV cache is "
            f"{number(last.kv_share * 100)} % of what a token reads"
        )
    else:
        words += "; without what is known of a KV cache it does not fall"
    return f"{words}. Dashed: the ceiling; shaded: 60 to 85 % of it, where most good results stand."
