"""How much of its ceiling each configuration reaches: for lists and histories."""

from typing import NamedTuple

from sqlmodel import Session

from app.ceiling.decode import DecodeCeiling
from app.ceiling.efficiency import mbu
from app.kept import kept
from app.roof.placement import Placement, resolve_placement
from app.roof.points import decode_of, step_of
from app.store.decodes import newest_decodes


class ConfigRoof(NamedTuple):
    ceiling: DecodeCeiling
    mbu: float
    """Of the newest run, as a share of 1; never clamped."""


@kept(2)
def config_roofs(session: Session, machine_id: int | None = None) -> dict[tuple[int, str], ConfigRoof]:
    """By configuration and suite, at the suite's main point; those whose ceiling is unknown are missing."""
    found: dict[tuple[int, str], ConfigRoof] = {}
    for one in newest_decodes(session, machine_id):
        assert one.config.id is not None
        stands = resolve_placement(one.hardware.devices, one.config, one.told, gpu_share=one.gpu_share)
        if isinstance(stands, Placement):
            read = step_of(stands, one.point, one.counts)
            ceiling = decode_of(stands, read, one.drafts)
            share = mbu(one.tokens_per_s, ceiling.tokens_per_s)
            found[one.config.id, one.suite_key] = ConfigRoof(ceiling, share)
    return found
