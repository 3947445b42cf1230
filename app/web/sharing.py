"""Previews of shares from the address or the form: one reader per kind of share."""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from sqlmodel import Session
from starlette.responses import Response

from app.core import i18n
from app.core.errors import BadInput
from app.core.i18n import _
from app.db import devices, models
from app.share import Option, OptionalField, Snapshot, ceiling, comparison, explorer, options, run
from app.share.links import with_title
from app.web.calculator import calculate
from app.web.forms import Fields

OWN_FIELDS = ("kind", "title", "include", "digest")
"""Fields of the form itself; all others select what is shared."""


class SharePreview(NamedTuple):
    snapshot: Snapshot
    offers: Sequence[OptionalField]
    """Optional fields that a person may include."""


def fields_of_runs(names: Sequence[str]) -> list[tuple[str, str]]:
    """The fields that share one run, or the comparison of several."""
    return [("kind", "run" if len(names) == 1 else "comparison"), *(("run", name) for name in names)]


_KINDS_BY_PAGE = {"compare": "comparison", "explore": "explorer", "ceiling": "ceiling"}
"""Kinds of share by the page whose address contains the whole state."""


def is_address(text: str) -> bool:
    return "/" in text or "?" in text


def fields_of_address(address: str) -> list[tuple[str, str]]:
    """The fields that a page's Share button sends, from the page's address with or without host and sub-path. Raises
    BadInput."""
    parts = urlsplit(address.strip())
    above, page = ["", *parts.path.rstrip("/").split("/")][-2:]
    if above == "runs":
        return fields_of_runs([page])
    if page not in _KINDS_BY_PAGE:
        raise BadInput(
            _(
                "The address of a run, a comparison, the explorer or a ceiling can be shared, not {address!r}.",
                address=address,
            )
        )
    query = parse_qsl(parts.query, keep_blank_values=True)
    return [("kind", _KINDS_BY_PAGE[page]), *(pair for pair in query if pair[0] not in OWN_FIELDS)]


PreviewReader = Callable[[Session, Fields, frozenset[Option]], SharePreview]


def share_preview(session: Session, form: Fields) -> SharePreview:
    """The preview that the form describes. Raises BadInput and NotFound for what cannot be shared."""
    read = _READERS.get(form.get("kind"))
    if read is None:
        raise BadInput(
            _("Share something from its own page: a run, a comparison, a chart of the explorer, or a ceiling.")
        )
    with i18n.use(i18n.ENGLISH):  # a stored share is in English and translated when shown
        snapshot, offers = read(session, form, options.parse_options(form.all("include")))
    return SharePreview(with_title(snapshot, form.get("title")), offers)


def _run(session: Session, form: Fields, included: frozenset[Option]) -> SharePreview:
    public_id = form.required("run", _("The run"), 20)
    return SharePreview(run.snapshot(session, public_id, included), run.offers(session, public_id))


def _ceiling(session: Session, form: Fields, _included: frozenset[Option]) -> SharePreview:
    calculation = calculate(form, devices.known_devices(session), models.list_models(session))
    return SharePreview(ceiling.snapshot(calculation.reports, calculation.curve), ())


def _comparison(session: Session, form: Fields, included: frozenset[Option]) -> SharePreview:
    names = form.all("run")
    return SharePreview(comparison.snapshot(session, names, included), comparison.offers(session, names))


def _explorer(session: Session, form: Fields, included: frozenset[Option]) -> SharePreview:
    parameters = dict(form.items(without=OWN_FIELDS))
    return SharePreview(explorer.snapshot(session, parameters, included), explorer.offers(session, parameters))


_READERS: dict[str, PreviewReader] = {
    "run": _run,
    "comparison": _comparison,
    "explorer": _explorer,
    "ceiling": _ceiling,
}


def card_response(snapshot: Snapshot) -> Response:
    """The picture that other sites show with a link."""
    from app.share.card import draw_card  # loads Pillow, 12 ms and 4 MB, which no page needs

    return Response(draw_card(snapshot), media_type="image/png")


def download(content: bytes, media_type: str, suffix: str) -> Response:
    """A file to save under Roofmark's name."""
    headers = {"content-disposition": f'attachment; filename="roofmark.{suffix}"'}
    return Response(content, media_type=media_type, headers=headers)
