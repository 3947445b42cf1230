"""Compares a geometry's totals with those that its name, its index or its server states: 70B, A3B, 8x7B."""

import re
from collections.abc import Iterable
from dataclasses import replace

from app.ceiling.geometry import Certainty, Geometry
from app.core.i18n import _
from app.core.units import GIGA, format_bytes, format_number

TOLERANCE = 0.05
MIXTURE_SHARE = 0.7
"""Experts share attention and tables: 8x7B are 46.7 B, not 56."""
_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_END = r"(?![A-Za-z0-9])"
_MIXTURE = re.compile(rf"(?<![A-Za-z0-9.])(\d{{1,3}})x(\d{{1,4}}(?:\.\d+)?)([bm]){_END}", re.IGNORECASE)
_ACTIVE = re.compile(rf"(?<![A-Za-z0-9])a(\d{{1,4}}(?:\.\d+)?)([bm]){_END}", re.IGNORECASE)
_TOTAL = re.compile(rf"(?<![A-Za-z0-9.])(\d{{1,4}}(?:\.\d+)?)([bmt]){_END}", re.IGNORECASE)


def with_totals_checked(
    geometry: Geometry, names: Iterable[object], parameters: object = None, n_bytes: object = None
) -> Geometry:
    """Returns the geometry with a remark on what is more than 5 % apart. When all weights should be fewer bytes, the
    ceiling is an estimate.

    `parameters` and `n_bytes` are what the file or its index states of the whole.
    """
    if geometry.weights is None or not geometry.params_total:
        return geometry
    sentences = dict.fromkeys(
        sentence for name in names if isinstance(name, str) for sentence in _named(geometry, name)
    )
    if isinstance(parameters, int) and parameters > 0 and _apart(geometry.params_total, parameters):
        sentences[_sentence("parameters", parameters, geometry.params_total)] = None
    certainty = geometry.certainty
    if isinstance(n_bytes, int) and not isinstance(n_bytes, bool) and n_bytes > 0:
        fewest = geometry.weights.total.n_bytes
        most = (geometry.weights_at_most or geometry.weights).total.n_bytes
        if n_bytes < (1 - TOLERANCE) * fewest or n_bytes > (1 + TOLERANCE) * most:
            sentences[
                _(
                    "the index of its files states {stated}, and its config.json gives {computed}",
                    stated=format_bytes(n_bytes),
                    computed=format_bytes(fewest),
                )
            ] = None
        if n_bytes < (1 - TOLERANCE) * fewest:
            certainty = Certainty.ESTIMATE
    return replace(geometry, assumptions=tuple(dict.fromkeys((*geometry.assumptions, *sentences))), certainty=certainty)


def _named(geometry: Geometry, name: str) -> Iterable[str]:
    name = name[-200:]
    total = geometry.params_total or 0
    active = geometry.params_active or 0
    looked_up = geometry.weights.unread.parameters if geometry.weights else 0
    if mixture := _MIXTURE.search(name):
        named_total = int(mixture[1]) * float(mixture[2]) * _UNITS[mixture[3].lower()]
        is_whole = MIXTURE_SHARE * named_total <= total <= (1 + TOLERANCE) * named_total
        if not is_whole or int(mixture[1]) != geometry.experts_total:
            yield _(
                "the name says {name}, and the model has {parameters} B parameters",
                name=mixture[0],
                parameters=format_number(total / GIGA),
            )
    elif (stated := _TOTAL.search(name)) and not _is_any(_parameters(stated), total, active, active + looked_up):
        yield _sentence("name", _parameters(stated), total)
    if stated := _ACTIVE.search(name):
        parameters = _parameters(stated)
        if not _is_any(parameters, active, active + looked_up):
            yield _(
                "the name says {stated} B active parameters, and a token uses {parameters} B",
                stated=format_number(parameters / GIGA),
                parameters=format_number(active / GIGA),
            )


def _parameters(match: re.Match[str]) -> float:
    return float(match[1]) * _UNITS[match[2].lower()]


def _sentence(source: str, stated: float, total: float) -> str:
    values = {"stated": format_number(stated / GIGA), "parameters": format_number(total / GIGA)}
    if source == "name":
        return _("the name says {stated} B parameters, and the model has {parameters} B", **values)
    return _("{stated} B parameters are stated, and the model has {parameters} B", **values)


def _is_any(stated: float, *values: float) -> bool:
    return not all(_apart(value, stated) for value in values)


def _apart(value: float, stated: float) -> bool:
    return abs(value - stated) > TOLERANCE * stated
