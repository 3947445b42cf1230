"""A suite's point in words."""

from app.core.i18n import _, joined
from app.core.samples import Workload
from app.core.units import plural


def point_title(point: Workload) -> str:
    """
    >>> point_title(Workload(2064, 128, concurrency=4, depth=2000))
    '2,064 prompt tokens, 128 output tokens, 4 streams, 2,000 in the cache before'
    """
    return joined(_prompt(point), plural(point.output_tokens, "output token"), *_seldom(point), by=", ")


def brief_title(point: Workload) -> str:
    """Where the output tokens stand beside it.

    >>> brief_title(Workload(2064, 128)), brief_title(Workload(512, 128, concurrency=4))
    ('2,064 prompt tokens', '512 prompt tokens, 4 streams')
    """
    return joined(_prompt(point), *_seldom(point), by=", ")


def _prompt(point: Workload) -> str:
    return plural(point.prompt_tokens, "prompt token")


def _seldom(point: Workload) -> list[str]:
    """What points usually do not have."""
    said = [plural(point.concurrency, "stream")] if point.concurrency > 1 else []
    return said + ([_("{n:,} in the cache before", n=point.depth)] if point.depth else [])
