"""The sources of a C++ project that differ from model to model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.export.codegen.names import c_number, c_string, plain_line
from engine.export.codegen.project import Project, ProjectInput
from engine.export.codegen.tasks.plan import Constant, Head, TaskPlan

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
_ENUMS = {"form": "Form", "box": "Box", "activation": "Activation"}


def _braces(values: Iterable[str]) -> str:
    return "{" + ", ".join(values) + "}"


def _numbers(values: Sequence[float]) -> str:
    return _braces(map(c_number, values))


def _flag(value: bool) -> str:
    return "true" if value else "false"


def model_header(project: Project, model_file: str) -> str:
    """``model.h``: inputs, outputs and how many golden samples there are."""
    inputs = ",\n".join(f"      {_input(spec)}" for spec in project.inputs)
    outputs = ",\n".join(
        f"      OutputSpec{{{c_string(spec.name)}, {_braces(map(str, spec.shape))}}}"
        for spec in project.outputs
    )
    return f"""/* What this project is for: {_comment(project.model)}. */
#pragma once

#include "specs.h"

#define MODEL_FILE {c_string(model_file)}

static const size_t kSamples = {len(project.samples)};

inline const std::vector<InputSpec> &InputSpecs() {{
  static const std::vector<InputSpec> specs = {{
{inputs}}};
  return specs;
}}

inline const std::vector<OutputSpec> &OutputSpecs() {{
  static const std::vector<OutputSpec> specs = {{
{outputs}}};
  return specs;
}}
"""


def _comment(text: str) -> str:
    """A text that cannot end a comment, nor run on into the next line."""
    return plain_line(text).replace("*/", "* /").replace("\\", "/").replace("??", "? ?")


def _input(spec: ProjectInput) -> str:
    return "InputSpec" + _braces(
        (
            c_string(spec.name),
            _braces(map(str, spec.shape)),
            _flag(spec.nhwc),
            _flag(spec.picture),
            str(spec.width),
            str(spec.height),
            str(spec.channels),
            _braces(map(str, spec.order)),
            c_string(spec.filter),
            c_string(spec.fit),
            _numbers(spec.pad),
            _flag(spec.normalise),
            _numbers(spec.mean),
            _numbers(spec.std),
        )
    )


def task_header(plan: TaskPlan) -> str:
    """``task.h``: the constants of the post-processing."""
    types = {"yolo": _YOLO_TYPES, "priors": _PRIOR_TYPES}.get(plan.family, "")
    constants = "\n".join(_constant(name, value) for name, value in plan.constants.items())
    heads = ""
    if plan.heads:
        rows = ",\n".join(f"      {_head(head)}" for head in plan.heads)
        heads = f"""
inline const std::vector<Head> &Heads() {{
  static const std::vector<Head> heads = {{
{rows}}};
  return heads;
}}
"""
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
    if isinstance(value, bool):
        return f"static const bool {title} = {_flag(value)};"
    if isinstance(value, int):
        kind = "size_t" if name in _SIZES else "int"
        return f"static const {kind} {title} = {value};"
    if isinstance(value, float):
        return f"static const double {title} = {c_number(value)};"
    return f"static const char *const {title} = {c_string(value)};"


def _head(head: Head) -> str:
    whole = (head.boxes, head.classes, head.class_channel, head.first, head.height, head.width)
    strides = (c_number(head.stride_x), c_number(head.stride_y))
    return "Head" + _braces(
        (*map(str, whole), *strides, _numbers(head.anchors), c_number(head.scale))
    )
