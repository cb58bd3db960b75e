"""The vendor's compiled models and packages of operators, as the worker shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import GraphError
from engine.base.files import sha256_of
from engine.base.text import sanitize
from engine.container.vendor import (
    OpPackage,
    inspect_op_package,
    inspect_vendor,
    vendor_graph_view,
    vendor_node_detail,
    vendor_view,
)
from engine.frontends.sniff import sniff
from engine.pipeline.fingerprints import file_fingerprint
from engine.services.source_info import ReadOnlyGraph
from engine.services.state import WORKER_STATE
from engine.toolkit.compile.side_file import compiled_from, names_of
from engine.wire.model import GraphView, ModelView, NodeDetail

if TYPE_CHECKING:
    from engine.container.vendor import VendorModel


def vendor_model(path: Path) -> ModelView:
    """The model view of a vendor's file of any kind, with what its side file says.

    Raises:
        ContainerError: it is damaged, or of a form that is not known.
    """
    seen = _inspected(path)
    if isinstance(seen, OpPackage):
        return _package_view(path, seen)

    view = vendor_view(seen)
    origin, doubts = compiled_from(path, view.sha256)
    vendor_facts = {**(view.vendor or {}), "compiled_from": origin} if origin else view.vendor
    return replace(view, vendor=vendor_facts, findings=(*view.findings, *doubts))


def vendor_graph(path: Path) -> ReadOnlyGraph:
    """The layers of a vendor's file; a package has none.

    Raises:
        ContainerError: it is damaged, or of a form that is not known.
    """
    seen = _inspected(path)
    why = "A compiled model holds its weights in a form of its NPU."
    if not isinstance(seen, OpPackage):
        model = seen
        return ReadOnlyGraph(
            vendor_graph_view(model), lambda name: vendor_node_detail(model, name), why
        )

    def nothing(name: str) -> NodeDetail:
        raise GraphError(
            f"A package of an operator has no layer {sanitize(name)!r}.",
            remedy="Check the name in the package of the operator.",
        )

    return ReadOnlyGraph(GraphView((), (), (), ()), nothing, why)


def _inspected(path: Path) -> VendorModel | OpPackage:
    """What a file holds, kept until it changes."""
    package = sniff(path).kind == "rknnop"
    key = f"vendor {file_fingerprint(path)}"

    def inspect() -> VendorModel | OpPackage:
        return inspect_op_package(path) if package else _with_users_names(inspect_vendor(path))

    return WORKER_STATE.get_or_make(key, inspect, lambda _: path.stat().st_size)


def _with_users_names(model: VendorModel) -> VendorModel:
    """The model whose layers are called as in the source model, where its side file knows them."""
    names = names_of(Path(model.path), model.sha256)
    if not names.users:
        return model
    graphs = tuple(
        replace(
            graph,
            layers=tuple(
                replace(item, name=names.told(item.name), note=names.told(item.note))
                for item in graph.layers
            ),
            tensors=tuple(replace(item, name=names.told(item.name)) for item in graph.tensors),
        )
        for graph in model.graphs
    )
    return replace(model, graphs=graphs)


def _package_view(path: Path, package: OpPackage) -> ModelView:
    return ModelView(
        kind="rknnop",
        path=str(path),
        name=sanitize(path.name),
        format="package of a custom operator of generation 1 (.rknnop)",
        sha256=sha256_of(path),
        inputs=(),
        outputs=(),
        nodes=0,
        operators={},
        parameters=0,
        weights_bytes=0,
        findings=(),
        recipe=None,
        summary=None,
        vendor={
            "operator": sanitize(package.name),
            "version": package.op_version,
            "platform": sanitize(package.target_platform),
            "framework": sanitize(package.framework),
            "inputs": _shown(package.inputs),
            "outputs": _shown(package.outputs),
            "parameters": _shown(package.params),
            "section_bytes": {sanitize(name): size for name, size in package.sections},
        },
    )


def _shown(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [sanitize(f"{name} {kind}") for name, kind in pairs]
