"""Walking a graph: a node between those that it reads and those that read it, and its layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.message import Message

from engine import layer_figures, sanitize
from engine.wire.formats import MILLISECONDS
from engine.wire.layer_tables import LAYERS
from engine.wire.layers import LayerFigures
from rknntui.arguments import source_options
from rknntui.widgets.line_list import TextRows
from rknntui.widgets.strips import bar, cells, fit
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from engine.wire.model import GraphParams, NodeRow, Which
    from rknntui.session.layers import KnownLayers
    from rknntui.session.state import Session
    from rknntui.widgets.graph_tree import GraphTree
    from rknntui.widgets.strips import Line


def graph_of(session: Session, which: Which) -> GraphParams:
    """What the worker's queries are about: the container, or the recipe with its model."""
    from engine.wire.model import GraphParams

    if session.container is not None or "model" not in session.recipe:
        return GraphParams(session.path, which=which)
    if which == "source":
        return GraphParams(str(session.recipe["model"]), source=source_options(session.recipe))
    return GraphParams(recipe=session.built or session.recipe, which=which)


# What is known of the layer that a node belongs to.

SHOWN = {
    "shape": "",
    "dtype": "dtype, ● as asked",
    "error": "SQNR, simulated",
    "placement": "runs on, {}",
    "time": "time, {}",
}
"""What stands at the end of a node's line, in the order in which a key changes it -> its head."""
_KEYS = {"dtype": "dtype", "error": "sqnr", "placement": "placement"}
_SIGNS = {"warn": "! ", "bad": "✗ "}
_BAR = 6


Note = tuple[str, str]
"""A text and the name of its style."""


class NodeLayers:
    """The layers that the nodes of a graph belong to.

    Args:
        known: the layers of the session.

    Attributes:
        asked: layer -> dtype that the recipe asks for.
    """

    def __init__(self, known: KnownLayers) -> None:
        self._known = known
        self.asked: Mapping[str, str] = {}
        self._nodes: Sequence[NodeRow] = ()
        self._of: list[LayerFigures | None] | None = None
        self._longest = 0.0

    def take(self, nodes: Sequence[NodeRow]) -> None:
        """The nodes, or what is known of the layers, are other ones."""
        self._nodes, self._of = nodes, None

    @property
    def _found(self) -> list[LayerFigures | None]:
        if self._of is None:
            by_name: dict[str, LayerFigures] = {}
            rows = self._known.rows
            for row in rows:
                # names of the build count before those of the source
                for name in (*row.aliases, *(row.first("sources") or ())):
                    by_name.setdefault(name, row)
            self._longest = max((row.milliseconds or 0.0 for row in rows), default=0.0)
            self._of = [by_name.get(n[0]) or by_name.get(n[2]) for n in self._nodes]
        return self._of

    def of(self, node: int) -> LayerFigures | None:
        """The layer of a node, by its number; None where it has none, or none is known."""
        return self._found[node] if 0 <= node < len(self._found) else None

    def marked(self, node: int) -> bool:
        """Whether the layer of a node has a mark."""
        layer = self.of(node) if self._known.marked else None
        return layer is not None and layer.id in self._known.marked

    def node_of(self, layer: str) -> int:
        """The node of a layer, by its id; -1 where the graph has none."""
        own = [at for at, row in enumerate(self._found) if row is not None and row.id == layer]
        named = (at for at in own if self._nodes[at][0] == layer)
        return next(named, own[0] if own else -1)

    def head(self, shown: str) -> str:
        """What stands over it, with what kind of figures they are."""
        if shown == "time":
            labels = {row.time_label for row in self._known.rows if row.milliseconds is not None}
        else:
            labels = {row.label for row in self._known.rows if row.measured is not None}
        return SHOWN[shown].format(", ".join(sorted(labels)) or "estimated")

    def note(self, shown: str, node: int) -> Note:
        """What stands at the end of a node's line, and its style; ● is what the recipe asks for."""
        layer = self.of(node)
        if layer is None:
            return (self._nodes[node][4] if shown == "dtype" else "·"), "dim"
        if layer.id in self.asked and shown == "dtype":
            return f"● {self.asked[layer.id]}", "accent"
        if shown == "time":
            time = layer.milliseconds
            share = time / self._longest if time and self._longest else 0.0
            text = "–" if time is None else f"{MILLISECONDS.text(time)} ms"
            return f"{text} {bar(share, _BAR)}", "accent"
        column = LAYERS.column(_KEYS[shown])
        value = column.of(layer)
        style = column.style(value) if column.style is not None else ""
        unit = " dB" if shown == "error" and value is not None else ""
        text = column.show(layer) or "–"
        sign = "" if text.startswith("!") else _SIGNS.get(style, "")
        return f"{sign}{text}{unit}", style

    def words(self, node: int) -> list[str]:
        """What is known of the layer of a node, each figure with what it is."""
        if (row := self.of(node)) is None:
            return []
        dtype = row.first("dtype") or ""
        if row.id in self.asked:
            dtype = f"● {self.asked[row.id]} asked" + (f", built {dtype}" if dtype else "")
        place = f"layer {row.number} of {len(self._known.rows)}"
        return [figure for figure in (place, dtype, *layer_figures(row)) if figure]


# The drawing.


class Neighbours(TextRows):
    """The node in a box, above it what it reads, below it what reads it.

    The cursor is on the neighbours alone. Enter goes to one, and the drawing is that one's then.

    Attributes:
        node: the one in the box; -1 for none.
        history: the nodes that were left, the last one last.
    """

    BINDINGS = [
        Binding("left,h", "walk(-1)", "Producer", show=False, tooltip="Go to what it reads."),
        Binding("right,l", "walk(1)", "Consumer", show=False, tooltip="Go to what reads it."),
    ]

    @dataclass(eq=False)
    class Walked(Message):
        """Another node is to be shown: :meth:`Neighbours.show` takes it."""

        node: int

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.clear()

    def clear(self) -> None:
        """There is no node."""
        self.node = -1
        self.history: list[int] = []
        self._shown: tuple[GraphTree, Sequence[str]] | None = None
        self._at: list[int] = []  # the node of each line; -1 for none
        self._reads: Sequence[int] = ()
        self._readers: Sequence[int] = ()
        self._down = True
        self.set_lines(())

    def show(self, tree: GraphTree, node: int, said: Sequence[str]) -> None:
        """Draw a node of a tree; ``said`` is what is known of its layer."""
        same = self.node == node and self.cursor
        self.node, self._shown = node, (tree, said)
        width = self.scrollable_content_region.width or 56
        self._reads, self._readers = tree.producers(node), tree.consumers(node)
        output = tree.nodes[node][2]
        ends = [f"the output {sanitize(v.name, 200)}" for v in tree.outputs if v.name == output]

        def plain(text: str) -> tuple[Line, int]:
            return [(fit(text, width), "dim")], -1

        def neighbour(sign: str, at: int) -> tuple[Line, int]:
            return [(f" {sign} ", "dim"), *tree.node_line(at, width - 4)], at

        rows = [neighbour("├─" if n else "╭─", at) for n, at in enumerate(self._reads)]
        rows = rows or [plain(" ╷  reads inputs of the model or constants")]
        rows += [(line, -1) for line in _box(tree, node, said, width)]
        below: tuple[int | str, ...] = (*self._readers, *ends)
        signs = ["├▶"] * (len(below) - 1) + ["╰▶"]
        for sign, end in zip(signs, below, strict=False):
            rows.append(plain(f" {sign} {end}") if isinstance(end, str) else neighbour(sign, end))
        rows += [] if below else [plain(" ╵  no node reads it")]
        self._at = [at for _, at in rows]
        self.styles.height = 1 + min(len(rows), max(6, self.app.size.height // 2))
        if self.scrollable_content_region.width:  # else it is drawn when it has one
            self.set_lines([line for line, _ in rows], keep_cursor=True)
        wanted = (self._readers if self._down else self._reads) or self._reads or self._readers
        self.cursor = same or (self._at.index(wanted[0]) if wanted else 0)

    def on_resize(self) -> None:
        """Lay out anew."""
        if self._shown is not None:
            self.show(self._shown[0], self.node, self._shown[1])

    def action_move(self, by: int) -> None:
        """Move to the next neighbour in that direction."""
        step = 1 if by > 0 else -1
        places = range(self.cursor + step, len(self._at) if by > 0 else -1, step)
        self.cursor = next((at for at in places if self._at[at] >= 0), self.cursor)

    def action_choose(self) -> None:
        """Go to the neighbour under the cursor."""
        if self._at and (at := self._at[self.cursor]) >= 0:
            self._go(at, down=self.cursor >= max(1, len(self._reads)))

    def action_walk(self, by: int) -> None:
        """Go to the first consumer (1) or producer (-1)."""
        if nodes := self._readers if by > 0 else self._reads:
            self._go(nodes[0], down=by > 0)

    def _go(self, node: int, *, down: bool) -> None:
        self._down = down
        self.history = [*self.history[-99:], self.node]
        self.post_message(self.Walked(node))

    def back(self) -> bool:
        """Go where the walk came from; False where it began."""
        if self.history:
            self.post_message(self.Walked(self.history.pop()))
            return True
        return False


def _box(tree: GraphTree, node: int, said: Sequence[str], width: int) -> list[Line]:
    """The node itself, in a box as wide as the view."""
    room = max(0, width - 4)
    known = wrap(" · ".join(said), max(16, room)) if said else []
    inside: list[Line] = [tree.node_line(node, room), *([(row, "")] for row in known)]
    rule = "━" * max(0, width - 3)
    return [
        [(f"┏┷{rule}┓", "accent")],
        *(
            [("┃ ", "accent"), *line, (" " * max(0, room - cells(line)) + " ┃", "accent")]
            for line in inside
        ),
        [(f"┗┯{rule}┛", "accent")],
    ]
