"""Circles that imports for types alone make: lint-imports leaves such imports out."""

from __future__ import annotations

import grimp

KNOWN = (
    # an option checks its values by its kind; a check tells the option's name and bounds
    {"engine.options.checks", "engine.options.declare"},
)


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The modules that reach each other, circle by circle (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        open_.append(module)
        for other in sorted(imports[module]):
            if other not in order:
                visit(other)
            if other in open_:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            place = open_.index(module)
            circle = set(open_[place:])
            del open_[place:]
            if len(circle) > 1:
                found.append(circle)

    for module in sorted(imports):
        if module not in order:
            visit(module)
    return found


def test_circles_are_found() -> None:
    rows = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert circles(rows) == [{"b", "c"}, {"e", "f"}]


def test_types_alone_make_no_further_circle_in_the_engine() -> None:
    graph = grimp.build_graph("engine", cache_dir=None)
    imports = {m: set(graph.find_modules_directly_imported_by(m)) for m in graph.modules}
    assert len(imports) > 300
    assert [circle for circle in circles(imports) if circle not in KNOWN] == []


def test_only_parts_of_one_workspace_know_each_other() -> None:
    """What asks the workbench names a protocol of it (`rknntui.shell`), never the application."""
    graph = grimp.build_graph("rknntui", cache_dir=None)
    imports = {m: set(graph.find_modules_directly_imported_by(m)) for m in graph.modules}
    for circle in circles(imports):
        homes = {module.rpartition(".")[0] for module in circle}
        assert len(homes) == 1, circle
        assert homes.pop().startswith("rknntui.screens."), circle
