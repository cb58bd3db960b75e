"""The sources of a C++ project that differ from model to model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.export.codegen.plan import Constant, TaskPlan
from engine.export.codegen.project import Project, plain_line

CPP_SOURCES = ("main", "runtime", "tensor", "compare", "image")
"""Sources of every project; beside them one ``postprocess`` and what it needs."""

_YOLO_TYPES = """
enum Form { kPlanes, kLast, kRows, kColumns };
enum Box { kYolov5, kDarknet, kYolox, kDistances, kPlaced };

struct Head {
  size_t boxes, classes; /* numbers of the outputs */
  size_t class_channel;  /* where the classes begin */
  size_t first;          /* row of its first box, in a table of all heads */
  size_t height, width;
  double stride_x, stride_y; /* pixels of the input from place to place */
  std::vector<double> anchors; /* width and height of each, in pixels of the input */
  double scale;                /* scale_x_y of Darknet */
};
"""
_PRIOR_TYPES = """
enum Activation { kNone, kSoftmax, kSigmoid };
"""
_SIZES = frozenset(
    {"output", "boxes", "scores", "classes", "channels", "bins", "background", "most", "top"}
)
_SAFE = frozenset(b" !#$%&'()*+,-./:;<=>@[]^_`{|}~") | frozenset(
    letter for letter in range(128) if chr(letter).isalnum()
)
"""Bytes of a C string that stand for themselves."""
_KINDS = {bool: "bool", int: "int", float: "double", str: "char *const"}
_ENUMS = {"form": "Form", "box": "Box", "activation": "Activation"}


def c_value(value: Any) -> str:
    """A value as C++ writes it: of a record its fields in their order, as the structs have them.

    Texts are UTF-8: whatever is not plain ASCII becomes an octal escape. Numbers are the shortest
    text of the same value.

    >>> c_value(('a"b', 1.0, True))
    '{"a\\\\042b", 1.0, true}'
    """
    if isinstance(value, str):
        data = value.encode("utf-8", "replace")
        return '"' + "".join(chr(b) if b in _SAFE else f"\\{b:03o}" for b in data) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(float(value))
    parts = value if isinstance(value, tuple) else vars(value).values()
    return "{" + ", ".join(map(c_value, parts)) + "}"


def _listed(kind: str, name: str, values: Sequence[object]) -> str:
    """A function that gives a vector of structs."""
    lines = ",\n".join(f"      {kind}{c_value(value)}" for value in values)
    return f"""inline const std::vector<{kind}> &{name}() {{
  static const std::vector<{kind}> rows = {{
{lines}}};
  return rows;
}}
"""


def model_header(project: Project, model_file: str) -> str:
    """``model.h``: inputs, outputs and how many golden samples there are."""
    return f"""/* What this project is for: {_comment(project.model)}. */
#pragma once

#include "specs.h"

#define MODEL_FILE {c_value(model_file)}

static const size_t kSamples = {len(project.samples)};

{_listed("InputSpec", "InputSpecs", project.inputs)}
{_listed("OutputSpec", "OutputSpecs", project.outputs)}"""


def _comment(text: str) -> str:
    """A text that cannot end a comment, nor run on into the next line."""
    return plain_line(text).replace("*/", "* /").replace("\\", "/").replace("??", "? ?")


def task_header(plan: TaskPlan) -> str:
    """``task.h``: the constants of the post-processing."""
    types = {"yolo": _YOLO_TYPES, "priors": _PRIOR_TYPES}.get(plan.family, "")
    constants = "\n".join(_constant(name, value) for name, value in plan.constants.items())
    heads = f"\n{_listed('Head', 'Heads', plan.heads)}" if plan.heads else ""
    return f"""/* The constants of the post-processing: change them here. */
#pragma once

#include <cstddef>
#include <vector>

namespace task {{
{types}
{constants}
{heads}
}}  // namespace task
"""


def _constant(name: str, value: Constant) -> str:
    title = "k" + "".join(word.title() for word in name.split("_"))
    if name in _ENUMS:
        return f"static const {_ENUMS[name]} {title} = k{str(value).title()};"
    kind = _KINDS[type(value)] if name not in _SIZES else "size_t"
    return f"static const {kind} {title} = {c_value(value)};"
