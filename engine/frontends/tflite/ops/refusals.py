"""Operators that are refused, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["REFUSALS"]

_DATA = "the size of its result depends on the data"
_STRINGS = "it works on strings or hash tables"
_MEMORY = "it keeps variables between runs, and a graph has no memory"
_RANDOM = "its result is random"
_COMPLEX = "ONNX Runtime has no complex numbers"
_CONSTANT = "its inputs are computed from the data, and so is the size of its result"
_CUSTOM = "it is a custom operator, whose meaning only the program that made it knows"
_INTERNAL = "no current kernel of TFLite runs it"

REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        "ASSIGN_VARIABLE": _MEMORY,
        "BITCAST": "ONNX has no operator that takes bits as another type",
        "BROADCAST_ARGS": _CONSTANT,
        "CALL": _INTERNAL,
        "CALL_ONCE": _MEMORY,
        "COMPLEX_ABS": _COMPLEX,
        "CONCAT_EMBEDDINGS": _INTERNAL,
        "CONV_3D_TRANSPOSE": "no model was at hand to compare it with",
        "CUSTOM": _CUSTOM,
        "DELEGATE": "it was compiled for one accelerator",
        "DILATE": "no model was at hand to compare it with",
        "EMBEDDING_LOOKUP_SPARSE": "its input is a sparse tensor",
        "HASHTABLE": _STRINGS,
        "HASHTABLE_FIND": _STRINGS,
        "HASHTABLE_IMPORT": _STRINGS,
        "HASHTABLE_LOOKUP": _STRINGS,
        "HASHTABLE_SIZE": _STRINGS,
        "IMAG": _COMPLEX,
        "LSH_PROJECTION": "it is a hash of bits",
        "MULTINOMIAL": _RANDOM,
        "NON_MAX_SUPPRESSION_V4": "boxes are selected by the program around the network",
        "NON_MAX_SUPPRESSION_V5": "boxes are selected by the program around the network",
        "RANDOM_STANDARD_NORMAL": _RANDOM,
        "RANDOM_UNIFORM": _RANDOM,
        "RANGE": _CONSTANT,
        "READ_VARIABLE": _MEMORY,
        "REAL": _COMPLEX,
        "REDUCE_WINDOW": "no model was at hand to compare it with",
        "RFFT2D": _COMPLEX,
        "RIGHT_SHIFT": "ONNX shifts unsigned numbers only",
        "SKIP_GRAM": _STRINGS,
        "UNIQUE": _DATA,
        "VAR_HANDLE": _MEMORY,
        "WHERE": _DATA,
    }
)
"""Operator -> why; those of StableHLO and unknown ones are refused without standing here."""
