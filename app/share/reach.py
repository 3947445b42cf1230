"""Who can open a link: people on this machine, in this network, or everybody."""

import ipaddress
from urllib.parse import urlsplit

from app.core.i18n import N_, _

LOCAL_ENDINGS = (".local", ".lan", ".internal", ".intranet", ".home", ".home.arpa", ".corp")
"""Endings of names that no public name server knows."""
_WORDS = {
    "machine": N_("Only people on this machine can open links to this address."),
    "network": N_("Only people in this network can open links to this address."),
}
INSTEAD = N_("Send the file, the Markdown or the picture to others, or set ROOFMARK_PUBLIC_URL.")


def reach(url: str) -> str:
    """Returns who can open an address: `machine`, `network`, or `everybody` as far as the address tells.

    >>> reach("http://127.0.0.1:8765/s/a"), reach("http://192.168.1.5/s/a"), reach("https://bench.example.org/s/a")
    ('machine', 'network', 'everybody')
    """
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return "machine"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a name
        return "network" if "." not in host or host.endswith(LOCAL_ENDINGS) else "everybody"
    if address.is_loopback:
        return "machine"
    return "everybody" if address.is_global else "network"


def reach_words(url: str) -> str:
    """Returns who can open an address, in a sentence; empty for everybody."""
    words = _WORDS.get(reach(url))
    return _(words) if words else ""
