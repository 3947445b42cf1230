"""The menu: sections in the header, and the pages of a section that has several as tabs below it."""

from dataclasses import dataclass

from starlette.requests import Request

from app.i18n import _, marked
from app.web.paths import is_within

SECTIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (marked("Overview"), (("overview", marked("Overview")),)),
    (marked("Runs"), (("runs", marked("Runs")),)),
    (marked("History"), (("history", marked("History")),)),
    (marked("Explore"), (("explore", marked("Explore")),)),
    (marked("Compare"), (("compare", marked("Compare")),)),
    (marked("Ceiling"), (("ceiling", marked("Ceiling")),)),
    (
        marked("Setup"),
        (
            ("servers", marked("Servers")),
            ("machines", marked("Machines")),
            ("models", marked("Models")),
            ("suites", marked("Suites")),
            ("shares", marked("Shared links")),
        ),
    ),
)
"""Each with its pages: the name of a route and a title."""


@dataclass(frozen=True)
class Page:
    name: str
    title: str
    is_here: bool


@dataclass(frozen=True)
class Section:
    title: str
    pages: tuple[Page, ...]

    @property
    def is_here(self) -> bool:
        return any(page.is_here for page in self.pages)


def menu(request: Request) -> list[Section]:
    return [
        Section(_(title), tuple(Page(name, _(said), is_within(request, name)) for name, said in pages))
        for title, pages in SECTIONS
    ]
