"""The pane beside the graph: the model, a node with one of its constants, or an input or output."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.message import Message

from rknntui.screens.model.actions import empty_lines
from rknntui.screens.model.detail import model_lines, node_lines, tensor_lines, value_lines
from rknntui.widgets.line_list import Rows
from rknntui.widgets.side_pane import SidePane

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.wire.graph import NodeDetail, Tensor, TensorStatistics
    from engine.wire.model import ModelView
    from rknntui.screens.model.detail import Described


class DetailPane(SidePane):
    """Says what it is given, wrapped to its width; asks for the values of constants."""

    class TensorWanted(Message):
        """The values of a constant are to be shown: :meth:`show_tensor` takes them."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._described: Callable[[int], Described] = lambda _: (empty_lines(), {})
        self._constants: dict[int, str] = {}
        self._node: NodeDetail | None = None

    def show_model(self, model: ModelView, which: str) -> None:
        """Show a model as a whole; ``which`` is its graph."""
        self._show(lambda width: (model_lines(model, which, width), {}))

    def show_value(self, kind: str, value: Tensor) -> None:
        """Show an input or output; ``kind`` says which."""
        self._show(lambda width: (value_lines(kind, value, width), {}))

    def show_node(self, node: NodeDetail) -> None:
        """Show a node, and ask for its largest constant."""
        self._node = node
        self._show(partial(node_lines, node))
        sizes = {
            value.name: math.prod(max(1, size) for size in value.shape)
            for value in node.inputs
            if value.kind == "constant"
        }
        largest = max(sizes, key=lambda name: sizes[name], default="")
        if largest and sizes[largest] > 1:
            self.post_message(self.TensorWanted(largest))

    def show_tensor(self, data: TensorStatistics) -> None:
        """Show the values of a constant below its node."""
        node = self._node

        def described(width: int) -> Described:
            lines, constants = node_lines(node, width) if node else ([], {})
            return [*lines, *tensor_lines(data, width)], constants

        self._show(described, keep_cursor=True)

    def _show(self, described: Callable[[int], Described], *, keep_cursor: bool = False) -> None:
        self._described = described
        self._wrap(keep_cursor=keep_cursor)

    @on(SidePane.Resized)
    def rewrap(self) -> None:
        """Lay out anew what is shown."""
        self._wrap(keep_cursor=True)

    def _wrap(self, *, keep_cursor: bool) -> None:
        width = self.scrollable_content_region.width or 38
        lines, self._constants = self._described(width)
        self.set_lines(lines, keep_cursor=keep_cursor)

    @on(Rows.Chosen)
    def _chosen(self, event: Rows.Chosen) -> None:
        name = self._constants.get(event.index)
        if name is not None:
            self.post_message(self.TensorWanted(name))
