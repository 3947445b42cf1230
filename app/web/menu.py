"""The menu: sections in the header, and the pages of a section that has several as tabs below it."""

from dataclasses import dataclass

from starlette.requests import Request

from app.core.i18n import N_, _
from app.web.paths import is_within

SECTIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (N_("Overview"), (("overview", N_("Overview")),)),
    (N_("Runs"), (("runs", N_("Runs")),)),
    (N_("Models"), (("models", N_("Models")),)),
    (N_("History"), (("history", N_("History")),)),
    (N_("Explore"), (("explore", N_("Explore")),)),
    (N_("Compare"), (("compare", N_("Compare")),)),
    (N_("Ceiling"), (("ceiling", N_("Ceiling")),)),
    (
        N_("Setup"),
        (
            ("servers", N_("Servers")),
            ("machines", N_("Machines")),
            ("suites", N_("Suites")),
            ("shares", N_("Shared links")),
        ),
    ),
)
"""Sections with their pages, each the name of a route and a title."""


@dataclass(frozen=True)
class Page:
    name: str
    title: str
    is_current: bool


@dataclass(frozen=True)
class Section:
    title: str
    pages: tuple[Page, ...]

    @property
    def is_current(self) -> bool:
        return any(page.is_current for page in self.pages)


def menu(request: Request) -> list[Section]:
    return [
        Section(_(title), tuple(Page(name, _(page_title), is_within(request, name)) for name, page_title in pages))
        for title, pages in SECTIONS
    ]
