"""The environment of the templates, for the pages and for shares alike."""

from typing import TYPE_CHECKING

import app
from app.core import files, i18n, units

if TYPE_CHECKING:
    import jinja2


def environment() -> "jinja2.Environment":
    """A new one with what every template may use; who renders them adds filters and globals of their own."""
    import jinja2  # with the first page

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(files.TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    i18n.install(env)
    env.globals.update(version=app.__version__)
    env.filters.update(number=units.format_number, plural=units.plural)
    return env
