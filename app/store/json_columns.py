"""What stands inside JSON columns, as rows of text that a query can look at, on either database."""

from typing import Any

from sqlalchemy import Exists, exists
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class _Items(FunctionElement[Any]):
    """Of a list."""

    name = "json_items"
    inherit_cache = True


class _Values(FunctionElement[Any]):
    """Of an object."""

    name = "json_values"
    inherit_cache = True


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


def has_item(column: Any, item: str) -> Exists:
    """Whether a list holds `item`, letter by letter."""
    found = _Items(column).table_valued("value")
    return exists().select_from(found).where(found.c.value == item)


def any_item_has(column: Any, text: str) -> Exists:
    """Whether an item of a list contains `text`, in whatever case."""
    return _any_has(_Items(column), text)


def any_value_has(column: Any, text: str) -> Exists:
    """Whether a value of an object contains `text`, in whatever case."""
    return _any_has(_Values(column), text)


def items(column: Any) -> Any:
    """The items of all lists of a column: to select from."""
    return _Items(column).table_valued("value")


def _any_has(rows: FunctionElement[Any], text: str) -> Exists:
    found = rows.table_valued("value")
    return exists().select_from(found).where(found.c.value.icontains(text, autoescape=True))
