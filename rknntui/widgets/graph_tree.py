"""The nodes of a graph under their groups.

Ten thousand nodes cost no more than what is on the screen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from textual.binding import Binding

from engine import sanitize
from rknntui.widgets.line_list import Rows
from rknntui.widgets.strips import Line, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.wire.model import GraphView, NodeRow, Tensor

OPEN_BELOW = 60
"""A graph of at most so many nodes starts with all groups open."""


WIDEST = 84
"""Cells of a line at most: the eye finds what stands at its end."""


class Entry(NamedTuple):
    """One row: ``kind`` is root, input, output, group or node; ``at`` counts within its kind.

    Before there is a graph ``kind`` is empty.
    """

    kind: str = ""
    at: int = -1
    depth: int = 0


@dataclass
class _Group:
    """A group; ``children`` are ("group", index) and ("node", index) in topological order."""

    name: str = ""
    path: str = ""
    depth: int = 0
    parent: int = -1
    count: int = 0
    children: list[tuple[str, int]] = field(default_factory=list)


class GraphTree(Rows):
    """Groups open with Enter or the right arrow, close with the left arrow.

    ``E`` opens or closes all.

    Attributes:
        note: of a node the text at the end of its line, and its style; None: the shape.
        head_note: what stands over these.
        marked: whether a node has a mark.
    """

    BINDINGS = [
        Binding("right,l", "open", "Open", show=False, tooltip="Open the group."),
        Binding(
            "left,h", "close", "Close", show=False, tooltip="Close the group, or go to its parent."
        ),
        Binding("E", "all", "All", show=False, tooltip="Open or close all groups."),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.title = ""
        self.nodes: Sequence[NodeRow] = ()
        self.inputs: Sequence[Tensor] = ()
        self.outputs: Sequence[Tensor] = ()
        self._groups: list[_Group] = []
        self._of_node: list[int] = []
        self._open: set[int] = set()
        self._rows: list[Entry] = []
        self._lower: list[str] = []
        self._reads: dict[int, list[int]] = {}
        self._readers: dict[int, list[int]] = {}
        self.note: Callable[[int], tuple[str, str]] | None = None
        self.head_note = ""
        self.marked: Callable[[int], bool] = lambda _: False

    # -- contents ----------------------------------------------------------------------------------

    def set_graph(self, title: str, view: GraphView, opened: Iterable[str] = ()) -> None:
        """Show a graph.

        Args:
            title: of the first row.
            view: of the worker.
            opened: paths of the groups that are open.
        """
        self.title, self._lower = title, []
        self.nodes, self.inputs, self.outputs = view.nodes, view.inputs, view.outputs
        self._reads, self._readers = {}, {}
        for source, reader in zip(view.edges[::2], view.edges[1::2], strict=True):
            self._reads.setdefault(reader, []).append(source)
            self._readers.setdefault(source, []).append(reader)
        self._build(view.groups)
        paths = set(opened)
        small = len(view.nodes) <= OPEN_BELOW
        self._open = {i for i, g in enumerate(self._groups) if small or g.path in paths}
        self._lay_out()
        self.rows_changed(keep_cursor=False)

    def _build(self, names: Iterable[str]) -> None:
        """Nested groups from their paths; group 0 is the graph itself."""
        self._groups = [_Group()]
        by_path = {"": 0}
        of_name = [self._group_of(path, by_path) for path in names]
        self._of_node = []
        for index, (*_, own) in enumerate(self.nodes):
            group = of_name[own] if 0 <= own < len(of_name) else 0
            self._of_node.append(group)
            self._hang_in(group)
            self._groups[group].children.append(("node", index))
            while group >= 0:
                self._groups[group].count += 1
                group = self._groups[group].parent

    def _group_of(self, path: str, by_path: dict[str, int]) -> int:
        known = by_path.get(path)
        if known is not None:
            return known
        head, _, name = path.strip("/").rpartition("/")
        parent = self._group_of(head and f"/{head}", by_path)
        by_path[path] = len(self._groups)
        depth = self._groups[parent].depth + 1
        self._groups.append(_Group(name or path, path, depth, parent))
        return by_path[path]

    def _hang_in(self, index: int) -> None:
        """Hang a group into its parent where its first node stands."""
        group = self._groups[index]
        if group.parent >= 0 and group.count == 0:
            self._hang_in(group.parent)
            self._groups[group.parent].children.append(("group", index))

    def _lay_out(self) -> None:
        """The rows that are visible; a group of one node is not worth a row of its own."""
        rows = [Entry("root", 0, 0)]
        rows += [Entry("input", i, 1) for i in range(len(self.inputs))]
        stack: list[tuple[int, int]] = [(0, 0)]
        while stack:
            index, at = stack.pop()
            group = self._groups[index]
            depth = group.depth + 1
            children = group.children
            while at < len(children):
                kind, child = children[at]
                at += 1
                while kind == "group" and self._groups[child].count == 1:
                    kind, child = self._groups[child].children[0]
                rows.append(Entry(kind, child, depth))
                if kind == "group" and child in self._open:
                    stack += [(index, at), (child, 0)]
                    break
        rows += [Entry("output", i, 1) for i in range(len(self.outputs))]
        self._rows = rows

    # -- drawing -----------------------------------------------------------------------------------

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def row_line(self, index: int, width: int) -> Line:
        entry, width = self._rows[index], min(width, WIDEST)
        indent = "  " * min(entry.depth, 8)
        if entry.kind == "root":
            note = f" {self.head_note}" if self.head_note else ""
            return [(fit(self.title, width - len(note)), "head"), (note, "dim")]
        if entry.kind == "group":
            group = self._groups[entry.at]
            sign = "▾" if entry.at in self._open else "▸"
            name = sanitize(group.name, 200)
            return [(f"{indent}{sign} ", "key"), (name, ""), (f"  {group.count}", "dim")]
        if entry.kind == "node":
            name = self._short(entry.at, self.nodes[entry.at][0])
            return self.node_line(entry.at, width, indent, name)
        value = (self.inputs if entry.kind == "input" else self.outputs)[entry.at]
        shape = "x".join("?" if d < 0 else str(d) for d in value.shape)
        return self._leaf(indent, entry.kind, value.name, (shape, "dim"), width)

    def node_line(self, node: int, width: int, indent: str = "", name: str = "") -> Line:
        """A node, by its whole name or a shorter one, in at most ``width`` cells."""
        known, op, _, shape, *_ = self.nodes[node]
        indent = f"{indent[:-1]}*" if self.marked(node) and indent else indent
        at_end = (shape, "dim") if self.note is None else self.note(node)
        return self._leaf(indent, op, name or known, at_end, width)

    def _leaf(self, indent: str, op: str, name: str, note: tuple[str, str], width: int) -> Line:
        """Operator, name, note; a name that begins or ends with its operator says it once."""
        style = "good" if op in ("input", "output") else "accent"
        op, name = sanitize(op, 60), sanitize(name, 300)
        rest = name[len(op) :] if name.startswith(op) else f" {name.removesuffix(f'/{op}')}"
        said, how = note
        room = width - len(indent) - len(op) - len(said) - 2
        if room < min(6, cell_len(rest)) and self.note is None:
            said, room = "", width - len(indent) - len(op) - 1
        elif room < min(6, cell_len(rest)):  # a figure is not cut
            rest, op = "", fit(op, max(4, width - len(indent) - len(said) - 1))
        line: Line = [(indent, ""), (op, style), (fit(rest, max(0, room)), "")]
        return [*line, (f" {said}", how)] if said else line

    def _short(self, index: int, name: str) -> str:
        group = self._of_node[index]
        while group and self._groups[group].count == 1:
            group = self._groups[group].parent
        path = self._groups[group].path
        return name[len(path) :].lstrip("/") or name if path and name.startswith(path) else name

    # -- neighbours --------------------------------------------------------------------------------

    def producers(self, node: int) -> Sequence[int]:
        """The nodes whose values a node reads."""
        return self._reads.get(node, ())

    def consumers(self, node: int) -> Sequence[int]:
        """The nodes that read what a node writes."""
        return self._readers.get(node, ())

    # -- cursor, groups, search --------------------------------------------------------------------

    @property
    def entry(self) -> Entry:
        """The row under the cursor."""
        return self._rows[self.cursor] if self._rows else Entry()

    @property
    def node(self) -> int:
        """The node under the cursor; -1 where there is none."""
        return self.entry.at if self.entry.kind == "node" else -1

    @property
    def opened(self) -> list[str]:
        """Paths of the open groups."""
        return sorted(self._groups[index].path for index in self._open)

    def _row_of(self, entry: Entry) -> int:
        """Where it stands, at whatever depth; at the top where it is hidden."""
        own = (at for at, row in enumerate(self._rows) if row[:2] == entry[:2])
        return next(own, 0)

    def _relay(self, keep: Entry) -> None:
        self._lay_out()
        self.rows_changed()
        self.set_reactive(Rows.cursor, self._row_of(keep))
        self.reveal(self.cursor)

    def action_choose(self) -> None:
        """Open or close a group; a node is handed to the owner."""
        if self.entry.kind == "group":
            self.action_toggle_group()
        else:
            super().action_choose()

    def action_toggle_group(self) -> None:
        """Open or close the group under the cursor."""
        if self.entry.kind == "group":
            self._open ^= {self.entry.at}
            self._relay(self.entry)

    def action_open(self) -> None:
        """Open the group under the cursor, or step into it."""
        if self.entry.kind == "group" and self.entry.at in self._open:
            self.cursor += 1
        else:
            self.action_toggle_group()

    def action_close(self) -> None:
        """Close the group under the cursor, or go to the group around it."""
        entry = self.entry
        if entry.kind == "group" and entry.at in self._open:
            self.action_toggle_group()
            return
        around = (at for at in range(self.cursor - 1, -1, -1) if self._rows[at].depth < entry.depth)
        self.cursor = next(around, self.cursor)

    def action_all(self) -> None:
        """Open all groups, or close them when all are open."""
        entry, every = self.entry, set(range(1, len(self._groups)))
        self._open = set() if self._open >= every else every
        group = self._of_node[entry.at] if entry.kind == "node" and not self._open else 0
        while group:  # the cursor goes to the outermost group around its node
            entry = Entry("group", group)
            group = self._groups[group].parent
        self._relay(entry)

    def matches(self, text: str) -> list[int]:
        """Nodes with every word of ``text`` in name, operator, output or shape."""
        if not self._lower:
            self._lower = [" ".join(map(str, node[:4])).lower() for node in self.nodes]
        words = text.lower().split()
        if not words:
            return []
        return [i for i, node in enumerate(self._lower) if all(word in node for word in words)]

    def go_to(self, node: int) -> None:
        """Put the cursor on a node, opening its groups."""
        group, opened = self._of_node[node], set(self._open)
        while group > 0:
            self._open.add(group)
            group = self._groups[group].parent
        if self._open != opened:
            self._lay_out()
            self.rows_changed()
        self.cursor = self._row_of(Entry("node", node))

    def find(self, names: Iterable[str]) -> int:
        """The first node that has one of these names, or writes a tensor of it; -1 for none."""
        # a layer has the name of its tensor where that of its node is another layer's tensor
        columns = [[node[column] for node in self.nodes] for column in (0, 2)]
        return next((own.index(n) for n in names for own in columns if n in own), -1)

    def step(self, nodes: Sequence[int], by: int) -> None:
        """Go to the next (1) or previous (-1) of some nodes, behind the last to the first."""
        here = self.node
        beyond = [node for node in nodes if (node > here if by > 0 else node < here)]
        self.go_to((beyond or nodes)[0 if by > 0 else -1])
        self.focus()

    def row_text(self) -> str:
        """The row under the cursor as text."""
        entry = self.entry
        if entry.kind == "node":
            return "\t".join(str(value) for value in self.nodes[entry.at][:5])
        line = self.row_line(self.cursor, 0 if entry.kind == "group" else 400) if entry.kind else []
        return "".join(text for text, _ in line).strip()
