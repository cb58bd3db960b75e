"""Milliseconds from cycles, bytes and operators: chips of generation 2."""

from engine.cost.timing.model import (
    Calibration,
    LayerTime,
    NetTime,
    calibrate,
    layer_times,
    net_time,
)

__all__ = ["Calibration", "LayerTime", "NetTime", "calibrate", "layer_times", "net_time"]
