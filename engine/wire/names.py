"""Words of the wire that both ends know, for who needs no types."""

from __future__ import annotations

from typing import Literal

Arithmetic = Literal["integer", "reference"]
"""How a quantized graph is simulated: by integer kernels, or in float between roundings."""
ARITHMETICS: tuple[Arithmetic, ...] = ("integer", "reference")

VENDOR_KINDS = ("rknn_vendor", "rknnop")
"""Kinds of the vendor's compiled models and packages of operators."""

NOT_EXACT_CODE = "simulated-not-bit-exact"
"""Code of the finding of a build that float kernels simulate in part."""
NOT_EXACT = "simulated, not bit-exact"
"""The same in words: numbers differ from the numpy reference in the last place."""

CURVE_KIND = "hybrid.curve"
"""Kind of the pieces that are points of a search's curve."""
ROW_KIND = "sweep.row"
"""Kind of the pieces that are finished builds of a sweep."""
