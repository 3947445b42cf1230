"""A column for one sentence: a message is stored as its id and values, other text as it is."""

from typing import Any

from sqlalchemy import Dialect, TypeDecorator
from sqlmodel import AutoString

from app.core.i18n import restored_text, stored_text


class MessageText(TypeDecorator[str]):
    """Read in the reader's language; JSON columns do the same for each text inside them (`app.db.database`)."""

    impl = AutoString
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else stored_text(value)

    def process_result_value(self, value: Any, _dialect: Dialect) -> str | None:
        return None if value is None else restored_text(value)
