"""Models, and what is known of their geometry: from their server or file, or from a person; the better source counts.

A person's statement is about a name and a quantization. It is stored apart from what servers report and changes no row
of theirs, so it holds for runs before and after it, and leaves no trace when it is removed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func
from sqlmodel import Session, col, select

from app.ceiling.geometry import Geometry, Source
from app.ceiling.named_totals import with_totals_checked
from app.core.errors import BadInput, NotFound
from app.core.i18n import _
from app.db.database import session_memo
from app.db.tables import FULL_GEOMETRY, Config, Model, Run, StatedGeometry, now

RANK = (Source.GGUF, Source.OLLAMA, Source.LLAMA_CPP, Source.CONFIG, Source.TYPED)
"""The best source first."""


@dataclass(frozen=True)
class KnownGeometry:
    """A geometry and its source."""

    geometry: Geometry
    stated_at: datetime | None = None
    """When a person stated it; None: the server reported it."""


@dataclass(frozen=True)
class KnownModel:
    """A model in one quantization and with one geometry, however many rows describe it."""

    ids: tuple[int, ...]
    """The ids of its rows; the first one names the model."""
    name: str
    quantization: str
    geometry_record: KnownGeometry | None
    stated: StatedGeometry | None
    """What a person stated, whether or not a better source outranks it."""
    parameters: int | None
    size_bytes: int | None
    """The size as far as servers report it."""
    run_count: int

    @property
    def id(self) -> int:
        """The id by which pages address the model."""
        return self.ids[0]

    @property
    def is_outranked(self) -> bool:
        """Whether a better source outranks what a person stated."""
        return self.stated is not None and (self.geometry_record is None or self.geometry_record.stated_at is None)

    @property
    def title(self) -> str:
        return f"{self.name} {self.quantization}".strip()


def best_geometry(model: Model, stated: StatedGeometry | None) -> KnownGeometry | None:
    """Returns the better of the server's and a person's geometry; one with known weights outranks one without."""
    records = [KnownGeometry(geometry, stated.stated_at)] if stated and (geometry := _geometry(stated.geometry)) else []
    full = model.geometry.get(FULL_GEOMETRY)
    if full and (geometry := _geometry(full)):
        records.append(KnownGeometry(geometry))
    return min(
        records, key=lambda record: (record.geometry.weights is None, RANK.index(record.geometry.source)), default=None
    )


def _geometry(document: Mapping[str, object]) -> Geometry | None:
    try:
        return Geometry.from_json(document)
    except BadInput:  # from another version: the next run reads the file again
        return None


# --- what a person states --------------------------------------------------------------------------------------------


def geometry_of(session: Session, model: Model) -> KnownGeometry | None:
    """The best geometry that is known of a stored model."""
    return best_geometry(model, stated_of(session, model))


def all_stated(session: Session) -> dict[tuple[str, str], StatedGeometry]:
    """Returns what persons stated, by name and quantization of the model."""
    return session_memo(session, _read_stated)


def _read_stated(session: Session) -> dict[tuple[str, str], StatedGeometry]:
    return {(stated.model_name, stated.quantization): stated for stated in session.exec(select(StatedGeometry)).all()}


def stated_of(session: Session, model: Model) -> StatedGeometry | None:
    """Returns what a person stated of a model, if anything."""
    return session.exec(
        select(StatedGeometry).where(
            StatedGeometry.model_name == model.name, StatedGeometry.quantization == model.quantization
        )
    ).first()


def set_stated_geometry(session: Session, model_id: int, geometry: Geometry, form: Mapping[str, str]) -> None:
    """Stores what a person states of a model, replacing an earlier statement. Raises NotFound, and BadInput without
    weights."""
    if geometry.weights is None:
        if geometry.experts_total and not geometry.experts_used:
            why = geometry.assumptions[0]
            raise BadInput(_("The bytes the model reads per token are still unknown: {why}.", why=why))
        raise BadInput(_("The size of the weights is still unknown: enter the bits per weight too."))
    model = _row(session, model_id)
    stated = stated_of(session, model) or StatedGeometry(model_name=model.name, quantization=model.quantization)
    geometry = with_totals_checked(geometry, [model.name])
    stated.geometry, stated.form, stated.stated_at = geometry.to_json(), dict(form), now()
    session.add(stated)
    session.flush()


def clear_stated_geometry(session: Session, model_id: int) -> None:
    """Remove what a person stated of a model. Raises NotFound."""
    stated = stated_of(session, _row(session, model_id))
    if stated is None:
        raise NotFound(_("No details of this model were entered, or they have been removed already."))
    session.delete(stated)
    session.flush()


def _row(session: Session, model_id: int) -> Model:
    row = session.get(Model, model_id)
    if row is None:
        raise NotFound(_("There is no model {id}.", id=model_id))
    return row


# --- what is known ---------------------------------------------------------------------------------------------------


def list_models(session: Session) -> list[KnownModel]:
    """Returns the models that some configuration uses, by name."""
    used = select(Config.model_id).distinct()
    by_name = (func.lower(Model.name), Model.quantization, col(Model.id))
    return _group_rows(session, session.exec(select(Model).where(col(Model.id).in_(used)).order_by(*by_name)).all())


def model(session: Session, model_id: int) -> KnownModel:
    """Returns the model that a row belongs to. Raises NotFound."""
    row = _row(session, model_id)
    alike = session.exec(
        select(Model).where(Model.name == row.name, Model.quantization == row.quantization).order_by(col(Model.id))
    ).all()
    return next(known_model for known_model in _group_rows(session, alike) if model_id in known_model.ids)


def _group_rows(session: Session, rows: Iterable[Model]) -> list[KnownModel]:
    counts = dict(
        session.exec(
            select(Config.model_id, func.count(col(Run.id)))
            .join(Run, col(Run.config_id) == col(Config.id))
            .group_by(col(Config.model_id))
        ).all()
    )
    stated = all_stated(session)
    groups: dict[tuple[str, str, KnownGeometry | None], list[Model]] = {}
    for row in rows:
        name = (row.name, row.quantization)
        groups.setdefault((*name, best_geometry(row, stated.get(name))), []).append(row)
    return [
        KnownModel(
            ids=tuple(sorted(row.id for row in group_rows if row.id is not None)),
            name=name,
            quantization=quantization,
            geometry_record=record,
            stated=stated.get((name, quantization)),
            parameters=_first(group_rows, "parameters"),
            size_bytes=_first(group_rows, "size_bytes"),
            run_count=sum(counts.get(row.id or 0, 0) for row in group_rows),
        )
        for (name, quantization, record), group_rows in groups.items()
    ]


def _first(rows: Iterable[Model], key: str) -> int | None:
    return next((value for row in rows if isinstance(value := row.geometry.get(key), int)), None)
