"""A view of the explorer in words: the names of its lines, its verdict, what was left out, and what to know first."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from app.core.config_settings import NOT_STATED
from app.core.i18n import N_, _, enumerated, joined, lower_first, noun
from app.core.units import format_number, format_percent, format_quantity, plural
from app.results.compare.words import unit_change_words
from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.explore.parts import MAX_LINES, Narrowing, part_title
from app.results.fields.field import Field, FieldValue, format_value

SAME = 0.02
"""A smaller difference counts as none."""


def format_with_unit(field: Field, value: FieldValue) -> str:
    if isinstance(value, float):
        return format_quantity(value, field.unit)
    return f"{format_value(value)} {field.unit}".strip()


def y_number(data_point: DataPoint) -> float:
    """Returns the y of a data point whose field is a number."""
    assert isinstance(data_point.y, int | float)
    return data_point.y


# --- names of lines --------------------------------------------------------------------------------------------------


def line_title(result: ExploreResult, data_point: DataPoint) -> str:
    """Returns the name of a data point's line: its series, and the parts in which lines differ."""
    texts = [] if result.series is None else [series_text(data_point)]
    texts += [part_text(result.parts[place], data_point.parts[place]) for place in result.title_places]
    return joined(*texts, by=" · ") or result.y.title


def has_lines(result: ExploreResult) -> bool:
    """Whether data points have lines with names of their own."""
    return result.series is not None or bool(result.title_places)


def series_text(data_point: DataPoint) -> str:
    return format_value(data_point.series) if data_point.series is not None else _(NOT_STATED)


def part_text(key: str, value: FieldValue | None) -> str:
    """Returns the value of a part inside a name; empty where it needs no words."""
    if value is None:
        return _("unknown version") if key == "engine_version" else ""
    return _("{n} prompt tokens", n=format_value(value)) if key == "prompt_tokens" else format_value(value)


# --- the verdict -----------------------------------------------------------------------------------------------------


def verdict(result: ExploreResult) -> str:
    """Returns one or two sentences that answer what a view asks; empty where it has too few marks.

    The first is about the line with the most observations, the second names the best line where that is another.
    """
    if result.y.kind != "number" or len(result.data_points) < 2 or result.is_single:
        return ""
    lines: dict[tuple[FieldValue | None, ...], list[DataPoint]] = {}
    for data_point in result.data_points:
        lines.setdefault(data_point.line, []).append(data_point)
    longest = max(lines.values(), key=lambda line: (len(line) > 1, sum(point.observations for point in line)))
    along = ""
    if len(longest) > 1:
        along = (
            _between_categories(result, longest) if result.x.kind == "category" else _from_end_to_end(result, longest)
        )
        if len(lines) > 1:
            along = _("{name}: {sentence}", name=line_title(result, longest[0]), sentence=lower_first(along))
    choose = max if result.y.better == "higher" else min
    best = choose(result.data_points, key=y_number)
    if len(lines) == 1 or (along and best.line == longest[0].line):
        return along
    return joined(along, _best_line(result, best, len(lines)))


def _between_categories(result: ExploreResult, line: Sequence[DataPoint]) -> str:
    """Returns by how much the best category is better than the worst."""
    y = result.y
    better_first = sorted(line, key=y_number, reverse=y.better == "higher")
    best, worst = better_first[0], better_first[-1]
    values = {
        "y": y.title,
        "best": format_value(best.x),
        "worst": format_value(worst.x),
        "high": format_value(best.y),
        "low": format_with_unit(y, worst.y),
    }
    is_on = result.x.key in ("machine", "server")
    if _is_same(best, worst):
        same = (
            N_("{y} is the same on {best} and {worst}, {low}.")
            if is_on
            else N_("{y} is the same with {best} and {worst}, {low}.")
        )
        return _(same, **values)
    better = (
        N_("{y} is {change} on {best} than on {worst}, {high} against {low}.")
        if is_on
        else N_("{y} is {change} with {best} than with {worst}, {high} against {low}.")
    )
    change = unit_change_words(y.unit, y_number(best) / y_number(worst)) if y_number(worst) else _("better")
    return _(better, change=change, **values)


def _from_end_to_end(result: ExploreResult, line: Sequence[DataPoint]) -> str:
    """Returns how y changes from the first to the last mark of a line."""
    x, y = result.x, result.y
    first, last = line[0], line[-1]
    values = {
        "y": y.title,
        "x": lower_first(x.title),
        "first": format_with_unit(y, first.y),
        "last": format_value(last.y),
        "begin": format_value(first.x),
        "end": format_value(last.x),
    }
    if x.kind == "time":
        same = N_("{y} is the same on {begin} and on {end}, {first}.")
        up, down = (
            N_("{y} rises from {first} on {begin} to {last} on {end} ({change})."),
            N_("{y} falls from {first} on {begin} to {last} on {end} ({change})."),
        )
    else:
        same = N_("{y} is the same at {begin} and at {end} ({x}), {first}.")
        up, down = (
            N_("{y} rises from {first} at {begin} to {last} at {end} ({x}; {change})."),
            N_("{y} falls from {first} at {begin} to {last} at {end} ({x}; {change})."),
        )
    if _is_same(first, last):
        return _(same, **values)
    return _(up if y_number(last) > y_number(first) else down, change=_change(first, last), **values)


def _change(first: DataPoint, last: DataPoint) -> str:
    ratio = y_number(last) / y_number(first) if y_number(first) else math.inf
    return format_percent(ratio - 1) if ratio < 3 else f"× {format_number(ratio, 2)}"


def _best_line(result: ExploreResult, best: DataPoint, lines: int) -> str:
    return _(
        "Best of {lines}: {name} with {y} ({x}).",
        lines=plural(lines, noun("line")),
        name=line_title(result, best),
        y=format_with_unit(result.y, best.y),
        x=format_with_unit(result.x, best.x),
    )


def _is_same(first: DataPoint, second: DataPoint) -> bool:
    numbers = y_number(first), y_number(second)
    return abs(numbers[0] - numbers[1]) <= SAME * max(map(abs, numbers))


# --- marks, and what is left out -------------------------------------------------------------------------------------

_MARKS = {
    "median": N_("Each mark is the median of its runs; its bar reaches from the lowest to the highest"),
    "latest": N_("Each mark is the latest of its runs; its bar reaches from the lowest to the highest"),
    "best": N_("Each mark is the best of its runs; its bar reaches from the lowest to the highest"),
}
_MARKS_OF_POINTS = {
    "median": N_("Each mark is the median of its points; its bar reaches from the lowest to the highest"),
    "latest": N_("Each mark is the latest of its points; its bar reaches from the lowest to the highest"),
    "best": N_("Each mark is the best of its points; its bar reaches from the lowest to the highest"),
}


def mark_words(result: ExploreResult) -> str:
    """Returns what a mark is, without a full stop; empty where each is one observation."""
    if result.is_single or result.y.kind != "number":
        return ""
    return _((_MARKS if result.noun == "run" else _MARKS_OF_POINTS)[result.view.mark or "median"])


class LeftOut(NamedTuple):
    """A narrowing in words."""

    text: str
    parts: tuple[str, ...]
    """What to show apart, or to mix, to include what was left out."""


def left_out(result: ExploreResult) -> list[LeftOut]:
    """Returns what was left out because there would have been too many lines."""
    return [LeftOut(_narrowed(result, narrowing), narrowing.parts) for narrowing in result.narrowings]


def _narrowed(result: ExploreResult, narrowing: Narrowing) -> str:
    observations = plural(narrowing.observations, result.noun)
    if narrowing.parts == ("prompt_tokens",):
        return _(
            "Only prompts of {n} tokens are shown; {observations} at other lengths are left out.",
            n=format_value(narrowing.only_value),
            observations=observations,
        )
    if narrowing.parts == ("settings",):
        return _(
            "Only the newest settings of each line are shown; {observations} with earlier ones are left out.",
            observations=observations,
        )
    if narrowing.parts == ("hardware",):
        return _(
            "Only the newest hardware of each machine is shown; {observations} on earlier hardware are left out.",
            observations=observations,
        )
    build = _(", {build}", build=narrowing.only_value) if narrowing.only_value else ""
    if narrowing.parts == ("engine_version",):
        sentence = N_(
            "Only the newest build of each line is shown{build}; {observations} of earlier builds are left out."
        )
    else:
        sentence = N_(
            "Only the newest build and hardware of each line are shown{build}; {observations} of earlier ones are "
            "left out."
        )
    return _(sentence, build=build, observations=observations)


# --- what to know before believing a chart, and what to do where there is none ----------------------------------------


def notes(result: ExploreResult) -> list[str]:
    """Returns one sentence per note; empty when the data points need no explanation."""
    sentences = []
    x_values = {data_point.x for data_point in result.data_points}
    if len(x_values) == 1 and result.x.is_discrete and not result.view.at:
        (only_value,) = x_values
        sentences.append(
            _(
                "All these runs have {x} {value}: {remedy}.",
                x=lower_first(result.x.title),
                value=format_value(only_value),
                remedy=result.x.remedy,
            )
        )
    if result.heterogeneous:
        names = enumerated(lower_first(field.title) for field in result.heterogeneous)
        sentences.append(
            _(
                "Some marks combine runs that differ in {names}: use a filter or a series to separate them.",
                names=names,
            )
        )
    if result.differing:
        names = enumerated(part_title(key) for key in result.differing)
        sentences.append(_("The lines also differ in {names}.", names=names))
    lines = len({data_point.line for data_point in result.data_points})
    if lines > MAX_LINES:
        sentences.append(
            _(
                "Of {lines} the {distinct} with the most runs have a look of their own: choose a machine or a model to "
                "see the others.",
                lines=plural(lines, noun("line")),
                distinct=MAX_LINES,
            )
        )
    return sentences + [exclusion_count.text for exclusion_count in result.exclusions if not result.view.at]


def empty_text(result: ExploreResult) -> tuple[str, str]:
    """Returns a heading and a sentence for a chart without data points."""
    if result.matching_runs and result.exclusions:
        return _(
            "No run has both {y} and {x}",
            y=lower_first(result.y.title),
            x=lower_first(result.x.title),
        ), result.exclusions[0].text
    if result.view.is_filtered:
        return _("No finished run matches"), _("Remove a filter, or measure what you are looking for.")
    return _("Nothing to explore yet"), _("Every finished run adds to it.")
