"""The picture that other sites show with a link: 1200 x 630 pixels, drawn without a browser."""

import io
import re
from collections.abc import Sequence
from functools import cache, lru_cache

from PIL import Image, ImageDraw, ImageFont
from PIL.ImageFont import FreeTypeFont

from app.core import files
from app.core.i18n import lower_first
from app.core.units import format_number, format_under, quantity_parts, spread
from app.share.snapshot import CeilingShare, MetricBar, MetricBars, Snapshot, Tile

WIDTH, HEIGHT = 1200, 630
MARGIN = 64
MOST_TILES, MOST_BARS = 3, 1
TITLE_SIZES = (52, 48, 44)
_OVERSAMPLED = 2
"""The factor by which the card is drawn larger and then scaled down, since Pillow smooths text only."""
# the dark theme of static/css/tokens.css
_BACKGROUND, _SURFACE, _LINE, _TEXT, _MUTED = "#0f1115", "#15171c", "#2b303a", "#e6e8ec", "#9aa3b0"
_ACCENT, _REACHED, _ABOVE = "#6eaffd", "#3df4e9", "#e0b04c"
_GOOD, _BAD = "#5cc98f", "#ff8a80"
SERIES = ("#6eaffd", "#f8954a", "#3df4e9", "#e34880", "#f5ea5e", "#945ae0")
MOST_RESULTS_IN_COLUMNS = 3
COLUMN_GAP = 40
_FONTS = ("inter-latin-wght-normal.woff2", "inter-latin-ext-wght-normal.woff2")
_CHINESE_FONTS = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansTC-Regular.otf",
    "PingFang.ttc",
    "msjh.ttc",
    "wqy-microhei.ttc",
    "DroidSansFallbackFull.ttf",
)
REGULAR, MEDIUM, SEMIBOLD = 400, 500, 600

Font = FreeTypeFont | ImageFont.ImageFont


def draw_card(snapshot: Snapshot) -> bytes:
    """Draws the card; returns a PNG without any metadata."""
    title = snapshot.title if any(letter.isalnum() for letter in _drawable(snapshot.title)) else snapshot.description
    return _png(
        title,
        snapshot.subtitle,
        snapshot.tiles[:MOST_TILES],
        snapshot.bars[:MOST_BARS],
        snapshot.metric_bars[:MOST_TILES],
    )


@lru_cache(maxsize=32)
def _png(
    title: str,
    subtitle: str,
    tiles: Sequence[Tile],
    bars: Sequence[CeilingShare],
    metric_bars: Sequence[MetricBars],
) -> bytes:
    pen, width = _Pen(), WIDTH - 2 * MARGIN
    pen.brand()
    size = next((size for size in TITLE_SIZES if pen.length(title, size, SEMIBOLD) <= width), TITLE_SIZES[0])
    lines = pen.wrapped(title, width, size, SEMIBOLD, most=2)
    first = (200 if len(lines) == 1 else 168) - (48 if metric_bars and len(lines) == 1 else 16 if metric_bars else 0)
    for place, line in enumerate(lines):
        pen.text(MARGIN, first + 64 * place, line, size, SEMIBOLD)
    pen.text(MARGIN, first + 64 * len(lines) - 10, pen.shortened(subtitle, width, 24, REGULAR), 24, REGULAR, _MUTED)
    if metric_bars:
        pen.comparison(metric_bars, first + 64 * len(lines) + 24)
    if tiles:
        pen.tiles(tiles, 322 if bars else 362, 172)
    for bar in bars:
        pen.bar(bar, 528)
    return pen.png()


class _Pen:
    """Draws in pixels of the card; a text's position is the left end of its baseline."""

    def __init__(self) -> None:
        self._image = Image.new("RGB", (WIDTH * _OVERSAMPLED, HEIGHT * _OVERSAMPLED), _BACKGROUND)
        self._draw = ImageDraw.Draw(self._image)

    def png(self) -> bytes:
        file = io.BytesIO()
        self._image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS).save(file, "PNG", optimize=True)
        return file.getvalue()

    def brand(self) -> None:
        unit = 36 / 16  # of the mark's own grid, as in templates/base.html
        x, y = MARGIN - 2 * unit, 52.0
        for corners in (
            [(2, 2.5), (14, 2.5), (14, 3.5), (2, 3.5)],
            [(1.5, 13.5), (14.5, 13.5), (14.5, 6), (8.5, 6), (8.5, 9.5), (1.5, 9.5)],
        ):
            self._draw.polygon([self._at(x + unit * i, y + unit * j) for i, j in corners], fill=_ACCENT)
        self.text(x + 16 * unit + 10, 80, "Roofmark", 28, SEMIBOLD)

    def tiles(self, tiles: Sequence[Tile], top: float, height: float) -> None:
        width = (WIDTH - 2 * MARGIN) / len(tiles)
        self._box(MARGIN, top, WIDTH - MARGIN, top + height, 12, _SURFACE, _LINE)
        for place, tile in enumerate(tiles):
            x = MARGIN + place * width
            if place:
                self._box(x, top, x + 1, top + height, 0, _LINE)
            self._tile(tile, x + 28, top, width - 56)

    def _tile(self, tile: Tile, x: float, top: float, width: float) -> None:
        self.text(x, top + 44, self.shortened(tile.title, width, 22, MEDIUM), 22, MEDIUM, _MUTED)
        value, unit = quantity_parts(tile.value, tile.unit)
        large = next(size for size in (68, 56, 44, 32) if self.length(value, size, SEMIBOLD) < width - 80 or size == 32)
        self.text(x, top + 114, value, large, SEMIBOLD)
        self.text(x + self.length(value, large, SEMIBOLD) + 12, top + 114, unit, 26, REGULAR, _MUTED)
        around, _ = spread(tile.value, tile.standard_deviation, tile.low, tile.high, tile.unit)
        count = f"{tile.samples} samples" if tile.samples and tile.samples > 1 else ""
        detail = " · ".join(filter(None, [around, count])) or tile.source or tile.reason
        self.text(x, top + 148, self.shortened(detail, width, 20, REGULAR), 20, REGULAR, _MUTED)

    def comparison(self, metrics: Sequence[MetricBars], top: float) -> None:
        """Draws the bars of each metric side by side; of many results only the last metric, the decode speed."""
        results = len(metrics[0].bars)
        is_wide = results > MOST_RESULTS_IN_COLUMNS
        chosen = metrics[-1:] if is_wide else metrics
        width = (WIDTH - 2 * MARGIN - COLUMN_GAP * (len(chosen) - 1)) / len(chosen)
        for column, metric in enumerate(chosen):
            x = MARGIN + column * (width + COLUMN_GAP)
            self.text(x, top + 22, metric.title, 24, SEMIBOLD)
            words = f"{metric.unit}, {metric.wish}"
            self.text(x + self.length(metric.title, 24, SEMIBOLD) + 10, top + 22, words, 20, REGULAR, _MUTED)
            step = min((HEIGHT - top - 84) / results, 120)
            for place, bar in enumerate(metric.bars):
                y = top + 56 + step * place
                value = format_under(bar.value, metric.unit)
                (self._one_line if is_wide else self._three_lines)(bar, value, place, x, y, width)

    def _three_lines(self, bar: MetricBar, value: str, place: int, x: float, y: float, width: float) -> None:
        """Draws name and value, the bar, and the change below it."""
        at = x + width - self.length(value, 24, SEMIBOLD)
        self.text(x, y + 8, self.shortened(bar.name, at - x - 12, 22, MEDIUM), 22, MEDIUM)
        self.text(at, y + 8, value, 24, SEMIBOLD)
        self._value_bar(bar, place, x, y + 18, width)
        self._change(bar, x, y + 54, width, is_base=place == 0)

    def _one_line(self, bar: MetricBar, value: str, place: int, x: float, y: float, width: float) -> None:
        """Draws name, bar, value and change beside each other."""
        self.text(x, y + 8, self.shortened(bar.name, 290, 22, MEDIUM), 22, MEDIUM)
        self._value_bar(bar, place, x + 310, y - 6, 420)
        self.text(x + 830 - self.length(value, 24, SEMIBOLD), y + 8, value, 24, SEMIBOLD)
        self._change(bar, x + 850, y + 7, width - 850, is_base=place == 0)

    def _value_bar(self, bar: MetricBar, place: int, x: float, y: float, width: float) -> None:
        colour = SERIES[place] if place < len(SERIES) else _MUTED
        self._box(x, y, x + width, y + 12, 4, _LINE)
        if width * bar.share > 8:
            self._box(x, y, x + width * min(bar.share, 1), y + 12, 4, colour)

    def _change(self, bar: MetricBar, x: float, y: float, width: float, *, is_base: bool) -> None:
        """Draws the change with a sign that needs no colour: upwards is better, downwards is worse."""
        colour = {"better": _GOOD, "worse": _BAD}.get(bar.verdict, _MUTED)
        if bar.verdict in ("better", "worse"):
            tip, base = (y - 15, y - 1) if bar.verdict == "better" else (y - 1, y - 15)
            self._draw.polygon([self._at(x + 8, tip), self._at(x, base), self._at(x + 16, base)], fill=colour)
            x, width = x + 24, width - 24
        words = bar.change or ("base" if is_base else "")
        self.text(x, y, self.shortened(words, width, 20, MEDIUM), 20, MEDIUM, colour)

    def bar(self, bar: CeilingShare, top: float) -> None:
        reached = f"{format_number(100 * bar.share)} %"
        self.text(MARGIN, top + 18, reached, 26, SEMIBOLD)
        words = f"of the {lower_first(bar.title)}, {format_number(bar.ceiling)} {bar.unit}"
        self.text(MARGIN + self.length(reached, 26, SEMIBOLD) + 10, top + 18, words, 22, REGULAR, _MUTED)
        end = MARGIN + (WIDTH - 2 * MARGIN) * min(bar.share, 1)
        self._box(MARGIN, top + 36, WIDTH - MARGIN, top + 48, 6, _LINE)
        if end > MARGIN + 12:
            self._box(MARGIN, top + 36, end, top + 48, 6, _REACHED if bar.share <= 1 else _ABOVE)

    def text(self, x: float, y: float, text: str, size: int, weight: int, colour: str = _TEXT) -> None:
        for run, font in _runs(text, size, weight):
            self._draw.text(self._at(x, y), run, fill=colour, font=font, anchor="ls")
            x += font.getlength(run) / _OVERSAMPLED

    def length(self, text: str, size: int, weight: int) -> float:
        return sum(font.getlength(run) for run, font in _runs(text, size, weight)) / _OVERSAMPLED

    def shortened(self, text: str, width: float, size: int, weight: int) -> str:
        if self.length(text, size, weight) <= width:
            return text
        whole = text
        while text and self.length(f"{text} …", size, weight) > width:
            text = text[:-1]
        if not whole[len(text)].isspace() and " " in text:  # no word is cut where another stays
            text = text.rpartition(" ")[0]
        return f"{text.rstrip(' ,·;:(')} …"

    def wrapped(self, text: str, width: float, size: int, weight: int, most: int) -> list[str]:
        """Lines broken at blanks; inside words only where one fits on no line, as in Chinese."""
        lines = [""]
        for word in re.findall(r"\S+\s*", text):
            is_long = self.length(word.rstrip(), size, weight) > width
            for piece in word if is_long else [word]:
                if self.length(f"{lines[-1]}{piece}".rstrip(), size, weight) <= width or len(lines) == most:
                    lines[-1] += piece
                else:
                    lines.append(piece)
        return [self.shortened(line.rstrip(), width, size, weight) for line in lines]

    def _box(
        self, x0: float, y0: float, x1: float, y1: float, radius: int, fill: str, outline: str | None = None
    ) -> None:
        corners = [*self._at(x0, y0), *self._at(x1, y1)]
        self._draw.rounded_rectangle(corners, radius * _OVERSAMPLED, fill, outline, _OVERSAMPLED)

    @staticmethod
    def _at(x: float, y: float) -> tuple[float, float]:
        return x * _OVERSAMPLED, y * _OVERSAMPLED


def _runs(text: str, size: int, weight: int) -> list[tuple[str, Font]]:
    """Returns pieces of a text with a font that has their letters; letters that no font has are left out."""
    runs: list[tuple[str, Font]] = []
    for letter in text:
        font = next((font for font in _fonts(size, weight) if _has(font, letter)), None)
        if font is None:
            continue
        if runs and runs[-1][1] is font:
            runs[-1] = (runs[-1][0] + letter, font)
        else:
            runs.append((letter, font))
    return runs


def _drawable(text: str) -> str:
    return "".join(run for run, _ in _runs(text, TITLE_SIZES[0], SEMIBOLD))


@cache
def _fonts(size: int, weight: int) -> tuple[Font, ...]:
    """Returns the pages' fonts and the system's Chinese one; Pillow's own when it cannot read WOFF2."""
    pixels = size * _OVERSAMPLED
    try:
        fonts = [ImageFont.truetype(files.STATIC / "vendor" / name, pixels) for name in _FONTS]
        for font in fonts:
            font.set_variation_by_axes([weight])
    except OSError:  # a Pillow that cannot read WOFF2
        fonts = []
    for name in _CHINESE_FONTS:
        try:
            fonts.append(ImageFont.truetype(name, pixels))
            break
        except OSError:  # not installed here: the next one may be
            continue
    return tuple(fonts) if len(fonts) >= len(_FONTS) else (ImageFont.load_default(pixels), *fonts)


@lru_cache(maxsize=4096)
def _has(font: Font, letter: str) -> bool:
    """Whether the font has the letter: missing letters all look like one that no font has."""
    return letter.isspace() or bytes(font.getmask(letter)) != bytes(font.getmask("\uffff"))
