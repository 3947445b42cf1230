"""Pages as a reader reads them."""

import re
from html import unescape

from fastapi.testclient import TestClient


def text_of(page: str) -> str:
    """What a reader reads: no tags, single spaces."""
    without_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", without_scripts)))


def read(client: TestClient, public_id: str) -> str:
    answer = client.get(f"/runs/{public_id}")
    assert answer.status_code == 200
    return text_of(answer.text)
