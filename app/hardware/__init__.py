"""The machine: what it is made of (`detect`), what devices are known to do (`catalogue`), and how fast its memory is
read (`bandwidth`). This module holds what costs nothing to know; the rest is imported where it is used.
"""

from app.hardware.host import (
    Host,
    available_ram_bytes,
    logical_cores,
    names_this_host,
    physical_cores,
    this_host,
)

__all__ = [
    "Host",
    "available_ram_bytes",
    "logical_cores",
    "names_this_host",
    "physical_cores",
    "this_host",
]
