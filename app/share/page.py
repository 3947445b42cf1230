"""A share as HTML: with the same body in the preview, on the public page and in the exported file."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from app.core import files, templating
from app.core.i18n import ENGLISH, as_sentence, language, localized
from app.core.units import spread
from app.results.compare.words import LEGEND
from app.share.formats import to_markdown
from app.share.snapshot import Snapshot, format_cell

if TYPE_CHECKING:
    import jinja2

STYLES = tuple(
    f"css/{name}.css"
    for name in ("tokens", "elements", "app", "forms", "ceiling", "figures", "compare", "explore", "share", "touch")
)
PRINT_STYLE = "css/print.css"
PLOTLY_STYLE = "vendor/plotly.css"
FIRST_SCRIPT = "js/theme.js"
SCRIPTS = ("js/app.js", "js/copy.js")
CHART_SCRIPTS = ("vendor/plotly-basic.min.js", "js/charts.js")

_FONT = re.compile(r'url\("\.\./(vendor/[a-z-]+\.woff2)"\)')
_END_OF_ELEMENT = re.compile(r"</(script|style)|<!--", re.IGNORECASE)


@dataclass(frozen=True)
class Links:
    """The addresses of the public page and its other formats."""

    page: str
    """The absolute URL of the page."""
    card: str
    other_formats: Mapping[str, str]
    """Paths by title."""
    static: Callable[[str], str]


@cache
def _environment() -> "jinja2.Environment":
    env = templating.environment()
    env.filters.update(shown=format_cell, sentence=as_sentence)
    env.globals.update(verdict_legend=LEGEND)
    return env


def render_body(snapshot: Snapshot) -> Markup:
    """Renders the body of the page in the reader's language."""
    share = snapshot if language() == ENGLISH else localized(snapshot)
    html = _environment().get_template("_share.html").render(share=share, spread=spread)
    return Markup(html)  # noqa: S704  # the template has escaped it


def render_page(snapshot: Snapshot, created_at: datetime, links: Links) -> str:
    template = _environment().get_template("share.html")
    return template.render(
        share=snapshot,
        body=render_body(snapshot),
        created_at=created_at,
        links=links,
        markdown=to_markdown(snapshot, links.page),
        styles=STYLES,
        print_style=PRINT_STYLE,
        plotly_style=PLOTLY_STYLE,
        first_script=FIRST_SCRIPT,
        scripts=_scripts(snapshot),
    )


def render_file(snapshot: Snapshot, created_at: datetime) -> str:
    """One HTML file that contains its styles, scripts and font, and loads nothing."""
    styles, print_style = [_read_style(name) for name in STYLES], _read_style(PRINT_STYLE)
    plotly_style = _read_style(PLOTLY_STYLE) if snapshot.charts else ""
    first_script = _read_static(FIRST_SCRIPT)
    scripts = [_read_static(name) for name in _scripts(snapshot)]
    template = _environment().get_template("share_file.html")
    return template.render(
        share=snapshot,
        body=render_body(snapshot),
        created_at=created_at,
        markdown=to_markdown(snapshot),
        policy=_policy([first_script, *scripts], [*styles, print_style, plotly_style]),
        icon=f"data:image/svg+xml;base64,{_base64((files.STATIC / 'icon.svg').read_bytes())}",
        styles=styles,
        print_style=print_style,
        plotly_style=plotly_style,
        first_script=first_script,
        scripts=scripts,
    )


def _scripts(snapshot: Snapshot) -> tuple[str, ...]:
    return (*CHART_SCRIPTS, *SCRIPTS) if snapshot.charts else SCRIPTS


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """A content security policy that allows only the scripts and styles of the file, by their hashes."""
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; font-src data:; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: Sequence[str]) -> str:
    return " ".join(f"'sha256-{_base64(hashlib.sha256(text.encode()).digest())}'" for text in texts if text)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _read_static(name: str) -> Markup:
    """A static file as the content of an element."""
    text = (files.STATIC / name).read_text(encoding="utf-8")
    assert not _END_OF_ELEMENT.search(text), f"{name} would end its element"
    return Markup(text)  # noqa: S704  # no input of anybody


def _read_style(name: str) -> Markup:
    def inlined(match: re.Match[str]) -> str:
        return f'url("data:font/woff2;base64,{_base64((files.STATIC / match[1]).read_bytes())}")'

    return Markup(_FONT.sub(inlined, _read_static(name)))  # noqa: S704  # no input of anybody
