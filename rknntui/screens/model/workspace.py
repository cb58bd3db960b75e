"""Workspace Model: the graph as a tree or a table, and all about the node under the cursor."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from textual import getters, on
from textual.containers import Horizontal, Vertical

from engine import sanitize, table_file
from rknntui.keys.actions import key_text
from rknntui.links import GoToNode, GoToOption, Link
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.model.panes import NODES, DetailPane, SourceLoad, tell_model, tell_value
from rknntui.screens.model.walk import SHOWN, Neighbours, NodeLayers, graph_of
from rknntui.session.promotion import LayerEdits
from rknntui.widgets.divider import Divider
from rknntui.widgets.graph_tree import GraphTree
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import SearchLine
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.timer import Timer

    from engine import Finding
    from engine.wire.method import Query
    from engine.wire.model import GraphView, Which
    from rknntui.session.messages import JobEnded, LayersChanged, RecipeChanged

P = TypeVar("P")
R = TypeVar("R")

REST_SECONDS = 0.12
"""The cursor has to rest so long before details are asked for: a held key asks nothing."""

_OF_A_MODEL = ("search", "table", "export", "copy", "copy_detail", "findings", "copy_command")
_OF_A_LAYER = ("promote", "drill")
GRAPHS: tuple[Which, ...] = ("source", "optimised", "quantized")


class ModelWorkspace(Workspace):
    """Graph on the left; on the right the node between its neighbours, and its details."""

    NAME = "model"
    HELP = (
        "The graph of the open model. Enter on a node goes among its producers and consumers; "
        "there Enter goes to one, {model.step-back} goes back, Esc leaves. After a build, "
        "{model.graph} shows the graph before and after the passes and quantized, {model.figures} "
        "the dtype, error, place or time of each node, {model.promote} promotes its layer."
    )
    FIRST_FOCUS = "GraphTree"
    SCOPED_CSS = False  # the width of the screen decides what stands beside the graph
    DEFAULT_CSS = """
    ModelWorkspace {
        & Horizontal { height: 1fr; }
        & #graph { width: 1fr; }
        & #side { width: 1fr; }
        & #detail { height: 1fr; padding: 0 0 0 1; }
        & #neighbours { display: none; padding: 0 0 0 1; border-bottom: solid $panel; }
    }
    Screen.-normal ModelWorkspace #side, Screen.-wide ModelWorkspace #side { width: 60; }
    Screen.-wide ModelWorkspace #side { width: 80; }
    Screen.-narrow ModelWorkspace.-table #side { display: none; }
    ModelWorkspace.-walk #neighbours { display: block; }
    Screen.-normal ModelWorkspace.-node #neighbours { display: block; }
    Screen.-wide ModelWorkspace.-node #neighbours { display: block; }
    Screen.-narrow ModelWorkspace.-walk #graph { display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.which: Which = "source"
        self.source = SourceLoad(self)
        self.node_layers = NodeLayers(self.session.layers)
        self.edits = LayerEdits(self.session)
        self.figures = "shape"
        self._loaded: tuple[object, ...] = ()
        self._found: list[int] = []
        self._origin = 0
        self._timer: Timer | None = None
        self._wanted: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="graph"):
                yield RecordTable(NODES, id="nodes", what="nodes")
                yield GraphTree(id="tree")
                yield SearchLine("search: words of name, operator, tensor, shape")
            yield Divider("model-divider")
            with Vertical(id="side"):
                yield Neighbours(id="neighbours")
                yield DetailPane(id="detail")

    def on_mount(self) -> None:
        self.table.display = False
        self.graph.marked = self.node_layers.marked

    graph = getters.query_one("#tree", GraphTree)
    """The graph."""

    detail = getters.query_one(DetailPane)
    """The pane on the right."""

    neighbours = getters.query_one(Neighbours)
    """The node under the cursor between its neighbours."""

    table = getters.query_one("#nodes", RecordTable)
    """The nodes as a table."""

    # -- the session -------------------------------------------------------------------------------

    def update_view(self) -> None:
        self.source.look_again()
        self._refresh_graph()
        self.detail.rewrap()  # it has a width now
        self._follow()
        if self.graph.node >= 0 and not self._described:
            # what is known of another node would be painted before this one
            self.detail.show(lambda told: told.text("reading …", "dim"))
            self._rested()
        self._draw_notes()

    def on_model_opened(self) -> None:
        self.which = "source"
        self._loaded = ()
        self._refresh_graph()

    def on_layers_changed(self, message: LayersChanged) -> None:
        """More is known of the layers, or the cursor of all views is on another one."""
        if message.rows:
            self.node_layers.take(self.graph.nodes)
        if not self.shown:  # it is read before the next visit, which paints it once
            self._soon(self._follow)
            return
        self._follow()
        if message.rows:
            self._draw_notes()

    def on_build_finished(self) -> None:
        self._loaded = self._loaded if self.which == "source" else ()
        self.refresh_bindings()
        if self.shown:
            self._refresh_graph()

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """The graph may be another one, or other layers be promoted."""
        self.source.recipe_changed(message)
        if self.shown:
            self._draw_notes()

    def on_job_ended(self, message: JobEnded) -> None:
        """A conversion may have given a graph."""
        if self.which == "source":
            self.source.job_ended(message)

    def _ask_part(
        self, method: Query[P, R], params: Callable[..., P], name: str, then: Callable[[R], None]
    ) -> None:
        """Ask for a part of the graph that is shown, by its name."""
        of = graph_of(self.session, self.which)
        self.ask(method, params(of.path, of.recipe, of.source, of.which, name=name), then)

    def _refresh_graph(self) -> None:
        model = self.session.model
        if model is None:
            return
        state = (model.sha256, self.session.path, self.which, model.loaded)
        if state != self._loaded:
            from engine.wire.model import GRAPH

            self._loaded = state
            if not self.graph.nodes:  # what is known already stands while the graph is read
                self._show_model()
            self.ask(GRAPH, graph_of(self.session, self.which), self._show_graph)

    def _show_graph(self, view: GraphView) -> None:
        if self.session.model is None:
            return
        unconverted = self.which == "source" and self.source.unconverted
        what = "not converted" if unconverted else self.which
        opened = self.workbench.memory.get(str(self.session.path)) or []
        self.neighbours.clear()
        self.remove_class("-node")
        self.node_layers.take(view.nodes)
        self.graph.set_graph(f"{what} · {len(view.nodes):,} nodes", view, opened)
        words = self.session.layers.filter
        self._found = self.graph.matches(words) if words else []
        self._fill_table()
        self._show_model()
        self._go_to_wanted()
        self.refresh_bindings()

    def arrive(self, link: Link) -> None:
        if not isinstance(link, GoToNode):
            return
        self._wanted = (link.node,)
        if link.graph != self.which and link.graph in self._graphs():
            self.which = link.graph
            self._refresh_graph()
        elif self.graph.row_count:
            self._go_to_wanted()

    def _go_to_wanted(self) -> None:
        wanted, self._wanted = self._wanted, ()
        if not wanted:
            self.remove_class("-walk")
            self._follow()
            return
        at = self.graph.find(wanted)
        at = self.node_layers.node_of(wanted[0]) if at < 0 else at
        if at < 0:
            self.notify("This node is not in the graph that is shown.", severity="warning")
            self.remove_class("-walk")
        else:
            self.graph.go_to(at)
        if self.has_class("-walk"):
            self._draw_neighbours()
            self.neighbours.focus()
        else:
            self.action_back()

    # -- layers ------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Go to the layer under the cursor of all views, unless one of its nodes is here."""
        wanted, here = self.session.layers.cursor, self.node_layers.of(self.graph.node)
        if wanted and (here is None or here.id != wanted) and not self._wanted:
            at = self.node_layers.node_of(wanted)
            if at >= 0:
                self.graph.go_to(at)

    def _draw_notes(self) -> None:
        layers, self.node_layers.asked = self.node_layers, self.edits.layers
        self.graph.head_note = layers.head(self.figures)
        known = self.figures != "shape"
        self.graph.note = partial(layers.note, self.figures) if known else None
        self.graph.refresh()
        self._draw_neighbours()

    def _draw_neighbours(self) -> None:
        node = self.graph.node
        self.set_class(node >= 0, "-node")
        if node < 0:
            self.neighbours.clear()
        elif self.has_class("-walk") or not self.screen.has_class("-narrow"):
            self.neighbours.show(self.graph, node, self.node_layers.words(node))

    def action_figures(self) -> None:
        """Show something else at the end of each node's line."""
        names = list(SHOWN)
        self.figures = names[(names.index(self.figures) + 1) % len(names)]
        self._draw_notes()

    def action_promote(self) -> None:
        """Promote the layer of the node and those that are marked with it; or open the group."""
        if self.graph.node < 0:
            self.graph.action_toggle_group()
            return
        layer = self.linked_layer("promote")
        if not self.not_now(self.disabled_reason("promote") or self.edits.lift(layer)):
            dtype = self.edits.layers.get(layer, "its own dtype again")
            undo = f"{key_text('app.undo')} undoes it."
            self.notify(f"{sanitize(layer, 80)} → {dtype}. {undo}", markup=False)

    # -- walking, details -------------------------------------------------------------------------

    @on(Rows.Chosen, "#tree")
    def action_detail(self) -> None:
        """Go among the neighbours of the node, or back to the graph."""
        if self.has_class("-walk"):
            self.action_back()
        elif self.graph.node >= 0:
            self.add_class("-walk")
            self._draw_neighbours()
            self.neighbours.focus()
        else:
            self.detail.focus()
        self.refresh_bindings()

    @on(Neighbours.Walked)
    def _walked(self, event: Neighbours.Walked) -> None:
        self.graph.go_to(event.node)
        self._draw_neighbours()

    def action_step_back(self) -> None:
        """Go where the walk came from; from where it began back to the graph."""
        if not self.neighbours.back():
            self.action_back()

    def action_back(self) -> None:
        """Back to the graph, on the node where the walk is."""
        self.remove_class("-walk")
        self.neighbours.history = []
        self.graph.focus()
        self.refresh_bindings()

    def _show_model(self) -> None:
        model = self.session.model
        if model is None:
            return
        if self.which != "source":
            nodes = self.graph.nodes
            model = replace(model, nodes=len(nodes), operators=Counter(n[1] for n in nodes))
        self.detail.show(partial(tell_model, model, self.which))

    @on(Rows.Highlighted, "#tree")
    def _moved(self) -> None:
        self._soon(self._rested)

    def _soon(self, call: Callable[[], None]) -> None:
        """Do it once the cursor rests."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(REST_SECONDS, call)

    def _rested(self) -> None:
        entry = self.graph.entry
        self._draw_neighbours()
        layer = self.node_layers.of(self.graph.node)
        if layer is not None and self.shown:
            self.session.layers.choose(layer.id)
        if entry.kind == "node":
            if not self._described:
                self._ask_node(self.graph.nodes[entry.at][0])
        elif entry.kind == "root":
            self._show_model()
        elif entry.kind in ("input", "output"):
            values = self.graph.inputs if entry.kind == "input" else self.graph.outputs
            self.detail.show(partial(tell_value, entry.kind, values[entry.at]))

    @property
    def _described(self) -> bool:
        """Whether the pane on the right has the node under the cursor."""
        shown = self.detail.node
        return shown is not None and shown.name == self.graph.nodes[self.graph.node][0]

    def _ask_node(self, name: str) -> None:
        from engine.wire.model import NODE, NodeParams

        self._ask_part(NODE, NodeParams, name, self.detail.show_node)

    @on(DetailPane.TensorWanted)
    def _ask_tensor(self, event: DetailPane.TensorWanted) -> None:
        from engine.wire.model import TENSOR, TensorParams

        self._ask_part(TENSOR, TensorParams, event.name, self.detail.show_tensor)

    @on(DetailPane.OptionWanted)
    def _go_to_option(self, event: DetailPane.OptionWanted) -> None:
        self.post_message(GoToOption(event.name))

    def linked_layer(self, method: str) -> str:
        layer = self.node_layers.of(self.graph.node)
        return "" if layer is None else layer.id

    # -- search ------------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if method in _OF_A_MODEL and self.session.model is None:
            return "no model is open ({app.open} opens one)."
        if method == "step_match":
            return "" if self._found else "there was no search yet ({model.search} searches)."
        if method in _OF_A_LAYER:
            return self._why_no_layer(method)
        if method == "step_back":
            return "" if self.has_class("-walk") else "Enter on a node begins a walk."
        if method == "load":
            return self.source.why_not_load()
        if method == "graph" and len(self._graphs()) == 1:
            return "before a build there is only the source graph."
        return ""

    def _why_no_layer(self, method: str) -> str:
        if self.is_attached and self.graph.node < 0:
            group = method == "promote" and self.graph.entry.kind == "group"
            return "" if group else "no node is under the cursor."
        if self.session.container is not None:
            return "a container is already built; open its model."
        if self.session.summary is None:
            return "there is no build yet, and so no layers."
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A load has a key only where there is something to load, Esc only where it leads back."""
        if action == "load":
            return not self.unavailable_reason(action)
        if action == "back":
            return self.is_attached and (self.has_class("-walk") or self.detail.has_focus)
        return super().check_action(action, parameters)

    def action_load(self) -> None:
        """Load the model in a job."""
        self.source.load()

    def action_search(self) -> None:
        """Open the search line."""
        if self.table.display:
            self.action_table()
        self._origin = self.graph.cursor
        self.query_one(SearchLine).open()

    @on(SearchLine.Typed)
    def _typed(self, event: SearchLine.Typed) -> None:
        if event.text:
            self._found = self.graph.matches(event.text)
            if not self._found:
                self.notify("No match.", severity="warning", timeout=2)
            elif not event.done:
                self.graph.go_to(self._found[0])
        if event.done:
            self.session.layers.filter = event.text
            if not event.text:
                self.graph.cursor = self._origin
            self.graph.focus()
            self.refresh_bindings()

    def action_step_match(self, by: int) -> None:
        """Go to the next node found, or the one before."""
        self.graph.step(self._found, by)

    # -- other views -------------------------------------------------------------------------------

    def _graphs(self) -> tuple[Which, ...]:
        if self.session.container is not None:
            return ("quantized",) if self.which == "quantized" else ("source",)
        return GRAPHS if self.session.summary is not None else GRAPHS[:1]

    def action_graph(self) -> None:
        """Show the next of the graphs that exist."""
        graphs = self._graphs()
        if self.graph.node >= 0:  # the same work in the other graph: by its names, or its sources
            name, _, tensor, *_ = self.graph.nodes[self.graph.node]
            known = self.detail.node
            origin = known.origin if known is not None and known.name == name else ()
            self._wanted = (name, tensor, *origin)
        self.which = graphs[(graphs.index(self.which) + 1) % len(graphs)]
        self._refresh_graph()

    def action_table(self) -> None:
        """Show the nodes as a table, or as a tree again."""
        table = self.table
        table.display = self.graph.display
        self.graph.display = not table.display
        self.set_class(table.display, "-table")
        self._fill_table()
        # at once: a key that follows may lead to another workspace, with its own focus
        self.screen.set_focus(table if table.display else self.graph)

    def _fill_table(self, *, hidden: bool = False) -> None:
        """Give the table the nodes of the graph, where it is seen or is to be written."""
        nodes = self.graph.nodes if hidden or self.table.display else ()
        self.table.set_records([NODES.record(node, number=at) for at, node in enumerate(nodes)])

    @on(Rows.Highlighted, "#nodes")
    def _table_moved(self) -> None:
        if self.table.row is not None:
            self.graph.go_to(self.table.row)

    def listed_findings(self) -> Sequence[Finding]:
        return () if self.session.model is None else self.session.model.findings

    def action_findings(self) -> None:
        """Show the lines about the model as a whole."""
        self.graph.cursor = 0
        self._show_model()
        self.detail.focus()
        self.detail.find_link()

    def action_export(self) -> None:
        """Ask for a file and write the nodes into it."""
        self._fill_table(hidden=True)
        text = table_file(self.table.declared, self.table.records)
        self.workbench.output.save("Write the nodes as CSV", "nodes.csv", text)

    def copy_text(self) -> str:
        if self.detail.has_focus and self.detail.lines:
            return "".join(text for text, _ in self.detail.lines[self.detail.cursor]).strip()
        if self.table.display and self.table.record is not None:
            return "\t".join(self.table.as_rows([self.table.record])[1])
        return self.graph.row_text()

    def action_copy_detail(self) -> None:
        """Copy the detail pane."""
        self.workbench.output.copy(self.detail.text())

    def command_line(self) -> list[str]:
        return ["rknntui", "inspect", str(self.session.path)] if self.session.path else []

    def hide(self) -> None:
        if self.session.path:
            self.workbench.memory = {str(self.session.path): self.graph.opened[:200]}
        super().hide()
