"""Hybrid quantization: layers of another dtype, chosen by hand, by proposal or by search."""

from engine.hybrid.cfg_reader import parse_config, read_config
from engine.hybrid.cfg_writer import HybridConfig, build_config, render_config
from engine.hybrid.concat_ranges import find_range_mismatches
from engine.hybrid.data_file import Facts, HybridData, read_data, write_data
from engine.hybrid.edits import Edits, check_edits, edits_of, not_applied, verify_requests
from engine.hybrid.evaluator import EvalResult, Evaluator, subsample
from engine.hybrid.layers import Layers, choices_of, promotion_dtype, table_rows
from engine.hybrid.model_structure import read_structure, structure_json
from engine.hybrid.proposal import auto_layers, propose, remark_of, subgraph_layers
from engine.hybrid.search import search
from engine.hybrid.sensitivity import noise_samples, noise_terms

__all__ = [
    "Edits",
    "EvalResult",
    "Evaluator",
    "Facts",
    "HybridConfig",
    "HybridData",
    "Layers",
    "auto_layers",
    "build_config",
    "check_edits",
    "choices_of",
    "edits_of",
    "find_range_mismatches",
    "noise_samples",
    "noise_terms",
    "not_applied",
    "parse_config",
    "promotion_dtype",
    "propose",
    "read_config",
    "read_data",
    "read_structure",
    "remark_of",
    "render_config",
    "search",
    "structure_json",
    "subgraph_layers",
    "subsample",
    "table_rows",
    "verify_requests",
    "write_data",
]
