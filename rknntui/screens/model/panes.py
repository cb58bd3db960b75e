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
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine import Finding
    from engine.wire.model import (
        ModelView,
        NodeDetail,
        NodeRow,
        Preflight,
        Tensor,
        TensorStatistics,
    )
    from engine.wire.table import Record
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
        if not self.unconverted:
            return "the model is loaded already."
        if not self.needed:
            return ""
        return f"{self.needed} is missing or does not fit ({{model.findings}}, Enter opens it)."

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

    @property
    def needed(self) -> str:
        """The option without which the model cannot be loaded; empty where none is."""
        model = self._workspace.session.model
        return needed_option(model) if model is not None else ""


# What the workspace Model says while nothing is open.


_KEYS = {
    "app.open": "open a model, a recipe or an .rknn",
    "app.command-palette": "all actions",
    "app.help": "keys of this screen",
}


def empty_lines() -> list[Line]:
    """What the detail pane says while nothing is open."""
    keys: list[Line] = [
        [(f" {key_text(key)} ", "key"), (f" {text}", "")] for key, text in _KEYS.items()
    ]
    return [[("No model is open.", "head")], [], *keys]


NODES = GRAPH_NODES.pick("number", "op", "name", "shape", "dtype")
"""The nodes of a graph as a table."""


def node_rows(nodes: Iterable[NodeRow]) -> list[Record]:
    """The rows of that table."""
    return [NODES.record(node, number=at) for at, node in enumerate(nodes)]


# What the detail pane says: lines of text from what the worker answers.

Described = tuple[list[Line], dict[int, str]]
"""Lines, and which of them stands for which constant tensor, or option of the recipe."""

CANDIDATES = 8
"""So many names are shown of those that suit as inputs or outputs."""

_END_SIGNS = {"constant": "■ ", "input": "→ ", "activation": "· "}
SIGNS = {"error": ("✗ ", "bad"), "warning": ("! ", "warn"), "info": ("· ", "dim")}


def _pair(name: str, text: str, width: int, style: str = "") -> list[Line]:
    """A name and its text, wrapped behind it."""
    return _wrapped(f"{sanitize(name, 60):<11} ", "dim", text, style, width)


def model_lines(model: ModelView, which: str, width: int) -> Described:
    """The model as a whole: format, tensors, operators, findings with their options."""
    links: dict[int, str] = {}
    options = _option_names()
    before = model.preflight if which == "source" else None
    package = model.kind == "rknnop"
    lines: list[Line] = [
        [(sanitize(model.name or model.path.rsplit("/", 1)[-1], 200), "head")],
        *_pair("format", model.format, width),
    ]
    if not package:
        lines += _sizes(model, which, width)
    if model.vendor:
        title = "Operator" if package else "Compiled model"
        lines += [[], [(title, "head")], *_facts(model.vendor, width)]
    suited = before.candidates if before is not None else None
    for role, values, names in (
        ("Inputs", model.inputs, suited.inputs if suited else ()),
        ("Outputs", model.outputs, suited.outputs if suited else ()),
    ):
        if package:
            break
        lines += [[], [(role, "head")]]
        for value in values:
            lines += _tensor(value, width)
            if port := port_text(value):
                lines += _wrapped("  ", "", port, "dim", width)
        lines += _candidates(names, values, width)
    if which == "source" and model.loaded is False:
        if needed := needed_option(model):
            links[len(lines) + 1] = needed
        lines += [[], *_wrapped("▸ ", "accent", _next_step(model), "", width)]
    lines += [[], [("Findings", "head")]] if model.findings else []
    for finding in model.findings:
        if finding.where in options:
            links[len(lines)] = finding.where
        lines += _finding(finding, width)
    if model.operators:
        source_names = before and model.loaded and model.kind != "onnx"
        heading = "Operators of the file" if source_names else "Operators"
        lines += [[], [(heading, "head")], *_operators(model.operators, before)]
    if before:
        lines += [[], [("File type", "head")], *_recognised(before, width)]
    return [*lines, [], *_pair("SHA-256", model.sha256, width, "dim")], links


def _sizes(model: ModelView, which: str, width: int) -> list[Line]:
    """How much there is: of layers as the file has them, or nodes of the graph, and weights."""
    lines = [
        *_pair("graph", which, width),
        *_pair("layers" if which == "source" else "nodes", f"{model.nodes:,}", width),
    ]
    if which == "source":
        size = human_bytes(model.weights_bytes)
        lines += _pair("parameters", f"{model.parameters:,} ({size})", width)
    return lines


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
    converts = f"{key_text('model.load')} converts."
    return f"Not converted: layers as stored in the file. {converts}"


def _recognised(before: Preflight, width: int) -> list[Line]:
    """What the file was recognised as and why, its versions against what is read."""
    seen = before.recognised
    lines = _pair("detected as", f"{seen.format}: {seen.why}", width)
    if len(before.files) > 1:
        lines += _pair("files", ", ".join(before.files), width)
    for name, version, read in before.versions:
        lines += _pair(name, f"{version} ({read})" if read else version, width)
    for note in before.notes:
        lines += _wrapped("· ", "dim", note, "dim", width)
    return lines


def _candidates(names: Sequence[str], values: Iterable[Tensor], width: int) -> list[Line]:
    """Names that suit where the file does not say which they are; none where it does."""
    if set(names) <= {value.name for value in values}:
        return []
    shown = ", ".join(names[:CANDIDATES])
    more = f" and {len(names) - CANDIDATES} more" if len(names) > CANDIDATES else ""
    return _wrapped("? ", "accent", f"candidates: {shown}{more}", "dim", width)


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


def _facts(facts: Mapping[str, object], width: int) -> list[Line]:
    """What a vendor's file says of itself; nested facts stand below their name."""
    lines: list[Line] = []
    for depth, name, text in fact_rows(facts):
        title = f"{'  ' * depth}{name}"
        lines += _wrapped(f"{title:<13} ", "dim", text, "", width) if text else [[(title, "dim")]]
    return lines


def _shape(value: Tensor) -> str:
    return "?" if value.shape == (-1,) else shape_text(value.shape)


def _tensor(value: Tensor, width: int, sign: str = "") -> list[Line]:
    """A tensor in a line; where its name leaves no room, its sizes stand below."""
    name, sizes = sanitize(value.name, 200), f"{_shape(value)} {value.dtype}"
    if cell_len(f"{sign}{name}{sizes}") + 2 <= width:
        return [[(sign, "accent"), (f"{name}  ", ""), (sizes, "dim")]]
    return [*_wrapped(sign, "accent", name, "", width), [(" " * len(sign) + "  " + sizes, "dim")]]


def _finding(finding: Finding, width: int) -> list[Line]:
    sign, style = SIGNS[finding.severity]
    lines = _wrapped(sign, style, finding.what, "", width)
    remedy = finding.remedy.split("\n")
    if remedy[0]:
        lines += _wrapped("  → ", "dim", remedy[0], "dim", width)
    # lines of code stay lines, so that they can be copied
    return [*lines, *([(sanitize(line, 600), "dim")] for line in remedy[1:])]


def _wrapped(sign: str, sign_style: str, text: str, style: str, width: int) -> list[Line]:
    """A paragraph behind a sign."""
    rows = wrap(sanitize(text, 600), max(20, width - cell_len(sign))) or [""]
    return [
        [(sign if n == 0 else " " * len(sign), sign_style), (row, style)]
        for n, row in enumerate(rows)
    ]


def value_lines(kind: str, value: Tensor, width: int) -> list[Line]:
    """A graph input or output."""
    return [
        *_wrapped("", "", value.name, "head", width),
        *_pair("kind", f"graph {kind}", width),
        *_pair("shape", _shape(value), width),
        *_pair("type", value.dtype, width),
    ]


def node_lines(detail: NodeDetail, width: int) -> Described:
    """A node."""
    lines: list[Line] = [
        *_wrapped("", "", detail.name, "head", width),
        *_pair("operator", detail.op, width, "accent"),
    ]
    if detail.domain:
        lines += _pair("domain", detail.domain, width)
    if detail.attributes:
        lines += [[], [("Attributes", "head")]]
        for name, text in detail.attributes:
            lines += _pair(name, text, width)
    constants: dict[int, str] = {}
    for role, values in (("Inputs", detail.inputs), ("Outputs", detail.outputs)):
        lines += [[], [(role, "head")]]
        for value in values:
            if value.kind == "constant":
                constants[len(lines)] = value.name
            lines += _tensor(value, width, _END_SIGNS[value.kind])
            if value.quant is not None:
                lines += _wrapped("    ", "", quant_text(value.quant), "dim", width)
    if detail.origin:
        lines += [[], *_pair("merged from", ", ".join(detail.origin), width)]
    return lines, constants


def tensor_lines(data: TensorStatistics, width: int) -> list[Line]:
    """Statistics and histogram of a constant tensor."""
    lines: list[Line] = [
        [],
        *_wrapped("", "", f"Weights {data.name}", "head", width),
        *_pair("shape", f"{shape_text(data.shape)} {data.dtype}", width),
        *_pair("values", f"{data.count:,}, {data.zeros:,} of them 0", width),
        *_pair("range", f"{FIGURE.show(data.minimum)} .. {FIGURE.show(data.maximum)}", width),
        *_pair("mean, std", f"{FIGURE.show(data.mean)}, {FIGURE.show(data.std)}", width),
    ]
    if not data.finite:
        lines.append([("✗ ", "bad"), ("contains values that are not finite", "")])
    if channels := data.channels:
        ends = zip(channels.minimum, channels.maximum, strict=True)
        spans = [abs(h - low) for low, h in ends if low is not None and h is not None]
        ranges = f", ranges {FIGURE.text(min(spans))} .. {FIGURE.text(max(spans))}" if spans else ""
        lines += _pair("channels", f"{len(channels.minimum)}{ranges}", width)
    if (bins := data.histogram) and bins.counts:
        values = Histogram(bins.low, bins.high, bins.counts, "values")
        lines += histogram_lines((values,), width, 7)
    return lines


class DetailPane(SidePane):
    """Says what it is given, wrapped to its width; asks for the values of constants."""

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
        self._described: Callable[[int], Described] = lambda _: (empty_lines(), {})
        self._links: dict[int, str] = {}
        self.node: NodeDetail | None = None

    def show_model(self, model: ModelView, which: str) -> None:
        """Show a model as a whole; ``which`` is its graph."""
        self.node = None
        self._show(partial(model_lines, model, which))

    def find_link(self) -> None:
        """Put the cursor on the first line that leads to an option."""
        self.cursor = min(self._links, default=0)

    def show_value(self, kind: str, value: Tensor) -> None:
        """Show an input or output; ``kind`` says which."""
        self.node = None
        self._show(lambda width: (value_lines(kind, value, width), {}))

    def wait(self) -> None:
        """Say that what is to be shown is being read."""
        self.node = None
        self._show(lambda _: ([[("reading …", "dim")]], {}))

    def show_node(self, node: NodeDetail) -> None:
        """Show a node, and ask for its largest constant."""
        self.node = node
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
        node = self.node

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
        lines, self._links = self._described(width)
        self.set_lines(lines, keep_cursor=keep_cursor)

    @on(Rows.Chosen)
    def _chosen(self, event: Rows.Chosen) -> None:
        if name := self._links.get(event.index):
            constant = self.node is not None
            self.post_message(self.TensorWanted(name) if constant else self.OptionWanted(name))
