"""The menu: sections in the header, and the pages of a section that has several as tabs below it."""

from dataclasses import dataclass

from starlette.requests import Request

from app.web.paths import is_within

SECTIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Overview", (("overview", "Overview"),)),
    ("Runs", (("runs", "Runs"),)),
    ("History", (("history", "History"),)),
    ("Explore", (("explore", "Explore"),)),
    ("Compare", (("compare", "Compare"),)),
    ("Ceiling", (("ceiling", "Ceiling"),)),
    (
        "Setup",
        (
            ("servers", "Servers"),
            ("machines", "Machines"),
            ("models", "Models"),
            ("suites", "Suites"),
            ("shares", "Shared links"),
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
        Section(title, tuple(Page(name, said, is_within(request, name)) for name, said in pages))
        for title, pages in SECTIONS
    ]
