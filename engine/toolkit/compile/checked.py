"""A compiled file, inspected and held against what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import CompilerError, ContainerError
from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text
from engine.container.vendor import VendorModel, VendorPort, inspect_vendor

if TYPE_CHECKING:
    from engine.graph.ir import TensorSpec
    from engine.toolkit.compile.compiler import CompilerRequest

_INTEGER_ENDS = {"int8", "uint8", "int16", "int4"}


def check_compiled(
    path: Path,
    request: CompilerRequest,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> tuple[VendorModel, tuple[Finding, ...]]:
    """Inspect a compiled model.

    Args:
        path: the file.
        request: what it was made from.
        inputs, outputs: of the model that was handed over.

    Returns:
        What the file tells of itself, and what in it is not as asked for.

    Raises:
        CompilerError: it is no model, or one for another chip.
    """
    try:
        model = inspect_vendor(path)
    except ContainerError as error:
        raise CompilerError(
            f"What the toolkit wrote for {request.chip} is no compiled model: {error.what}",
            cause="It was cut short, or the toolkit writes a form that is not known here.",
            remedy="Compile it again (--refresh); free space where the disk is full.",
        ) from error
    if model.chips and request.chip not in model.chips and request.chip not in model.platforms:
        raise CompilerError(
            f"The toolkit compiled for {', '.join(model.platforms)}, not for {request.chip}.",
            remedy="Check the version of the toolkit: rknntui vendor check.",
        )
    return model, tuple(_misfits(model, request, inputs, outputs))


def _misfits(
    model: VendorModel,
    request: CompilerRequest,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> Iterator[Finding]:
    reshaped = bool(request.config.get("remove_reshape"))
    # of several sets of shapes the file's ends have the largest
    several = bool(request.config.get("dynamic_input"))
    for side, ports, specs in (
        ("input", model.inputs, request.names.ports(inputs)),
        ("output", model.outputs, request.names.ports(outputs)),
    ):
        yield from _ends(side, ports, specs, reshaped=reshaped or several)
    custom_string = request.config.get("custom_string")
    if custom_string and model.custom_string != custom_string:
        yield _misfit(
            "custom_string", f"The file's custom_string is {sanitize(model.custom_string, 80)!r}."
        )
    means = request.config.get("mean_values")
    if isinstance(means, list) and len(means) == len(model.inputs):
        for port, mean in zip(model.inputs, means, strict=True):
            if port.mean and [float(value) for value in port.mean] != mean:
                name = sanitize(port.tensor.name, 80)
                yield _misfit(name, f"The mean of input {name} is another in the file.")
    if request.by == "ours":
        for port in model.inputs:
            if port.source_dtype == "float32" and port.tensor.dtype not in _INTEGER_ENDS:
                name = sanitize(port.tensor.name, 80)
                yield Finding(
                    "compiled-input-float",
                    "warning",
                    name,
                    f"Input {name} is {port.tensor.dtype} in the compiled model.",
                    "What reads it is not quantized.",
                    "Look at the layers that read it; it then takes more time than 8 bits.",
                )


def _ends(
    side: str, ports: Sequence[VendorPort], specs: Sequence[TensorSpec], *, reshaped: bool
) -> Iterator[Finding]:
    if not ports:
        return  # a form of the file whose ends are not read
    names, expected = [port.tensor.name for port in ports], [spec.name for spec in specs]
    if names != expected:
        yield _misfit(
            side,
            f"The file's {side}s are {sanitize(', '.join(names), 300)}, those of the model "
            f"{sanitize(', '.join(expected), 300)}.",
        )
        return
    for port, spec in zip(ports, specs, strict=True):
        if port.tensor.shape != tuple(spec.shape) and not reshaped:
            yield _misfit(
                sanitize(spec.name, 80),
                f"{side.capitalize()} {sanitize(spec.name, 80)} is "
                f"{shape_text(port.tensor.shape)} in the file, {shape_text(spec.shape)} in the "
                "model.",
            )


def _misfit(where: str, what: str) -> Finding:
    return Finding(
        "compiled-otherwise",
        "warning",
        where,
        what,
        "The toolkit made something else than was asked for, or names it otherwise.",
        "Look at the file: rknntui inspect FILE.rknn.",
    )
