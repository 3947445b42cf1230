"""The picture that other sites show with a link: 1200 x 630 pixels, drawn without a browser."""

import io
import re
from collections.abc import Sequence
from functools import cache, lru_cache

from PIL import Image, ImageDraw, ImageFont
from PIL.ImageFont import FreeTypeFont

from app.core import files
from app.core.i18n import lower_first
from app.core.units import format_number, spread
from app.share.snapshot import CeilingShare, Snapshot, Tile

WIDTH, HEIGHT = 1200, 630
MARGIN = 64
MOST_TILES, MOST_BARS = 3, 1
TITLE_SIZES = (52, 48, 44)
_OVERSAMPLED = 2
"""The factor by which the card is drawn larger and then scaled down, since Pillow smooths text only."""
# the dark theme of static/css/tokens.css
_BACKGROUND, _SURFACE, _LINE, _TEXT, _MUTED = "#0f1115", "#15171c", "#2b303a", "#e6e8ec", "#9aa3b0"
_ACCENT, _REACHED, _ABOVE = "#6eaffd", "#3df4e9", "#e0b04c"
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
    return _png(title, snapshot.subtitle, snapshot.tiles[:MOST_TILES], snapshot.bars[:MOST_BARS])


@lru_cache(maxsize=32)
def _png(title: str, subtitle: str, tiles: Sequence[Tile], bars: Sequence[CeilingShare]) -> bytes:
    pen, width = _Pen(), WIDTH - 2 * MARGIN
    pen.brand()
    size = next((size for size in TITLE_SIZES if pen.length(title, size, SEMIBOLD) <= width), TITLE_SIZES[0])
    lines = pen.wrapped(title, width, size, SEMIBOLD, most=2)
    first = 200 if len(lines) == 1 else 168
    for place, line in enumerate(lines):
        pen.text(MARGIN, first + 64 * place, line, size, SEMIBOLD)
    pen.text(MARGIN, first + 64 * len(lines) - 10, pen.shortened(subtitle, width, 24, REGULAR), 24, REGULAR, _MUTED)
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
        value = format_number(tile.value)
        large = next(size for size in (68, 56, 44, 32) if self.length(value, size, SEMIBOLD) < width - 80 or size == 32)
        self.text(x, top + 114, value, large, SEMIBOLD)
        self.text(x + self.length(value, large, SEMIBOLD) + 12, top + 114, tile.unit, 26, REGULAR, _MUTED)
        around, _ = spread(tile.value, tile.standard_deviation, tile.low, tile.high)
        count = f"{tile.samples} samples" if tile.samples and tile.samples > 1 else ""
        detail = " · ".join(filter(None, [around, count])) or tile.source or tile.reason
        self.text(x, top + 148, self.shortened(detail, width, 20, REGULAR), 20, REGULAR, _MUTED)

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
        while text and self.length(f"{text} …", size, weight) > width:
            text = text[:-1].rstrip(" ,·;:")
        return f"{text} …"

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
