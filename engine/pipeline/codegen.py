"""From a build, a container or a compiled model to what a generated project is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.base.content import reading
from engine.base.errors import UsageError
from engine.base.events import NullReporter, Progress, Reporter, StageFinished, StageStarted
from engine.base.files import read_regular
from engine.base.text import sanitize
from engine.dataset import Dataset, InputPlan, Preprocess, dataset_from_paths, samples
from engine.devices.board.tensors import TensorAttributes
from engine.devices.run.inputs import board_inputs
from engine.export.codegen.project import (
    Array,
    Board,
    Project,
    ProjectInput,
    ProjectOutput,
    Sample,
)
from engine.frontends.darknet.files import read_cfg
from engine.recipe import portable_recipe

if TYPE_CHECKING:
    from engine.graph.ir import TensorSpec
    from engine.pipeline.pipeline import Pipeline
    from engine.pipeline.runner import Runnable
    from engine.recipe import Recipe

Anchors = dict[str, object]
"""Of a Darknet network: ``anchors`` and ``scale``, each output -> its values."""

MOST_SAMPLES = 100
"""Golden samples of a project, at most."""
_STAGE = "codegen"
_CFG_BYTES = 16 << 20
_TAKEN = ("float32", "float16", "int8", "uint8", "int16")
_ALSO_2 = ("uint16", "int32", "uint32", "int64", "bool")


def project_of(
    pipeline: Pipeline | None,
    container: Path | None,
    compiled: Path | None,
    chip: str | None,
    files: Sequence[Path],
    *,
    no_golden: str,
    normalise: bool = False,
    reporter: Reporter | None = None,
) -> tuple[Project, Anchors]:
    """A project whose golden outputs are what the simulator gives, and the anchors of its model.

    Args:
        pipeline: of the build; None where there is none.
        container: of ours, in its place.
        compiled: the compiled model to copy in; without a build and a container it is all that is
            known, and there are no golden outputs.
        chip: that the project is for; None: that of the compiled model, else of the recipe.
        files: of the samples, one for each input, samples one after the other; without any the
            first sample of the calibration is taken, where there is none random values.
        no_golden: what to do where there are files and no golden outputs.
        normalise: whether the project applies mean and std, as the compiled model lacks them.
        reporter: told of each sample.

    Raises:
        DatasetError: a file cannot be read or does not fit.
        UsageError: no chip is given, there are too many samples, or the chip takes no inputs of
            such a type.
        ContainerError: the container or the compiled model cannot be read.
        SimulationError: the graph does not run.
    """
    from engine.pipeline.runner import Runnable, does_not_run

    anchors: Anchors = {}
    dataset: Dataset | None = None
    if pipeline is not None:
        recipe = pipeline.recipe
        board = _board(chip, recipe, compiled)
        runnable = Runnable.of_build(pipeline)
        anchors = darknet_anchors(recipe, len(runnable.outputs))
        dataset = pipeline.dataset.first(1) if pipeline.samples.is_named else None
    elif container is not None:
        runnable = Runnable.of_container(container)
        with reading(lambda why: does_not_run(container, why)):
            recipe = portable_recipe(runnable.recipe)
        board = _board(chip, recipe, compiled)
    elif compiled is not None:
        board = _board(chip, None, compiled)
        if files:
            raise UsageError(
                "A compiled model alone does not run here, so that inputs have no golden outputs.",
                remedy=no_golden,
            )
        return _project_of_compiled(compiled, board), anchors
    else:
        raise UsageError("The request names no recipe, no build and no compiled model.")
    preprocess = Preprocess.from_recipe(recipe, board.generation)
    plans = preprocess.plans(runnable.inputs)
    if files:
        dataset = dataset_from_paths(list(files), len(plans))
    reporter = reporter or NullReporter()
    golden, layouts = _golden_samples(
        runnable, dataset, plans, preprocess, board, normalise=normalise, reporter=reporter
    )
    inputs = tuple(
        _input(plan, array, nhwc, normalise=normalise)
        for plan, array, nhwc in zip(plans, golden[0].inputs, layouts, strict=True)
    )
    shapes = zip(runnable.outputs, golden[0].outputs, strict=True)
    project = Project(
        model=runnable.name,
        board=board,
        inputs=inputs,
        outputs=tuple(ProjectOutput(spec.name, tuple(array.shape)) for spec, array in shapes),
        samples=tuple(golden),
        made_from=f"`rknntui compile RECIPE --chip {board.chip} -o out/`, with the recipe of "
        f"{runnable.name}, makes it by the vendor's toolkit.",
        compiled=compiled,
    )
    return project, anchors


def _board(chip: str | None, recipe: Recipe | None, compiled: Path | None) -> Board:
    """What a project is for: as the user says, else the compiled model, else the recipe."""
    from engine.container.vendor.inspect import inspect_vendor

    chips = () if compiled is None else inspect_vendor(compiled).chips
    chip = chip or (chips[0] if chips else None)
    if chip is None and recipe is not None:
        chip = recipe.target.target_platform
    if chip is None:
        raise UsageError(
            "No chip is given.",
            remedy="Give --chip, or target_platform in the recipe.",
        )
    return Board.of_chip(chip)


def _golden_samples(
    runnable: Runnable,
    dataset: Dataset | None,
    plans: Sequence[InputPlan],
    preprocess: Preprocess,
    board: Board,
    *,
    normalise: bool,
    reporter: Reporter,
) -> tuple[list[Sample], list[bool]]:
    """Each sample with the simulator's outputs; and of which inputs the channels come last."""
    count = 1 if dataset is None else len(dataset)
    if count > MOST_SAMPLES:
        raise UsageError(f"{count} samples were given.", remedy=f"Give at most {MOST_SAMPLES}.")
    specs = runnable.inputs
    stream = None if dataset is None else samples(dataset, specs, preprocess, reporter)
    reporter.emit(StageStarted(_STAGE, "Golden outputs", 0, 1))
    golden_samples = []
    layouts: list[bool] = []
    for number in range(count):
        reporter.check_cancelled()
        if dataset is None or stream is None:
            arrays_and_layouts, feed = _random(specs, plans, normalise=normalise)
        else:
            arrays_and_layouts = _given(dataset.entries[number], specs, plans, preprocess, board)
            feed = stream[number]
        if normalise:
            arrays_and_layouts = [_normalised(feed[plan.name], plan) for plan in plans]
        layouts = [nhwc for _, nhwc in arrays_and_layouts]
        arrays = tuple(_taken(array, board) for array, _ in arrays_and_layouts)
        outputs = runnable.run(feed)
        golden = tuple(np.asarray(output, np.float32) for output in outputs.values())
        golden_samples.append(Sample(arrays, golden))
        reporter.emit(Progress(_STAGE, number + 1, count, "samples"))
    reporter.emit(StageFinished(_STAGE, 0.0))
    return golden_samples, layouts


def _given(
    entry: Sequence[Path],
    specs: Sequence[TensorSpec],
    plans: Sequence[InputPlan],
    preprocess: Preprocess,
    board: Board,
) -> list[tuple[Array, bool]]:
    """What a board is given for files, and whether the channels come last."""
    ports = [
        _attributes(i, spec, plan) for i, (spec, plan) in enumerate(zip(specs, plans, strict=True))
    ]
    inputs, _ = board_inputs(entry, ports, preprocess, generation=board.generation)
    return [
        # of pictures that were saved with their channels first, too
        (board_input.array.transpose(0, 2, 3, 1), True)
        if plan.takes_images and board_input.layout == "NCHW"
        else (board_input.array, board_input.layout == "NHWC")
        for board_input, plan in zip(inputs, plans, strict=True)
    ]


def _attributes(index: int, spec: TensorSpec, plan: InputPlan) -> TensorAttributes:
    shape = tuple(spec.shape)
    if plan.takes_images:
        shape = (shape[0], plan.height, plan.width, plan.channels)
    layout = "NHWC" if plan.takes_images else plan.layout or "UNDEFINED"
    return TensorAttributes(index, spec.name, shape, layout, "UINT8")


def _random(
    specs: Sequence[TensorSpec], plans: Sequence[InputPlan], *, normalise: bool
) -> tuple[list[tuple[Array, bool]], dict[str, Array]]:
    """Values from a fixed seed: whole numbers from 0 to 255 where pictures fit, else 0 to 1."""
    source = np.random.default_rng(0)
    pixels_and_layouts: list[tuple[Array, bool]] = []
    feed: dict[str, Array] = {}
    for spec, plan in zip(specs, plans, strict=True):
        if plan.takes_images:
            size = (plan.height, plan.width, plan.channels)
            pixels = source.integers(0, 256, size, dtype=np.uint8)
            pixels_and_layouts.append((np.broadcast_to(pixels, (spec.shape[0], *size)), True))
            own = plan if plan.reorder is None else replace(plan, reorder=None)
            order = plan.channel_order
            feed[spec.name] = own.normalise_pixels(pixels if order is None else pixels[..., order])
            continue
        dtype = np.dtype(spec.dtype)
        real = source.random(spec.shape, dtype=np.float32)
        array: Array = real.astype(dtype) if dtype.kind == "f" else np.zeros(spec.shape, dtype)
        pixels_and_layouts.append((array, plan.layout == "NHWC"))
        feed[spec.name] = replace(plan, reorder=None).normalise(array)
    return pixels_and_layouts, feed


def _normalised(array: Array, plan: InputPlan) -> tuple[Array, bool]:
    """An input after mean and std, with its channels last where it is a picture."""
    if plan.layout == "NCHW" and plan.takes_images:
        return np.ascontiguousarray(array.transpose(0, 2, 3, 1)), True
    return array, plan.layout == "NHWC"


def _taken(array: Array, board: Board) -> Array:
    """An array of a type that the board's C API takes."""
    known = _TAKEN if board.generation == 1 else (*_TAKEN, *_ALSO_2)
    if str(array.dtype) not in known:
        array = array.astype(np.float32)
    return np.ascontiguousarray(array)


def _input(plan: InputPlan, array: Array, nhwc: bool, *, normalise: bool) -> ProjectInput:
    shape = tuple(array.shape)
    if not plan.takes_images or len(shape) != 4:
        return ProjectInput(plan.name, shape, nhwc)
    picture = (shape[0], plan.height, plan.width, plan.channels)
    # generation 1's order of channels is in the compiled model
    order: tuple[int, ...] = (2, 1, 0) if plan.swap and plan.channels == 3 else ()
    if normalise and plan.channel_order is not None:
        order = tuple(plan.channel_order)
    return ProjectInput(
        plan.name,
        shape,
        nhwc,
        picture=nhwc and shape == picture,
        width=plan.width,
        height=plan.height,
        channels=plan.channels,
        order=order,
        filter=plan.resize_filter,
        fit=plan.resize_fit,
        pad=(plan.mean or ()) if plan.resize_fit == "pad" else (),
        normalise=normalise,
        mean=(plan.mean or ()) if normalise else (),
        std=(plan.std or ()) if normalise else (),
    )


def darknet_anchors(recipe: Recipe, outputs: int) -> Anchors:
    """Anchors and scale of each output of a Darknet network; empty for other models.

    Args:
        recipe: whose model it is.
        outputs: how many the model has; a cfg with another number of heads tells nothing.
    """
    model = recipe.source.model
    path = None if model is None else Path(model)
    if path is None or path.suffix.lower() != ".cfg" or outputs < 1:
        return {}
    config = read_cfg(read_regular(path, _CFG_BYTES), sanitize(path.name))
    heads = [section for section in config.layers if section.type == "yolo"]
    if len(heads) != outputs:
        return {}
    anchors: dict[int, tuple[float, ...]] = {}
    scale: dict[int, float] = {}
    for number, head in enumerate(heads):
        flat = head.reals("anchors")
        mask = head.integers("mask") or tuple(range(len(flat) // 2))
        if any(not 0 <= 2 * anchor + 1 < len(flat) for anchor in mask):
            return {}
        anchors[number] = tuple(float(flat[2 * anchor + i]) for anchor in mask for i in (0, 1))
        scale[number] = float(head.real("scale_x_y", 1.0))
    return {"anchors": anchors, "scale": scale}


def _project_of_compiled(path: Path, board: Board) -> Project:
    """A project of a compiled model alone: it has no golden samples.

    Raises:
        ContainerError: the file cannot be read.
        UsageError: it does not tell its inputs and outputs.
    """
    from engine.container.vendor.inspect import inspect_vendor

    model = inspect_vendor(path)
    inputs, outputs = (
        [(port.tensor.name, tuple(port.tensor.shape)) for port in ports]
        for ports in (model.inputs, model.outputs)
    )
    if not inputs or not outputs:
        raise UsageError(
            f"{sanitize(str(path), 200)} does not tell its inputs and outputs.",
            remedy="Give the recipe or the build that it was made from as TARGET, and this file "
            "with --model.",
        )
    return Project(
        model=path.name,
        board=board,
        inputs=tuple(_of_port(name, shape) for name, shape in inputs),
        outputs=tuple(ProjectOutput(name, shape) for name, shape in outputs),
        compiled=path,
    )


def _of_port(name: str, shape: tuple[int, ...]) -> ProjectInput:
    from engine.graph.ir import TensorSpec

    (plan,) = Preprocess().plans([TensorSpec(name, shape, "uint8")])
    if not plan.takes_images:
        return ProjectInput(name, shape, nhwc=plan.layout == "NHWC")
    size = (shape[0], plan.height, plan.width, plan.channels)
    return _input(plan, np.broadcast_to(np.uint8(0), size), True, normalise=False)
