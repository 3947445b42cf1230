"""Sparklines: a trend in the size of a word."""

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT, MARGIN = 96, 24, 3
MAX_VALUES = 40
YEAR_HEIGHT = 32
"""Higher than other sparklines: from zero, a change of some per cent would hardly be seen."""


def sparkline(values: Sequence[float | None], title: str = "Trend") -> Markup:
    """Returns inline SVG of the newest values, oldest first; unknown ones are skipped. Empty for fewer than two.

    In a template: `{{ sparkline(values, "Decode of the last 12 runs") }}`. It has no style attributes; its colour is
    the text colour, so that `.sparkline { color: var(--series-1) }` gives it one.
    """
    readings = [value for value in values if value is not None][-MAX_VALUES:]
    if len(readings) < 2:
        return Markup("")
    lowest, highest = min(readings), max(readings)
    span = (highest - lowest) or 1.0
    step = (WIDTH - 2 * MARGIN) / (len(readings) - 1)
    places = [
        (
            MARGIN + i * step,
            # a series without any change lies in the middle
            HEIGHT / 2 if highest == lowest else HEIGHT - MARGIN - (value - lowest) / span * (HEIGHT - 2 * MARGIN),
        )
        for i, value in enumerate(readings)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, y = places[-1]
    return Markup(  # only numbers and the escaped title go in
        '<svg class="sparkline" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{title}">'
        '<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round"/>'
        '<circle cx="{x}" cy="{y}" r="2" fill="currentColor"/></svg>'
    ).format(w=WIDTH, h=HEIGHT, title=title, line=line, x=f"{x:.1f}", y=f"{y:.1f}")


def year_sparkline(trend: Sequence[tuple[float, float]], title: str) -> Markup:
    """Returns inline SVG of one year: every picture has the same twelve months from left to right, and its height is
    from zero to its highest value.

    `trend` holds the place in the year, 0 to 1, and the value, in order of time. A lone value is a dot. Empty without
    values.
    """
    highest = max((value for _at, value in trend), default=0.0)
    if highest <= 0:
        return Markup("")
    width, height = WIDTH - 2 * MARGIN, YEAR_HEIGHT - 2 * MARGIN
    places = [(MARGIN + at * width, YEAR_HEIGHT - MARGIN - max(0.0, value) / highest * height) for at, value in trend]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, y = places[-1]
    return Markup(  # only numbers and the escaped title go in
        '<svg class="sparkline" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{title}">'
        '<path class="sparkline-zero" d="M{left} {zero}h{width}" fill="none" stroke-width="1"/>'
        '<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round"/>'
        '<circle cx="{x}" cy="{y}" r="2" fill="currentColor"/></svg>'
    ).format(
        w=WIDTH, h=YEAR_HEIGHT, title=title, left=MARGIN, zero=YEAR_HEIGHT - MARGIN + 1.5, width=width, line=line,
        x=f"{x:.1f}", y=f"{y:.1f}",
    )  # fmt: skip
