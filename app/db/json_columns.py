"""Text columns: JSON that a query can read on either database, text compared without case, and messages."""

from typing import Any

from sqlalchemy import ColumnElement, Dialect, Exists, String, TypeDecorator, cast, exists, literal, type_coerce
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlmodel import AutoString

from app.core.i18n import restored_text, stored_text


class _Items(FunctionElement[Any]):
    """The items of a list."""

    name = "json_items"
    inherit_cache = True


class _Values(FunctionElement[Any]):
    """The values of an object."""

    name = "json_values"
    inherit_cache = True


class _Lowered(FunctionElement[str]):
    """The text in lower case."""

    name = "lowered"
    inherit_cache = True


@compiles(_Lowered, "sqlite")
def _sqlite_lowered(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    return f"unicode_lower({compiler.process(element.clauses, **options)})"  # SQLite's lower() knows ASCII only


@compiles(_Lowered, "postgresql")
def _postgresql_lowered(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    return f"lower({compiler.process(element.clauses, **options)})"


@compiles(_Items, "sqlite")
@compiles(_Values, "sqlite")
def _sqlite(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Items, "postgresql")
def _postgresql_items(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    return f"json_array_elements_text({compiler.process(element.clauses, **options)})"


@compiles(_Values, "postgresql")
def _postgresql_values(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    return f"json_each_text({compiler.process(element.clauses, **options)})"


def lowered(text: Any) -> Any:
    """Returns a column or a text for a comparison that ignores upper and lower case."""
    return type_coerce(_Lowered(literal(text) if isinstance(text, str) else text), String)


def contains(column: Any, text: str) -> ColumnElement[bool]:
    """A condition: whether a column contains `text`, in whatever case."""
    if text.isascii():  # for which the databases' own way is right, and quicker
        clause: ColumnElement[bool] = column.icontains(text, autoescape=True)
    else:
        clause = lowered(column).contains(text.lower(), autoescape=True)
    return clause


def has_item(column: Any, item: str) -> ColumnElement[bool]:
    """A condition: whether a list holds `item` as a whole, in whatever case."""
    rows = _Items(column).table_valued("value")
    is_member = exists().select_from(rows).where(lowered(rows.c.value) == lowered(item))
    return _is_filled(column) & is_member


def any_item_has(column: Any, text: str) -> ColumnElement[bool]:
    """A condition: whether an item of a list contains `text`, in whatever case."""
    return _is_filled(column) & _any_has(_Items(column), text)


def any_value_has(column: Any, text: str) -> Exists:
    """A condition: whether a value of an object contains `text`, in whatever case."""
    return _any_has(_Values(column), text)


def items(column: Any) -> Any:
    """Returns the items of all lists of a column, to select from."""
    return _Items(column).table_valued("value")


def _is_filled(column: Any) -> ColumnElement[bool]:
    """Returns a condition that skips empty lists, which most are."""
    return cast(column, String) != "[]"


def _any_has(rows: FunctionElement[Any], text: str) -> Exists:
    values = rows.table_valued("value")
    return exists().select_from(values).where(contains(values.c.value, text))


class MessageText(TypeDecorator[str]):
    """A text column that is read in the reader's language; JSON columns do the same for each text in them
    (`app.db.database`)."""

    impl = AutoString
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else stored_text(value)

    def process_result_value(self, value: Any, _dialect: Dialect) -> str | None:
        return None if value is None else restored_text(value)
