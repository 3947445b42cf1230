"""What the server's start does without."""

import subprocess
import sys


def test_pages_are_there_without_what_only_costs_time() -> None:
    code = (
        "import sys; from app.web import create_app; from app.core.settings import Settings; "
        "paths = create_app(Settings(data_dir=sys.argv[1])).openapi()['paths']; "
        "heavy = [name for name in ('numpy', 'PIL', 'jinja2', 'alembic', 'httpx', 'rich') if sys.modules.get(name)]; "
        "assert paths and not heavy, heavy"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code, "unused"], check=True)
