"""A run under its ceiling: from stored rows and measured numbers to what the hardware allows and how much was reached.

cards       which cards of a machine hold a model, and how they share it
placement   a configuration -> the model's bytes on the devices that hold them, and published results of such devices
points      the ceiling over each measured point, and samples that are faster than their hardware can be
configs     the ceilings of many configurations: with the share that each reaches, and at any points
machine     what each device of a machine can do
analysis    where a token's time goes, how it changes with context, what would make it faster
fit         whether a placed model fits its devices, and what is left
predictions what a machine's other configurations predict, beside what was measured
limits      what limits a result, with the evidence, and what to change first
"""

from app.results.ceiling.analysis import DecodeAnalysis, analyze_decode
from app.results.ceiling.cards import Unknown
from app.results.ceiling.configs import CeilingRequest, ConfigCeiling, config_ceilings, decode_ceilings
from app.results.ceiling.fit import fit_of
from app.results.ceiling.limits import Evidence, Limit, Limits, limits, limits_of_run
from app.results.ceiling.machine import DeviceUse, ModelUse, machine_uses
from app.results.ceiling.placement import DeviceShare, Placement, resolve_placement
from app.results.ceiling.points import (
    PointCeiling,
    RunCeiling,
    context_of,
    flag_above_ceiling,
    run_ceiling,
    run_ceilings,
)
from app.results.ceiling.predictions import predictions_on

__all__ = [
    "CeilingRequest",
    "ConfigCeiling",
    "DecodeAnalysis",
    "DeviceShare",
    "DeviceUse",
    "Evidence",
    "Limit",
    "Limits",
    "ModelUse",
    "Placement",
    "PointCeiling",
    "RunCeiling",
    "Unknown",
    "analyze_decode",
    "config_ceilings",
    "context_of",
    "decode_ceilings",
    "fit_of",
    "flag_above_ceiling",
    "limits",
    "limits_of_run",
    "machine_uses",
    "predictions_on",
    "resolve_placement",
    "run_ceiling",
    "run_ceilings",
]
