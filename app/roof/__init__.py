"""A run under its ceiling: from stored rows and measured numbers to what the hardware allows and how much was reached.

cards       which cards of a machine hold a model, and how they share it
placement   a configuration -> the model's bytes on the devices that hold them
points      the ceiling over each measured point
configs     the share that each configuration reaches
stands      the decode ceilings of configurations at any points
machine     what each device of a machine can do
insight     where a token's time goes, how it changes with context, what would make it faster
beyond      samples that are faster than their hardware can be
limits      what limits a result, with the evidence, and what to change first
"""

from app.roof.beyond import with_ceiling
from app.roof.configs import ConfigRoof, config_roofs
from app.roof.insight import Insight, insight
from app.roof.limits import Evidence, Limit, Limits, limits, limits_of_run
from app.roof.machine import DeviceUse, ModelUse, machine_uses
from app.roof.placement import DeviceShare, Placement, Unknown, resolve_placement
from app.roof.points import PointRoof, RunRoof, context_of, roofs, run_roof
from app.roof.stands import Stand, decode_ceilings

__all__ = [
    "ConfigRoof",
    "DeviceShare",
    "DeviceUse",
    "Evidence",
    "Insight",
    "Limit",
    "Limits",
    "ModelUse",
    "Placement",
    "PointRoof",
    "RunRoof",
    "Stand",
    "Unknown",
    "config_roofs",
    "context_of",
    "decode_ceilings",
    "insight",
    "limits",
    "limits_of_run",
    "machine_uses",
    "resolve_placement",
    "roofs",
    "run_roof",
    "with_ceiling",
]
