"""Bandwidths as they are measured."""

from app.hardware.bandwidth import MIB, BandwidthResult, SweepStep

GIB = 1024 * MIB

CALM = BandwidthResult(
    best_bytes_per_s=30e9,
    median_bytes_per_s=29e9,
    threads=2,
    samples=13,
    buffer_bytes=GIB,
    sweep=(SweepStep(1, (20e9, 21e9)), SweepStep(2, (30e9, 29e9))),
    plateau_ratio=1.02,
    busy_share=0.0,
)
