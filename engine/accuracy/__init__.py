"""How a quantized model differs from the float one: snapshots, error analysis, scores."""

from engine.accuracy.analyse import AccuracyReport, Runner, Sink, analyse, noisiest
from engine.accuracy.labelled import LabelledDataset, read_labelled
from engine.accuracy.output_impact import with_output_impact
from engine.accuracy.rows import Row, layer_rows
from engine.accuracy.score import Evaluated, TopK, evaluate_labelled, metric_of
from engine.accuracy.snapshot import SnapshotWriter, dump_layers, error_table, file_names

__all__ = [
    "AccuracyReport",
    "Evaluated",
    "LabelledDataset",
    "Row",
    "Runner",
    "Sink",
    "SnapshotWriter",
    "TopK",
    "analyse",
    "dump_layers",
    "error_table",
    "evaluate_labelled",
    "file_names",
    "layer_rows",
    "metric_of",
    "noisiest",
    "read_labelled",
    "with_output_impact",
]
