"""Roofmark: records TTFT, prefill and decode of language model servers, and keeps the history."""

import sys
from typing import Any

__version__ = "0.1.0"

# FastAPI asks of every parameter whether it is a model of pydantic's first version, and imports all of that to hear no:
# a tenth of the server's start. Where it cannot be imported, FastAPI takes the answer to be no.
_modules: dict[str, Any] = sys.modules
_modules.setdefault("pydantic.v1", None)
