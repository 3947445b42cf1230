"""The decode ceilings of configurations at any points, for whoever draws many of them."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlmodel import Session

from app.ceiling.traffic import step
from app.models import Config, Machine, Model
from app.roof.foundation import Foundation, Unknown, foundation
from app.roof.points import context_of
from app.samples import Point
from app.store.machines import MachineDevice, devices


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
