"""How much of its ceiling each configuration reaches: for lists and histories."""

from typing import NamedTuple

from sqlmodel import Session

from app.ceiling.decode import DecodeCeiling
from app.ceiling.efficiency import mbu
from app.ceiling.traffic import step
from app.roof.foundation import Foundation, foundation
from app.roof.points import context_of
from app.store.decodes import newest_decodes
from app.store.machines import MachineDevice, devices


class ConfigRoof(NamedTuple):
    ceiling: DecodeCeiling
    mbu: float
    """Of the newest run, as a share of 1; never clamped."""


def config_roofs(session: Session, machine_id: int | None = None) -> dict[tuple[int, str], ConfigRoof]:
    """By configuration and suite, at the suite's main point; those whose ceiling is unknown are missing."""
    held: dict[int, tuple[MachineDevice, ...]] = {}
    found: dict[tuple[int, str], ConfigRoof] = {}
    for one in newest_decodes(session, machine_id):
        assert one.machine.id is not None
        assert one.config.id is not None
        if one.machine.id not in held:
            held[one.machine.id] = tuple(devices(session, one.machine))
        stands = foundation(held[one.machine.id], one.config, one.told)
        if isinstance(stands, Foundation):
            read = step(stands.geometry, context_of(one.point), stands.kv, one.point.concurrency)
            assert read is not None, "a foundation has weights"
            ceiling = stands.decode(read)
            share = mbu(one.tokens_per_s * one.point.concurrency, ceiling.tokens_per_s)
            found[one.config.id, one.suite_key] = ConfigRoof(ceiling, share)
    return found
