"""Names for URLs."""

import re
import unicodedata

from sqlmodel import Session, col, select

from app.models import Machine, Server


def slugify(name: str) -> str:
    """
    >>> slugify("Strix Halo (128 GB)"), slugify("伺服器")
    ('strix-halo-128-gb', 'unnamed')
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60] or "unnamed"


RESERVED = frozenset({"new", "probe", "discover", "accelerators", "devices"})


def free_slug(session: Session, table: type[Machine] | type[Server], name: str) -> str:
    base = slugify(name)
    taken = set(session.exec(select(table.slug).where(col(table.slug).startswith(base))).all()) | RESERVED
    if base not in taken:
        return base
    return next(slug for n in range(2, len(taken) + 3) if (slug := f"{base}-{n}") not in taken)
