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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.pages import Part, table, write

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
    "auto_hybrid_quant": ("simulator", "`auto_hybrid` under the name of the model zoo."),
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

    rows = ((f"`{o.name}`", o.section, _cell(o.default), o.help) for o in OPTIONS)
    lines = table(("option", "section", "default", "what"), rows)
    ours = ", ".join(f"`{o.name}`" for o in OPTIONS if o.extension)
    return "\n".join([*lines, "", f"Options without a vendor's generation are our own: {ours}."])


def _arguments() -> dict[str, dict[str, dict[int, Any]]]:
    """Argument name -> method -> generation -> default."""
    from engine.api.signatures import KEYWORDS, POSITIONAL

    arguments: dict[str, dict[str, dict[int, Any]]] = {}
    for kind in (POSITIONAL, KEYWORDS):
        for (method, generation), parameters in kind.items():
            if method in ("config", "build") or method.startswith("load_"):
                for name, default in parameters.items():
                    arguments.setdefault(name, {}).setdefault(method, {})[generation] = default
    arguments.pop("load_model_in_npu", None)  # of load_rknn, which loads what is built
    arguments.pop("path", None)
    arguments.pop("key_file", None)
    return arguments


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
    from engine.api.later_toolkits import NO_EFFECT, REFUSED
    from engine.options import OPTIONS

    if name in ELSEWHERE:
        return ELSEWHERE[name]
    later = "Of later toolkits of generation 1"
    if name in NO_EFFECT:
        return "compiler", f"{later}; only a warning: {NO_EFFECT[name][1]}."
    if name in REFUSED:
        return "refused", f"{later}. {REFUSED[name][1]}"
    declared = next(o for o in OPTIONS if o.name == AS_OPTION.get(name, name))
    what = f"(ours) {declared.help}" if declared.extension else declared.help
    if name in AS_OPTION:
        what = f"`{declared.name}` of a recipe: {what}"
    if declared.reason:
        what = f"{what} {declared.reason}"
    for choice, why in declared.unsupported.items():
        what += f" `{choice}` is refused: {why}" if not choice.startswith("group") else ""
    if any(choice.startswith("group") for choice in declared.unsupported):
        what += f" `group32` to `group256` are refused: {declared.unsupported['group32']}"
    return declared.role, what


def vendor_table() -> str:
    """A row for each argument of ``config``, ``build`` and the load methods."""
    rows = []
    for name, by_method in _arguments().items():
        generations = sorted({g for defaults in by_method.values() for g in defaults})
        methods, of = ", ".join(f"`{m}`" for m in by_method), ", ".join(map(str, generations))
        rows.append((f"`{name}`", methods, of, _defaults(name, by_method), *_where(name)))
    head = ("option", "method", "generation", "default", "where", "what it does here")
    return "\n".join(table(head, rows))


PARTS = (
    Part("options.md", "options", "make_option_tables", vendor_table),
    Part("recipe.md", "options", "make_option_tables", recipe_table),
)

if __name__ == "__main__":
    write(PARTS)
