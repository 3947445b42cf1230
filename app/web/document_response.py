"""The response of a route that gives a JSON document."""

from typing import Any

from pydantic_core import to_json
from starlette.responses import JSONResponse


class DocumentResponse(JSONResponse):
    """A document in the shape of the route's `response_model`; NaN and infinity, which JSON lacks, are null.

    FastAPI would hold the document against the model once more: of a list of 500 runs that is a third of the time. The
    tests do it instead, with every document that a test asks for (tests/web/notebook.py).
    """

    def render(self, content: Any) -> bytes:
        return to_json(content, inf_nan_mode="null")
