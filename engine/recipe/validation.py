"""Checks across options: those that contradict each other whatever the model is."""

from __future__ import annotations

from engine.options import Preprocessing, Source

__all__ = ["cross_check"]


def cross_check(source: Source, preprocess: Preprocessing) -> dict[str, str]:
    """Option name -> message, for options that cannot hold together whatever the model is."""
    return {**_of_rows(preprocess), **_of_channels(preprocess), **_of_inputs(source)}


def _of_rows(part: Preprocessing) -> dict[str, str]:
    mean, std = part.mean_values, part.std_values
    if mean is None or std is None:
        return {}
    if len(mean) != len(std):
        return {
            "std_values": f"mean_values has {len(mean)} lists and std_values {len(std)}; "
            "each needs one per input."
        }
    for index, (m, s) in enumerate(zip(mean, std, strict=True)):
        if len(m) != len(s) and 1 not in (len(m), len(s)):
            return {
                "std_values": f"For input {index} mean_values has {len(m)} channels "
                f"and std_values {len(s)}."
            }
    return {}


def _of_channels(part: Preprocessing) -> dict[str, str]:
    """What generation 1 says in one option and generation 2 in others."""
    problems = {}
    if part.channel_mean_value is not None and (part.mean_values or part.std_values):
        problems["channel_mean_value"] = (
            "channel_mean_value and mean_values or std_values say the same in two ways: "
            "give one of them."
        )
    swaps = part.quant_img_RGB2BGR
    if part.reorder_channel is not None and (swaps if isinstance(swaps, bool) else any(swaps)):
        problems["reorder_channel"] = (
            "reorder_channel and quant_img_RGB2BGR both swap the channels of images: set only one "
            "of them."
        )
    return problems


def _of_inputs(source: Source) -> dict[str, str]:
    problems = {}
    names = source.inputs
    rows = {
        "input_size_list": source.input_size_list,
        "input_initial_val": source.input_initial_val,
    }
    for name, entries in rows.items():
        if names is not None and entries is not None and len(entries) != len(names):
            problems[name] = (
                f"inputs names {len(names)} tensors and {name} has {len(entries)} entries."
            )
    sets = source.dynamic_input
    if sets is None:
        return problems
    if len({len(one) for one in sets}) > 1:
        problems["dynamic_input"] = "The sets of dynamic_input have different numbers of shapes."
    elif names is not None and len(sets[0]) != len(names):
        problems["dynamic_input"] = (
            f"inputs names {len(names)} tensors and each set of dynamic_input has "
            f"{len(sets[0])} shapes."
        )
    elif len(set(sets)) < len(sets):
        problems["dynamic_input"] = "dynamic_input names a set of shapes twice."
    return problems
