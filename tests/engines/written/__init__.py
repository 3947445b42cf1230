"""One replayed server per engine, in a module with the name of the engine's own, whose `server()` makes it.

Those with recordings in tests/captures play them, the others are written after what the engine's source sends. All
expected values are read off these bytes by hand. `tests/engines/prompt_cache.py` has a prompt cache for them.
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from tests.engines.servers import Server

SERVERS: dict[str, Callable[[], Server]] = {
    import_module(f"app.engines.{name}").ENGINE.key: import_module(f"{__name__}.{name}").server
    for _, name, _ in iter_modules(__path__)
}
"""By the key of the engine."""
