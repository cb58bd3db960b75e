"""How a quantized model differs from the float one: snapshots, error analysis, scores."""

from engine.accuracy.analyse import (
    AccuracyReport,
    Distance,
    LayerAccuracy,
    Runner,
    Sink,
    analyse,
)
from engine.accuracy.rows import Row, layer_rows
from engine.accuracy.score import Labelled, Score, read_labelled, top1
from engine.accuracy.snapshot import SnapshotWriter, error_table, file_names

__all__ = [
    "AccuracyReport",
    "Distance",
    "Labelled",
    "LayerAccuracy",
    "Row",
    "Runner",
    "Score",
    "Sink",
    "SnapshotWriter",
    "analyse",
    "error_table",
    "file_names",
    "layer_rows",
    "read_labelled",
    "top1",
]
