"""Who can open a link."""

import pytest

from app.share.reach import reach, reach_words


@pytest.mark.parametrize(
    ("url", "who"),
    [
        ("http://localhost:8765/s/a", "machine"),
        ("http://127.0.0.1:8765/s/a", "machine"),
        ("http://[::1]:8765/s/a", "machine"),
        ("http://demo.localhost/s/a", "machine"),
        ("http://192.168.1.5/s/a", "network"),
        ("http://10.0.0.7:8765/s/a", "network"),
        ("http://100.64.0.3/s/a", "network"),
        ("http://[fd00::5]/s/a", "network"),
        ("http://169.254.1.1/s/a", "network"),
        ("http://tower:8765/s/a", "network"),
        ("http://models.lan/s/a", "network"),
        ("http://box.local/s/a", "network"),
        ("https://bench.example.org/s/a", "everybody"),
        ("http://8.8.8.8/s/a", "everybody"),
    ],
)
def test_an_address_says_who_can_open_it(url: str, who: str) -> None:
    assert reach(url) == who
    words = {
        "machine": "Only people on this machine can open links to this address.",
        "network": "Only people in this network can open links to this address.",
    }
    assert reach_words(url) == words.get(who, "")
