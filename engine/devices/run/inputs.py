"""Files as inputs of a model on a board.

The model subtracts the mean and divides by std itself there [RKNN-T2 2.3.0, 2.2], so a picture is
handed over as it is decoded: uint8, NHWC, in the size of the input. The swap of RGB to BGR is not
in the model, generation 1's ``reorder_channel`` is [RKNN-T1 1.3.2, 3.6.3].
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.base.errors import DatasetError, EngineError, UsageError
from engine.base.text import sanitize, shape_text
from engine.container import read_container
from engine.container.vendor import inspect_vendor
from engine.dataset import InputPlan, Preprocess
from engine.dataset.decode import file_kind, named, open_array
from engine.dataset.preprocess import Layout, shape_error
from engine.dataset.samples import ReadingStats, load_pixels
from engine.devices.board.tensors import BoardInput, TensorAttributes, shape_in
from engine.graph.ir import TensorSpec


def require_files(files: Sequence[Path]) -> None:
    """Look whether files can be read, before a board is touched.

    Raises:
        DatasetError: one is missing, empty or no file.
    """
    for path in files:
        if not path.exists():
            raise DatasetError(f"{named(path)} does not exist.", remedy="Correct the path.")
        file_kind(path)


def require_inputs(path: Path, files: Sequence[Path]) -> tuple[str, ...]:
    """Hold files against what a model's file tells of itself, before it is sent to a board.

    Layouts are the runtime's to say, which is asked later: here an array must only have as many
    elements as its input, with or without the batch.

    Args:
        path: the model; one that does not tell, or has several sets of shapes, is not looked at.
        files: an image or npy file for each input.

    Returns:
        The names of its outputs; empty where the file does not tell.

    Raises:
        UsageError: there is not one file for each input.
        DatasetError: an npy file cannot be read, or has another number of elements.
    """
    inputs, outputs = _ports(path)
    if inputs:
        _require_count(len(files), inputs)
    for file, (name, shape) in zip(files, inputs, strict=False):
        if file_kind(file) != "npy" or not all(size > 0 for size in shape):
            continue
        file_shape, size = open_array(file).shape, math.prod(shape)
        if math.prod(file_shape) not in (size, size // (shape or (1,))[0]):
            raise DatasetError(
                f"{named(file)} has the shape {shape_text(file_shape)}; input {sanitize(name, 80)} "
                f"takes {shape_text(shape)}.",
                cause="An npy is not scaled: it must have the input's own shape.",
                remedy="Write it in that shape.",
            )
    return outputs


def _ports(path: Path) -> tuple[list[tuple[str, tuple[int, ...]]], tuple[str, ...]]:
    """Name and shape of each input, and the names of the outputs, where the file tells."""
    # who opens it says what is wrong with it, and a board may run what is not known here
    with contextlib.suppress(EngineError):
        vendor = inspect_vendor(path)
        if vendor.dynamic:
            return [], ()
        ports = [(port.tensor.name, port.tensor.shape) for port in vendor.inputs]
        return ports, tuple(port.tensor.name for port in vendor.outputs)
    with contextlib.suppress(EngineError):
        graph = read_container(path).graph
        ports = [(spec.name, spec.shape) for spec in graph.inputs]
        return ports, tuple(spec.name for spec in graph.outputs)
    return [], ()


def _require_count(count: int, ports: Sequence[tuple[str, tuple[int, ...]]]) -> None:
    if count != len(ports):
        raise UsageError(
            f"{count} files were given for {len(ports)} inputs.",
            cause=", ".join(f"{sanitize(name, 80)} {shape_text(s)}" for name, s in ports[:8]),
            remedy="Give one file per input.",
        )


def board_inputs(
    files: Sequence[Path],
    wanted: Sequence[TensorAttributes],
    preprocess: Preprocess,
    *,
    generation: int,
) -> tuple[tuple[BoardInput, ...], tuple[str, ...]]:
    """An array for each input of a model on a board, and what a user should know of them.

    Args:
        files: an image or npy file for each input. Pictures become uint8, NHWC; arrays stay as
            they are, but float64, which no runtime takes, becomes float32.
        wanted: the inputs, as the runtime describes them.
        preprocess: how pictures are scaled and ordered.
        generation: of the runtime, whose reading of a shape that fits two layouts is followed.

    Raises:
        UsageError: there is not one file for each input.
        DatasetError: a file cannot be read, or does not fit its input.
        RecipeError: the options do not fit the inputs.
    """
    _require_count(len(files), [(attributes.name, attributes.shape) for attributes in wanted])
    specs = [
        TensorSpec(attributes.name, shape_in(attributes, "NCHW"), "uint8") for attributes in wanted
    ]
    plans = [
        _placed(plan, tensor)
        for plan, tensor in zip(
            replace(preprocess, reorder=None, generation=generation).plans(specs),
            wanted,
            strict=True,
        )
    ]
    tally = ReadingStats()
    inputs = tuple(
        _of_array(path, plan, tally) if file_kind(path) == "npy" else _of_image(path, plan, tally)
        for path, plan in zip(files, plans, strict=True)
    )
    return inputs, tuple(finding.what for finding in tally.findings(plans))


def _placed(plan: InputPlan, attributes: TensorAttributes) -> InputPlan:
    """The plan with the layout that the board has, where it says one."""
    if len(attributes.shape) != 4 or attributes.layout not in ("NCHW", "NHWC"):
        return plan
    layout: Layout = "NHWC" if attributes.layout == "NHWC" else "NCHW"
    channels = attributes.shape[3 if layout == "NHWC" else 1]
    return replace(plan, shape=attributes.shape, layout=layout, channels=channels)


def _of_image(path: Path, plan: InputPlan, tally: ReadingStats) -> BoardInput:
    pixels = load_pixels(path, plan, tally)
    if pixels.dtype != np.uint8:  # a border of the mean
        pixels = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    batch = np.broadcast_to(pixels, (plan.shape[0], *pixels.shape))
    return BoardInput(np.ascontiguousarray(batch), "NHWC")


def _of_array(path: Path, plan: InputPlan, tally: ReadingStats) -> BoardInput:
    array: np.ndarray = np.asarray(open_array(path))
    if array.shape not in plan.accepted_shapes():
        raise shape_error(named(path), array.shape, plan)
    if plan.ambiguous(array.shape):
        tally.ambiguous += 1
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.ndim < len(plan.shape):
        array = array[np.newaxis]
    if not plan.layout:
        return BoardInput(array.reshape(plan.shape))
    return BoardInput(array, _layout(array.shape, plan))


def _layout(shape: tuple[int, ...], plan: InputPlan) -> Layout:
    """The layout that an array of one of the plan's shapes has."""
    n, h, w, c = plan.shape if plan.layout == "NHWC" else (plan.shape[i] for i in (0, 2, 3, 1))
    first, last = shape == (n, c, h, w), shape == (n, h, w, c)
    if first and last:  # as a sample of this shape is read here, see `InputPlan`
        return "NHWC" if plan.generation == 1 else "NCHW"
    return "NCHW" if first else "NHWC"
