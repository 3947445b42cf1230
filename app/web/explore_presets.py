"""The ready-made charts of the explorer as links, which keep the filters of the page that shows them."""

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request

from app.core.i18n import _
from app.results.explore import View
from app.results.explore.query import Preset
from app.web.paths import path_for


class PresetLink(NamedTuple):
    title: str
    path: str
    is_current: bool
    has_data: bool


def preset_links(request: Request, presets: Iterable[tuple[Preset, bool]], view: View, page: str) -> list[PresetLink]:
    """Returns a link for each preset; `view` is what the `page` shows now."""
    links = []
    for preset, has_data in presets:
        query = preset.within(view).query if preset.page == "explore" else view.where.active
        path = f"{path_for(request, preset.page)}?{urlencode(query)}".removesuffix("?")
        is_current = page == preset.page and (page != "explore" or (view.x, view.y) == (preset.x, preset.y))
        links.append(PresetLink(_(preset.title), path, is_current, has_data))
    return links
