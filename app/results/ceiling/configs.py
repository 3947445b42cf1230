"""How much of its ceiling each configuration reaches: for lists and histories."""

from typing import NamedTuple

from sqlmodel import Session

from app.ceiling.decode import DecodeCeiling
from app.ceiling.efficiency import mbu
from app.db.query_cache import cached_query
from app.results.ceiling.placement import Placement, resolve_placement
from app.results.ceiling.points import decode_of, step_of
from app.results.decode_speeds import newest_decodes


class ConfigCeiling(NamedTuple):
    ceiling: DecodeCeiling
    mbu: float
    """Of the newest run, as a share of 1; never clamped."""


@cached_query(maxsize=2)
def config_ceilings(session: Session, machine_id: int | None = None) -> dict[tuple[int, str], ConfigCeiling]:
    """By configuration and suite, at the suite's main point; those whose ceiling is unknown are missing."""
    found: dict[tuple[int, str], ConfigCeiling] = {}
    for one in newest_decodes(session, machine_id):
        assert one.config.id is not None
        stands = resolve_placement(one.hardware.devices, one.config, one.told, gpu_share=one.gpu_share)
        if isinstance(stands, Placement):
            read = step_of(stands, one.point, one.counts)
            ceiling = decode_of(stands, read, one.drafts)
            share = mbu(one.tokens_per_s, ceiling.tokens_per_s)
            found[one.config.id, one.suite_key] = ConfigCeiling(ceiling, share)
    return found
