"""The rewrites of matrices, attention and norms in their order."""

from __future__ import annotations

from engine.cost.lowering.attention import (
    join_masks,
    make_attention,
    make_other_attention,
)
from engine.cost.lowering.blocks import (
    make_gated,
    make_gelu,
    make_layer_norms,
    make_length_norms,
    make_quick_gelu,
    spell_layer_norms,
)
from engine.cost.lowering.clean import drop_dead
from engine.cost.lowering.ends import hold_ends, release_ends
from engine.cost.lowering.fours import restore_softmax, widen
from engine.cost.lowering.heads import split_heads, split_packed
from engine.cost.lowering.instances import spell_instance_norms, turn_whole_maps
from engine.cost.lowering.joins import drop_zero_sums, join_early
from engine.cost.lowering.layouts import push_norms, settle_layouts
from engine.cost.lowering.maps import lift_positions, turn_shared
from engine.cost.lowering.matrix import make_convolutions
from engine.cost.lowering.movement import make_reshapes, tidy_early
from engine.cost.lowering.pixels import settle_convolutions
from engine.cost.lowering.recurrent import make_recurrent
from engine.cost.lowering.reduce import (
    expand_divisors,
    make_channel_sums,
    make_divisions,
    make_einsums,
    make_means,
    make_slices,
    spell_lengths,
)
from engine.cost.lowering.rules import Rule
from engine.cost.lowering.scores import flatten_scores
from engine.cost.lowering.sequence import sort_nodes
from engine.cost.lowering.windows import make_windows

__all__ = ["BLOCK_RULES", "MATRIX_RULES"]

BLOCK_RULES: tuple[Rule, ...] = (
    restore_softmax,
    make_layer_norms,
    make_gelu,
    make_quick_gelu,
    make_gated,
    make_length_norms,
)
"""Groups of nodes that are one layer: they are found before anything else changes their parts."""

MATRIX_RULES: tuple[Rule, ...] = (
    lift_positions,
    turn_shared,
    drop_zero_sums,
    make_reshapes,
    hold_ends,
    make_recurrent,
    split_heads,
    split_packed,
    make_windows,
    join_masks,
    make_attention,
    flatten_scores,
    tidy_early,
    join_early,
    push_norms,
    make_other_attention,
    make_slices,
    spell_lengths,
    make_channel_sums,
    make_means,
    make_divisions,
    make_einsums,
    spell_layer_norms,
    spell_instance_norms,
    widen,
    expand_divisors,
    settle_layouts,
    make_convolutions,
    settle_convolutions,
    release_ends,
    turn_whole_maps,
    drop_dead,
    sort_nodes,
)
"""In the order in which they run, behind the folding and before activations are fused."""
