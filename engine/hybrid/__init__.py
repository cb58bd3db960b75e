"""Hybrid quantization: layers of another dtype, chosen by hand, by proposal or by search."""

from engine.hybrid.archive import Facts, HybridData, read_data, write_data
from engine.hybrid.auto import auto_layers
from engine.hybrid.config import HybridConfig, render_config
from engine.hybrid.edits import Edits, check_edits, edits_of
from engine.hybrid.entries import config_of
from engine.hybrid.honoured import unmet, verify
from engine.hybrid.joins import find_joins
from engine.hybrid.layers import Layers
from engine.hybrid.noise import noise_samples, noise_terms
from engine.hybrid.proposal import propose, remark_of, subgraph_layers
from engine.hybrid.read import parse_config, read_config
from engine.hybrid.search import SearchWish, search
from engine.hybrid.structure import read_structure, structure_json
from engine.hybrid.table import choices_of, lift_dtype, table_rows
from engine.hybrid.trial import Outcome, Trials, some_of

__all__ = [
    "Edits",
    "Facts",
    "HybridConfig",
    "HybridData",
    "Layers",
    "Outcome",
    "SearchWish",
    "Trials",
    "auto_layers",
    "check_edits",
    "choices_of",
    "config_of",
    "edits_of",
    "find_joins",
    "lift_dtype",
    "noise_samples",
    "noise_terms",
    "parse_config",
    "propose",
    "read_config",
    "read_data",
    "read_structure",
    "remark_of",
    "render_config",
    "search",
    "some_of",
    "structure_json",
    "subgraph_layers",
    "table_rows",
    "unmet",
    "verify",
    "write_data",
]
