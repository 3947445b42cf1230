"""A suite's point in words."""

from app.core.i18n import _, separator
from app.core.samples import Workload
from app.core.units import plural


def point_title(point: Workload) -> str:
    """
    >>> point_title(Point(2064, 128, concurrency=4, depth=2000))
    '2,064 prompt tokens, 128 output tokens, 4 streams, 2,000 in the cache before'
    """
    return separator(", ").join([_prompt(point), plural(point.output_tokens, "output token"), *_optional_parts(point)])


def brief_title(point: Workload) -> str:
    """Where the output tokens stand beside it.

    >>> brief_title(Point(2064, 128)), brief_title(Point(512, 128, concurrency=4))
    ('2,064 prompt tokens', '512 prompt tokens, 4 streams')
    """
    return separator(", ").join([_prompt(point), *_optional_parts(point)])


def _prompt(point: Workload) -> str:
    return plural(point.prompt_tokens, "prompt token")


def _optional_parts(point: Workload) -> list[str]:
    """What points usually do not have."""
    said = [plural(point.concurrency, "stream")] if point.concurrency > 1 else []
    return said + ([_("{n:,} in the cache before", n=point.depth)] if point.depth else [])
