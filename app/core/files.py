"""The folders of templates, static files and migrations.

In a checkout they are next to `app/`; in a wheel they are inside it, under `app/_files/`.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_ROOT = _PACKAGE / "_files" if (_PACKAGE / "_files").is_dir() else _PACKAGE.parent

MIGRATIONS = _ROOT / "migrations"
TEMPLATES = _ROOT / "templates"
STATIC = _ROOT / "static"
