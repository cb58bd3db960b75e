"""Milliseconds from cycles, bytes and operators: chips of generation 2."""

from engine.cost.timing.calibration import Calibration, calibrate
from engine.cost.timing.model import LayerTime, NetTime, layer_times, net_time

__all__ = ["Calibration", "LayerTime", "NetTime", "calibrate", "layer_times", "net_time"]
