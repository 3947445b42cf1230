"""Where the files beside the code are: templates, static files and migrations.

In a checkout they stand next to `app/`; in a wheel they travel inside it, under `app/_files/`.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_ROOT = _PACKAGE / "_files" if (_PACKAGE / "_files").is_dir() else _PACKAGE.parent

MIGRATIONS = _ROOT / "migrations"
TEMPLATES = _ROOT / "templates"
STATIC = _ROOT / "static"
