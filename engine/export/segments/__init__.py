"""Models cut into segments [RKNN-T1 1.3.2, 3.4 and 3.6.14]: containers of ours here, models of the
vendor's generation 1 by its toolkit; and where to cut for a longest time of a segment.
"""

from engine.export.segments.containers import (
    cut_container,
    layers_told,
    segments_of,
    segments_told,
)
from engine.export.segments.propose import Proposed, layer_times, propose
from engine.export.segments.vendor import cut_vendor_model, vendor_layers

__all__ = [
    "Proposed",
    "cut_container",
    "cut_vendor_model",
    "layer_times",
    "layers_told",
    "propose",
    "segments_of",
    "segments_told",
    "vendor_layers",
]
