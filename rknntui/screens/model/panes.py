"""The panes of Model: a node in detail, the nodes as a table, and loading what is not converted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import on
from textual.message import Message

from engine import fact_rows, human_bytes, port_text, quant_text, sanitize, shape_text
from engine.wire.formats import FIGURE
from engine.wire.project_tables import GRAPH_NODES
from rknntui.arguments import source_names, source_options
from rknntui.keys.actions import key_text, with_keys
from rknntui.widgets.charts import Histogram, histogram_lines
from rknntui.widgets.line_list import Rows, SidePane
from rknntui.widgets.strips import Line, fit
from rknntui.widgets.wrap import SIGNS, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine import Finding
    from engine.wire.model import (
        ModelView,
        NodeDetail,
        Preflight,
        Tensor,
        TensorStatistics,
    )
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.messages import JobEnded, RecipeChanged

# How the open model is loaded, what can be done in Model, and its nodes as a table.


def needed_option(model: ModelView) -> str:
    """The option without which a model cannot be loaded, by its findings; empty where none is."""
    names = _option_names()
    errors = (f.where for f in model.findings if f.severity == "error")
    return next((where for where in errors if where in names), "")


def _option_names() -> set[str]:
    from engine import OPTIONS

    return {option.name for option in OPTIONS}


class SourceLoad:
    """Looks at the model again when options of its loading change; converts it in a job.

    Args:
        workspace: asks the worker and starts the job.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._outdated = False

    @property
    def unconverted(self) -> bool:
        """Whether only the layers are known, as the files tell them."""
        model = self._workspace.session.model
        return model is not None and model.loaded is False

    def recipe_changed(self, message: RecipeChanged) -> None:
        """Options of the load make another graph, or let a model be loaded at last."""
        session = self._workspace.session
        open_source = session.model is not None and session.container is None
        if open_source and not message.whole and message.names & source_names():
            self._outdated = True
            if self._workspace.shown:
                self.look_again()

    def look_again(self) -> None:
        """Ask for the model view of the recipe as it is now, if it may be another one."""
        recipe = self._workspace.session.recipe
        path = str(recipe.get("model") or "")
        if self._outdated and path:
            self._outdated = False
            from engine.wire.model import OPEN
            from engine.wire.requests import ModelTarget

            params = ModelTarget(path, source=source_options(recipe))
            self._workspace.ask(OPEN, params, self._looked)

    def _looked(self, view: ModelView) -> None:
        session = self._workspace.session
        if view.path == session.recipe.get("model"):
            session.model_seen(view)

    def why_not_load(self) -> str:
        """Why the model cannot be loaded now, for the user; empty when it can."""
        session = self._workspace.session
        if session.container is not None or not session.recipe.get("model"):
            return "a source model is not open ({app.open} opens one)."
        if session.model is None or not self.unconverted:
            return "the model is loaded already."
        needed = needed_option(session.model)
        if not needed:
            return ""
        return f"{needed} is missing or does not fit ({{model.findings}}, Enter opens it)."

    def load(self) -> None:
        """Load the model in a job, so that a conversion of seconds blocks nothing."""
        from engine.wire.model import LOAD, LoadParams

        recipe = dict(self._workspace.session.recipe)
        title = f"convert {str(recipe.get('model', '')).rpartition('/')[2]}"
        self._workspace.start_job(LOAD, LoadParams(recipe=recipe), title)

    def job_ended(self, message: JobEnded) -> None:
        """Look at the graph that a conversion gave."""
        if message.method in ("load", "build") and message.state == "done" and self.unconverted:
            self._outdated = True
            self.look_again()


# What the workspace Model says while nothing is open.


_KEYS = {
    "app.open": "open a model, a recipe or an .rknn",
    "app.command-palette": "all actions",
    "app.help": "keys of this screen",
}


NODES = GRAPH_NODES.pick("number", "op", "name", "shape", "dtype")
"""The nodes of a graph as a table."""

# What the detail pane says, line by line, from what the worker answers.

CANDIDATES = 8
"""So many names are shown of those that suit as inputs or outputs."""

_END_SIGNS = {"constant": "■ ", "input": "→ ", "activation": "· "}


class Told:
    """Lines of a pane as they are told, wrapped to its width.

    Attributes:
        links: which of them stands for which constant tensor, or option of the recipe.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[Line] = []
        self.links: dict[int, str] = {}

    def link(self, name: str) -> None:
        """The line that follows stands for this."""
        self.links[len(self.lines)] = name

    def head(self, title: str) -> None:
        """A title below a blank line."""
        self.lines += [[], [(title, "head")]]

    def text(self, text: str, style: str = "", sign: str = "", sign_style: str = "dim") -> None:
        """A paragraph, behind a sign."""
        rows = wrap(sanitize(text, 600), max(20, self.width - cell_len(sign))) or [""]
        for row in rows:
            self.lines.append([(sign, sign_style), (row, style)])
            sign = " " * len(sign)

    def pair(self, name: str, text: str, style: str = "") -> None:
        """A name and its text, wrapped behind it."""
        self.text(text, style, f"{sanitize(name, 60):<11} ")

    def tensor(self, value: Tensor, sign: str = "") -> None:
        """A tensor in a line; where its name leaves no room, its sizes stand below."""
        name, sizes = sanitize(value.name, 200), f"{_shape(value)} {value.dtype}"
        if cell_len(f"{sign}{name}{sizes}") + 2 <= self.width:
            self.lines.append([(sign, "accent"), (f"{name}  ", ""), (sizes, "dim")])
        else:
            self.text(name, "", sign, "accent")
            self.lines.append([(" " * len(sign) + "  " + sizes, "dim")])


def tell_nothing(told: Told) -> None:
    """That no model is open, and what can be done."""
    told.lines += [[("No model is open.", "head")], []]
    for key, text in _KEYS.items():
        told.lines.append([(f" {key_text(key)} ", "key"), (f" {text}", "")])


def tell_model(model: ModelView, which: str, told: Told) -> None:
    """The model as a whole: format, tensors, operators, findings with their options."""
    before = model.preflight if which == "source" else None
    package = model.kind == "rknnop"
    told.lines.append([(sanitize(model.name or model.path.rsplit("/", 1)[-1], 200), "head")])
    told.pair("format", model.format)
    if not package:
        told.pair("graph", which)
        told.pair("layers" if which == "source" else "nodes", f"{model.nodes:,}")
    if which == "source" and not package:
        told.pair("parameters", f"{model.parameters:,} ({human_bytes(model.weights_bytes)})")
    if model.vendor:
        told.head("Operator" if package else "Compiled model")
        for depth, name, text in fact_rows(model.vendor):
            title = f"{'  ' * depth}{name}"
            told.text(text, "", f"{title:<13} " if text else title)
    if not package:
        _tell_ports(model, before, told)
    if which == "source" and model.loaded is False:
        told.lines.append([])
        if needed := needed_option(model):
            told.link(needed)
        told.text(_next_step(model), "", "▸ ", "accent")
    if model.findings:
        told.head("Findings")
        _tell_findings(model.findings, told)
    if model.operators:
        of_file = before and model.loaded and model.kind != "onnx"
        told.head("Operators of the file" if of_file else "Operators")
        told.lines += _operators(model.operators, before)
    if before:
        told.head("File type")
        _tell_type(before, told)
    told.lines.append([])
    told.pair("SHA-256", model.sha256, "dim")


def _tell_ports(model: ModelView, before: Preflight | None, told: Told) -> None:
    """Inputs and outputs, with the names that suit where the file does not say which they are."""
    suited = before.candidates if before is not None else None
    for role, values, names in (
        ("Inputs", model.inputs, suited.inputs if suited else ()),
        ("Outputs", model.outputs, suited.outputs if suited else ()),
    ):
        told.head(role)
        for value in values:
            told.tensor(value)
            if port := port_text(value):
                told.text(port, "dim", "  ")
        if not set(names) <= {value.name for value in values}:
            shown, others = ", ".join(names[:CANDIDATES]), len(names) - CANDIDATES
            more = f" and {others} more" if others > 0 else ""
            told.text(f"candidates: {shown}{more}", "dim", "? ", "accent")


def _next_step(model: ModelView) -> str:
    """What leads from the layers of the files to a graph."""
    needed = needed_option(model)
    if needed == "custom_ops":
        return with_keys(
            "Not loaded: see custom_ops (Enter opens it). "
            "{app.reload} asks again for permission to run its Python."
        )
    if needed:
        return f"Not loaded: it needs {needed}. Enter here opens it in Recipe."
    if any(finding.severity == "error" for finding in model.findings):
        return "Cannot be loaded: see the findings. Layers as stored in the file."
    return with_keys("Not converted: layers as stored in the file. {model.load} converts.")


def _tell_findings(findings: Iterable[Finding], told: Told) -> None:
    options = _option_names()
    for finding in findings:
        sign, style = SIGNS[finding.severity]
        first, *code = finding.remedy.split("\n")
        if finding.where in options:
            told.link(finding.where)
        told.text(finding.what, "", f"{sign} ", style)
        if first:
            told.text(first, "dim", "  → ")
        # lines of code stay lines, so that they can be copied
        told.lines += [[(sanitize(line, 600), "dim")] for line in code]


def _tell_type(before: Preflight, told: Told) -> None:
    """What the file was recognised as and why, its versions against what is read."""
    told.pair("detected as", f"{before.recognised.format}: {before.recognised.why}")
    if len(before.files) > 1:
        told.pair("files", ", ".join(before.files))
    for name, version, read in before.versions:
        told.pair(name, f"{version} ({read})" if read else version)
    for note in before.notes:
        told.text(note, "dim", "· ")


def _operators(counts: Mapping[str, int], before: Preflight | None) -> list[Line]:
    operators = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    refused = {op for op, _, why in before.operators if why} if before is not None else ()
    most = max((count for _, count in operators), default=1)
    lines: list[Line] = []
    for op, count in operators:
        bar = "█" * max(1, round(10 * count / most))
        sign = " ✗ refused" if op in refused else ""
        lines.append([(f"{fit(op, 22)}{count:>6,} ", ""), (bar, "accent"), (sign, "bad")])
    return lines


def _shape(value: Tensor) -> str:
    return "?" if value.shape == (-1,) else shape_text(value.shape)


def tell_value(kind: str, value: Tensor, told: Told) -> None:
    """A graph input or output."""
    told.text(value.name, "head")
    told.pair("kind", f"graph {kind}")
    told.pair("shape", _shape(value))
    told.pair("type", value.dtype)


def tell_node(detail: NodeDetail, data: TensorStatistics | None, told: Told) -> None:
    """A node, with the values of one of its constants."""
    told.text(detail.name, "head")
    told.pair("operator", detail.op, "accent")
    if detail.domain:
        told.pair("domain", detail.domain)
    if detail.attributes:
        told.head("Attributes")
    for name, text in detail.attributes:
        told.pair(name, text)
    for role, values in (("Inputs", detail.inputs), ("Outputs", detail.outputs)):
        told.head(role)
        for value in values:
            if value.kind == "constant":
                told.link(value.name)
            told.tensor(value, _END_SIGNS[value.kind])
            if value.quant is not None:
                told.text(quant_text(value.quant), "dim", "    ")
    if detail.origin:
        told.lines.append([])
        told.pair("merged from", ", ".join(detail.origin))
    if data is not None:
        _tell_statistics(data, told)


def _tell_statistics(data: TensorStatistics, told: Told) -> None:
    """Statistics and histogram of a constant tensor."""
    show = FIGURE.show
    told.lines.append([])
    told.text(f"Weights {data.name}", "head")
    told.pair("shape", f"{shape_text(data.shape)} {data.dtype}")
    told.pair("values", f"{data.count:,}, {data.zeros:,} of them 0")
    told.pair("range", f"{show(data.minimum)} .. {show(data.maximum)}")
    told.pair("mean, std", f"{show(data.mean)}, {show(data.std)}")
    if not data.finite:
        told.text("contains values that are not finite", "", "✗ ", "bad")
    if channels := data.channels:
        ends = zip(channels.minimum, channels.maximum, strict=True)
        spans = [abs(h - low) for low, h in ends if low is not None and h is not None]
        ranges = f", ranges {show(min(spans))} .. {show(max(spans))}" if spans else ""
        told.pair("channels", f"{len(channels.minimum)}{ranges}")
    if (bins := data.histogram) and bins.counts:
        values = Histogram(bins.low, bins.high, bins.counts, "values")
        told.lines += histogram_lines((values,), told.width, 7)


class DetailPane(SidePane):
    """Says what it is given, wrapped to its width; asks for the values of constants.

    Attributes:
        node: that is shown; None where it is something else.
    """

    @dataclass(eq=False)
    class OptionWanted(Message):
        """An option of the recipe is to be shown."""

        name: str

    @dataclass(eq=False)
    class TensorWanted(Message):
        """The values of a constant are to be shown: :meth:`show_tensor` takes them."""

        name: str

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.node: NodeDetail | None = None
        self._tell: Callable[[Told], None] = tell_nothing
        self._links: dict[int, str] = {}

    def show(self, tell: Callable[[Told], None], node: NodeDetail | None = None) -> None:
        """Show what is told; ``node`` where it is one."""
        self.node, self._tell = node, tell
        self._wrap(keep_cursor=False)

    def find_link(self) -> None:
        """Put the cursor on the first line that leads to an option."""
        self.cursor = min(self._links, default=0)

    def show_node(self, node: NodeDetail) -> None:
        """Show a node, and ask for its largest constant."""
        self.show(partial(tell_node, node, None), node)
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
        if self.node is not None:
            self._tell = partial(tell_node, self.node, data)
            self.rewrap()

    @on(SidePane.Resized)
    def rewrap(self) -> None:
        """Lay out anew what is shown."""
        self._wrap(keep_cursor=True)

    def _wrap(self, *, keep_cursor: bool) -> None:
        told = Told(self.scrollable_content_region.width or 38)
        self._tell(told)
        self._links = told.links
        self.set_lines(told.lines, keep_cursor=keep_cursor)

    @on(Rows.Chosen)
    def _chosen(self, event: Rows.Chosen) -> None:
        if name := self._links.get(event.index):
            constant = self.node is not None
            self.post_message(self.TensorWanted(name) if constant else self.OptionWanted(name))
