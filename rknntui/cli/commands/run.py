"""``rknntui run``: Run inputs through a model on a board."""

from __future__ import annotations

from engine import sanitize
from engine.wire.board import BOARD_RUN, Ran
from rknntui.cli.figures import layer_lines, memory_line, output_lines, where_line
from rknntui.cli.verb import on_board, verb


@verb(
    BOARD_RUN,
    fill=on_board,
)
def command(found: Ran) -> list[str]:
    """Run inputs through a model on a board (measured).

    MODEL is a .rknn that the vendor's toolkit compiled for the board's chip. An emulated board also
    takes a container of this program, or a recipe, which is built first. An image is passed as
    uint8 pixels in the size of the input; mean and std are in the compiled model.
    """
    lines = [where_line(found.device, found.chip, found.runtime, found.driver, found.label)]
    lines += output_lines(found.outputs)
    if found.milliseconds is not None:
        lines.append(f"{found.milliseconds:.3f} ms an inference on the board ({found.label})")
    lines.append(memory_line(found.memory, found.label, found.memory_reason))
    lines += layer_lines(found)
    lines += [f"wrote {path}" for path in found.saved]
    return lines + [sanitize(note) for note in found.notes]
