"""How much of its ceiling each configuration reaches: for lists and histories."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlmodel import Session

from app.ceiling.decode import DecodeCeiling
from app.ceiling.efficiency import mbu
from app.ceiling.traffic import step
from app.models import Config, Machine, Model
from app.roof.foundation import Foundation, Unknown, foundation
from app.roof.points import context_of
from app.samples import Point
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
        stands = foundation(held[one.machine.id], one.config, one.model)
        if isinstance(stands, Foundation):
            read = step(stands.geometry, context_of(one.point), stands.kv, one.point.concurrency)
            assert read is not None, "a foundation has weights"
            ceiling = stands.decode(read)
            share = mbu(one.tokens_per_s * one.point.concurrency, ceiling.tokens_per_s)
            found[one.config.id, one.suite_key] = ConfigRoof(ceiling, share)
    return found


class Stand(NamedTuple):
    """A configuration on a machine at a point."""

    machine: Machine
    config: Config
    model: Model
    point: Point


def decode_ceilings(session: Session, wanted: Sequence[Stand]) -> list[float | None]:
    """What all streams together can reach at most in each of these, in tok/s; None: unknown."""
    held: dict[int, Sequence[MachineDevice]] = {}
    stood: dict[tuple[int, int], Foundation | Unknown] = {}
    found: list[float | None] = []
    for one in wanted:
        assert one.machine.id is not None
        assert one.config.id is not None
        if one.machine.id not in held:
            held[one.machine.id] = devices(session, one.machine)
        place = (one.machine.id, one.config.id)
        if place not in stood:
            stood[place] = foundation(held[one.machine.id], one.config, one.model)
        stands = stood[place]
        if isinstance(stands, Foundation):
            read = step(stands.geometry, context_of(one.point), stands.kv, one.point.concurrency)
            assert read is not None, "a foundation has weights"
            found.append(stands.decode(read).tokens_per_s)
        else:
            found.append(None)
    return found
