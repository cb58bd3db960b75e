"""Write the tables of options in ``docs/options.md`` and ``docs/recipe.md`` from the declarations.

Usage: ``python scripts/make_option_tables.py``. A test holds both files to the code: a row for each
argument of ``config``, ``build`` and ``load_*`` of both generations' manuals and of the vendor's
later code (``engine.api.signatures``), and one for each option of a recipe (``engine.options``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
START, END = "<!-- options: made by scripts/make_option_tables.py -->", "<!-- end of options -->"

AS_OPTION = {
    "tf_pb": "model",
    "symbol": "model",
    "blobs": "weights",
    "weight": "weights",
    "params": "weights",
    "epsilon": "darknet_epsilon",
    "decode": "darknet_decode",
    "route": "pytorch_route",
}
"""Arguments of methods -> the option of a recipe under another name."""

ELSEWHERE = {
    "size_with_batch": (
        "simulator",
        "Whether `input_size_list` names the batch; unset, both forms are taken.",
    ),
    "quantize_input_node": (
        "compiler",
        "Of later toolkits of generation 1: only a warning, as a build quantizes its inputs.",
    ),
    "output_optimize": (
        "compiler",
        "Of later toolkits of generation 1: how fast a board gives its outputs; only a warning.",
    ),
    "convert_engine": (
        "refused",
        "One converter reads all models; another engine's name is refused.",
    ),
}
"""Arguments that are no option of a recipe -> where, and what they do here."""


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return "none" if value is None else f"`{text}`"


def recipe_table() -> str:
    """A row for each option of a recipe, and which of them are our own."""
    from engine.options import OPTIONS

    lines = ["| option | section | default | what |", "|---|---|---|---|"]
    lines += [f"| `{o.name}` | {o.section} | {_cell(o.default)} | {o.help} |" for o in OPTIONS]
    ours = ", ".join(f"`{o.name}`" for o in OPTIONS if o.ours)
    return "\n".join([*lines, "", f"Options without a vendor's generation are our own: {ours}."])


def _arguments() -> dict[str, dict[str, dict[int, Any]]]:
    """Argument name -> method -> generation -> default."""
    from engine.api.signatures import KEYWORDS, POSITIONAL

    found: dict[str, dict[str, dict[int, Any]]] = {}
    for table in (POSITIONAL, KEYWORDS):
        for (method, generation), parameters in table.items():
            if method in ("config", "build") or method.startswith("load_"):
                for name, default in parameters.items():
                    found.setdefault(name, {}).setdefault(method, {})[generation] = default
    found.pop("load_model_in_npu", None)  # of load_rknn, which loads what is built
    found.pop("path", None)
    return found


def _defaults(name: str, by_method: dict[str, dict[int, Any]]) -> str:
    from engine.api.signatures import NEEDED

    generations = sorted({g for defaults in by_method.values() for g in defaults})
    shown = []
    for generation in generations:
        values = {
            "required" if d[generation] is NEEDED else _cell(d[generation])
            for d in by_method.values()
            if generation in d
        }
        shown.append(" or ".join(sorted(values)))
    if len(set(shown)) == 1:
        return shown[0]
    return ", ".join(f"{text} ({g})" for g, text in zip(generations, shown, strict=True))


def _where(name: str) -> tuple[str, str]:
    """Where an argument has its effect, and what it does here."""
    from engine.options import OPTIONS

    if name in ELSEWHERE:
        return ELSEWHERE[name]
    declared = next(o for o in OPTIONS if o.name == AS_OPTION.get(name, name))
    what = f"(ours) {declared.help}" if declared.ours else declared.help
    if name in AS_OPTION:
        what = f"`{declared.name}` of a recipe: {what}"
    if declared.reason:
        what = f"{what} {declared.reason}"
    for choice, why in declared.refused.items():
        what += f" `{choice}` is refused: {why}" if not choice.startswith("group") else ""
    if any(choice.startswith("group") for choice in declared.refused):
        what += f" `group32` to `group256` are refused: {declared.refused['group32']}"
    return declared.role, what


def vendor_table() -> str:
    """A row for each argument of ``config``, ``build`` and the load methods."""
    lines = [
        "| option | method | generation | default | where | what it does here |",
        "|---|---|---|---|---|---|",
    ]
    for name, by_method in _arguments().items():
        generations = sorted({g for defaults in by_method.values() for g in defaults})
        where, what = _where(name)
        methods = ", ".join(f"`{m}`" for m in by_method)
        lines.append(
            f"| `{name}` | {methods} | {', '.join(map(str, generations))} "
            f"| {_defaults(name, by_method)} | {where} | {what} |"
        )
    return "\n".join(lines)


def with_table(page: str, table: str) -> str:
    """A page with its table as the code has it now."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{table}\n\n{END}{after}"


def pages() -> dict[Path, str]:
    """Every page and what it has to be."""
    tables = {"options.md": vendor_table(), "recipe.md": recipe_table()}
    docs = REPOSITORY / "docs"
    return {
        docs / name: with_table((docs / name).read_text(encoding="utf-8"), table)
        for name, table in tables.items()
    }


def main() -> None:
    """Write the pages."""
    sys.path.insert(0, str(REPOSITORY))
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
