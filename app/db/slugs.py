"""Slugs: names for URLs."""

import re
import unicodedata
from collections.abc import Collection
from itertools import chain, count

from sqlmodel import Session, col, select

from app.db.tables import Machine, Server

_LATIN = str.maketrans(
    {"×": "x", "ß": "ss", "æ": "ae", "Æ": "ae", "œ": "oe", "Œ": "oe", "ø": "o", "Ø": "o"}
    | {"ł": "l", "Ł": "l", "đ": "d", "Đ": "d", "ð": "d", "Ð": "d", "þ": "th", "Þ": "th", "ı": "i", "µ": "u", "μ": "u"}
)
"""Letters and signs that are not a base letter with a mark, as they are usually written in ASCII."""


def slugify(name: str) -> str:
    """
    >>> slugify("Strix Halo (128 GB)"), slugify("2×3090"), slugify("Größe ½"), slugify("伺服器")
    ('strix-halo-128-gb', '2x3090', 'grosse-1-2', 'unnamed')
    """
    whole = unicodedata.normalize("NFKD", name.translate(_LATIN))
    plain = "".join(letter for letter in whole if not unicodedata.combining(letter)).lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:60].strip("-") or "unnamed"


RESERVED = frozenset({"new", "probe", "discover", "accelerators", "devices"})
"""Names of pages, which would hide a machine or a server with that slug."""


def free_slug(session: Session, table: type[Machine] | type[Server], name: str) -> str:
    """Returns a slug for the name that no row of the table has yet."""
    base = slugify(name)
    return first_free(
        base, set(session.exec(select(table.slug).where(col(table.slug).startswith(base))).all()) | RESERVED
    )


def first_free(base: str, used: Collection[str]) -> str:
    """Return `base`, or `base` with the lowest number that makes it unused.

    >>> first_free("tower", {"tower", "tower-2"})
    'tower-3'
    """
    return next(slug for slug in chain([base], (f"{base}-{n}" for n in count(2))) if slug not in used)
