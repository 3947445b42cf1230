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


@cached_query(2)
def config_ceilings(session: Session, machine_id: int | None = None) -> dict[tuple[int, str], ConfigCeiling]:
    """By configuration and suite, at the suite's main point; those whose ceiling is unknown are missing."""
    ceilings: dict[tuple[int, str], ConfigCeiling] = {}
    for decode in newest_decodes(session, machine_id):
        assert decode.config.id is not None
        placement = resolve_placement(
            decode.hardware.devices, decode.config, decode.known_geometry, gpu_share=decode.gpu_share
        )
        if isinstance(placement, Placement):
            decode_step = step_of(placement, decode.point, decode.counts)
            ceiling = decode_of(placement, decode_step, decode.drafts)
            share = mbu(decode.tokens_per_s, ceiling.tokens_per_s)
            ceilings[decode.config.id, decode.suite_key] = ConfigCeiling(ceiling, share)
    return ceilings
