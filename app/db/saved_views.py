"""Views that a person saved: a page with its filters, under a name."""

from collections.abc import Sequence

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from app.core.errors import BadInput, Conflict, NotFound
from app.core.i18n import _
from app.db.tables import SavedView

PAGES = ("history", "explore", "compare", "models", "runs")
"""The names of the routes whose views can be saved."""
MAX_NAME_CHARS = 80
MAX_QUERY_CHARS = 2000


def save_view(session: Session, name: str, page: str, query: str, is_pinned: bool = False) -> SavedView:
    """Saves a view. Raises BadInput, and Conflict when another view has this name."""
    if page not in PAGES:
        raise BadInput(_("Views are saved of {pages}; {page!r} is none of them.", pages=", ".join(PAGES), page=page))
    if len(query) > MAX_QUERY_CHARS:
        raise BadInput(_("This address is too long to be saved: choose fewer filters."))
    return _store(session, SavedView(name=_checked(name), page=page, query=query.lstrip("?"), is_pinned=is_pinned))


def edit_view(session: Session, view_id: int, *, name: str | None = None, is_pinned: bool | None = None) -> SavedView:
    """Renames a view, pins or unpins it; None: as it is. Raises NotFound, BadInput, Conflict."""
    view = saved_view(session, view_id)
    view.name = view.name if name is None else _checked(name)
    view.is_pinned = view.is_pinned if is_pinned is None else is_pinned
    return _store(session, view)


def delete_view(session: Session, view_id: int) -> None:
    """Deletes a view. Raises NotFound."""
    session.delete(saved_view(session, view_id))
    session.flush()


def saved_view(session: Session, view_id: int) -> SavedView:
    """Returns a view. Raises NotFound."""
    view = session.get(SavedView, view_id)
    if view is None:
        raise NotFound(_("There is no such view: it may have been deleted."))
    return view


def views_of(session: Session, page: str) -> Sequence[SavedView]:
    """Returns the views of a page, the pinned ones first, each by name."""
    query = select(SavedView).where(SavedView.page == page)
    return session.exec(query.order_by(col(SavedView.is_pinned).desc(), col(SavedView.name))).all()


def pinned_views(session: Session) -> Sequence[SavedView]:
    """Returns the pinned views of all pages by name. The address of each is that of the route `page`, with `query`."""
    return session.exec(select(SavedView).where(col(SavedView.is_pinned).is_(True)).order_by(col(SavedView.name))).all()


def _checked(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise BadInput(_("The view needs a name."))
    if len(name) > MAX_NAME_CHARS:
        raise BadInput(_("The name is longer than {most} characters.", most=MAX_NAME_CHARS))
    return name


def _store(session: Session, view: SavedView) -> SavedView:
    try:
        with session.begin_nested():
            session.add(view)
    except IntegrityError as error:
        raise Conflict(_("Another view has this name: choose another one.")) from error
    return view
