"""Tensors between this machine and a board: inputs are pushed as files, outputs pulled as such."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.base.files import output_errors
from engine.base.plain import JsonObject
from engine.devices.board.answers import amount, listed, mapping, misfit_error
from engine.devices.board.results import OpenModel
from engine.devices.board.session import BoardSession
from engine.devices.board.tensors import (
    MOST_TENSORS,
    BoardInput,
    BoardOutput,
    output_of,
    output_size,
    prepared_input,
)

OUTPUTS = "out"
"""Folder of the outputs in that of the session."""

_SMALL = 1 << 20
"""Bytes of inputs that are sent without a look at the board's disk: a look takes as long."""
_OUTPUT = re.compile(r"[A-Za-z0-9_-]{1,40}\.bin")


def send_inputs(
    session: BoardSession, model: OpenModel, inputs: Sequence[BoardInput]
) -> list[JsonObject]:
    """Check the inputs of a run, all before the first is sent, and push them.

    Returns:
        What the agent is told of each.

    Raises:
        UsageError: they do not fit the model.
        DeviceStorageError: there is no room for them.
    """
    pairs = zip(inputs, model.inputs, strict=True)
    prepared = [prepared_input(array, attributes) for array, attributes in pairs]
    size = sum(tensor.array.nbytes for tensor in prepared)
    if size > _SMALL:
        session.folder.require_room(size, "The input")
    sent: list[JsonObject] = []
    for index, tensor in enumerate(prepared):
        source = session.place / f"in{index}.bin"
        path = session.at(source.name)
        try:
            with output_errors(source):
                tensor.array.tofile(source)
            session.transport.push(source, path, moved=session.moved())
        finally:
            source.unlink(missing_ok=True)
        sent.append(
            {
                "path": path,
                "dtype": tensor.dtype,
                "layout": tensor.layout,
                "pass_through": tensor.pass_through,
            }
        )
    return sent


def receive_outputs(
    session: BoardSession, model: OpenModel, answer: JsonObject, *, want_float: bool
) -> tuple[BoardOutput, ...]:
    """Pull the outputs of a run; number, names and sizes are checked before the first is read.

    Raises:
        DeviceError: they are not those of the model.
        DeviceStorageError: one is not there.
    """
    items = listed(answer, "outputs", MOST_TENSORS)
    if len(items) != len(model.outputs):
        raise misfit_error(f"it has {len(items)} outputs, and the model {len(model.outputs)}")
    expected = []
    for item, attributes in zip(items, model.outputs, strict=True):
        size = output_size(attributes, want_float=want_float)
        place = mapping(item, "an output")
        if amount(place, "size") != size:
            raise misfit_error(f"output {attributes.index} has not {size} bytes")
        expected.append((_own_path(session, place), size, attributes))
    outputs = []
    for path, size, attributes in expected:
        target = session.place / f"out{attributes.index}.bin"
        try:
            session.transport.pull(path, target, limit=size, moved=session.moved())
            outputs.append(output_of(attributes, target, want_float=want_float))
        finally:
            target.unlink(missing_ok=True)
    session.transport.remove([path for path, _, _ in expected])
    return tuple(outputs)


def _own_path(session: BoardSession, place: JsonObject) -> str:
    """The path of an output, made anew: nothing comes from the board but its last name."""
    folder, _, name = str(place.get("path")).rpartition("/")
    if folder != session.at(OUTPUTS) or not _OUTPUT.fullmatch(name):
        raise misfit_error("an output is not in the folder that was named")
    return f"{session.at(OUTPUTS)}/{name}"
