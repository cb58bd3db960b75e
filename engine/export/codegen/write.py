"""All files of a project; sources that differ from model to model are written here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np

from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.version import __version__
from engine.export.codegen.folder import write_folder
from engine.export.codegen.project import (
    Constant,
    Family,
    Project,
    TaskPlan,
    plain_line,
    program_name,
)
from engine.export.codegen.tasks import plan_task
from engine.graph.ir.arrays import npy_bytes
from engine.options.values import to_mutable
from engine.wire.codegen import Generated, Language, ModelTask, TaskDetails

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


# The module of a Python project that differs from model to model.


def model_module(project: Project, plan: TaskPlan, model_file: str) -> str:
    """``model.py``: inputs, outputs, samples, and the constants of the post-processing."""
    task: dict[str, Any] = dict(plan.constants)
    if plan.heads:
        task["heads"] = list(map(asdict, plan.heads))
    docstring = f"What this project is for: {plain_line(project.model)}."
    parts = [
        # a literal of Python: whatever the name holds ends where the literal does
        f"{docstring!a}\n",
        f"GENERATION = {project.board.generation}",
        f"MODEL_FILE = {model_file!a}",
        f"SAMPLES = {len(project.samples)}",
        f"INPUTS = {_literal(tuple(map(asdict, project.inputs)))}",
        f"OUTPUTS = {_literal(tuple(map(asdict, project.outputs)))}",
        f"# The constants of the post-processing: change them here.\nTASK = {_literal(task)}",
    ]
    return "\n".join(parts) + "\n"


def _literal(value: Any) -> str:
    """A literal of Python in ASCII, tuples as lists: letters of other scripts are escapes."""
    text = pformat(to_mutable(value), width=96, sort_dicts=False)
    return text.encode("ascii", "backslashreplace").decode()


LEAST_COSINE = 0.99
"""An output whose cosine to the golden one is less is told as different; a flag changes it."""

_TEMPLATES = Path(__file__).with_name("templates")
_CPP_HEADERS = ("tensor", "runtime", "rknn", "compare", "specs", "image", "postprocess")
_PYTHON = ("main", "compare", "preprocess")
_PARTS: dict[Family, tuple[str, ...]] = {
    "none": (),
    "classification": ("labels",),
    "segmentation": ("labels",),
    "yolo": ("detections", "labels"),
    "priors": ("detections", "labels"),
}
"""Family -> further modules of Python and headers of C++."""
_WORD = re.compile(r"@([A-Z_]+)@")


def write_project(
    project: Project,
    path: Path,
    reporter: Reporter,
    *,
    language: Language = "cpp",
    task: ModelTask = "none",
    details: TaskDetails | None = None,
    anchors: Mapping[str, object] | None = None,
    overwrite: bool = False,
) -> Generated:
    """Write a project.

    Args:
        project: the model, its samples, the board.
        path: the folder.
        reporter: asked whether to stop; nothing is left then.
        language: cpp or python.
        task: what the model is.
        details: of the task.
        anchors: of a Darknet network.
        overwrite: replace a project that was generated there before.

    Raises:
        UsageError: the model does not look like its task.
        OutputError, OutputExistsError: the folder cannot be written.
    """
    plan = plan_task(project, task, details or TaskDetails(), anchors)
    name = program_name(Path(project.model).stem)
    model_file = f"{name}.rknn"
    words = _words(project, plan, name, model_file, language)
    files: dict[str, bytes | Path] = {}
    programs = {"run.sh"}
    if language == "cpp":
        files |= _cpp_files(project, plan, words, model_file)
        programs.add("build.sh")
    else:
        files |= _python_files(project, plan, words, model_file)
    files["run.sh"] = _filled("common/run.sh.in", words)
    files["README.md"] = _filled(f"{language}/README.md.in", words)
    files["model/README.md"] = _filled("common/model.md.in", words)
    files |= _data(project, plan)
    if project.compiled is not None:
        files[f"model/{model_file}"] = project.compiled
    written = write_folder(path, files, frozenset(programs), reporter, overwrite=overwrite)
    return Generated(path=str(path), files=written, findings=(*_findings(project), *plan.findings))


def _findings(project: Project) -> tuple[Finding, ...]:
    if project.samples:
        return ()
    return (
        Finding(
            "codegen-no-golden",
            "warning",
            "inputs",
            "The project has no golden outputs: it compares nothing.",
            cause="A compiled model does not run here, and no recipe or build was given beside it.",
            remedy="Give the recipe (or a container of the build) as TARGET and the compiled model "
            "with --model.",
        ),
    )


def _words(
    project: Project, plan: TaskPlan, name: str, model_file: str, language: Language
) -> dict[str, str]:
    board = project.board
    if language == "cpp":
        run_files = f'"$program" "$here/model/{model_file}" "$here/data"'
        command = f"LD_LIBRARY_PATH=\\${{LD_LIBRARY_PATH:-}}:/oem/usr/lib ./{name}"
        push = '"$@" push "$program" "$folder/"'
        copy = 'scp -- "$program" "$address:$folder/"'
    else:
        stems = (*_PYTHON, *_PARTS[plan.family], "model", "postprocess")
        modules = [f'"$here/{stem}.py"' for stem in stems]
        run_files = f'"$here/model/{model_file}" "$here/data"'
        command = "python3 main.py"
        push = f'"$@" push {" ".join(modules)} "$folder/"'
        copy = f'scp -- {" ".join(modules)} "$address:$folder/"'
    return {
        "NAME": name,
        "MODEL": plain_line(project.model),
        "MODEL_FILE": model_file,
        "API": board.api,
        "SONAME": board.library,
        "CHIP": board.chip,
        "BOARD_ARCH": board.architecture,
        "ARMHF_PREFIX": board.compiler,
        "SOURCES": " ".join(f"src/{stem}.cpp" for stem in _cpp_sources(plan, "postprocess")),
        "COSINE": str(LEAST_COSINE),
        "RUN_FILES": run_files,
        "RUN_COMMAND": command,
        "ADB_PUSH": push,
        "SSH_COPY": copy,
        "MADE_FROM": plain_line(project.made_from) or "Compile it for the chip.",
        "VERSION": __version__,
        "NORMALISE": _normalise_text(project),
        "SAMPLES": str(len(project.samples)),
        "FAMILY": plan.family,
    }


def _normalise_text(project: Project) -> str:
    if any(spec.normalise for spec in project.inputs):
        return (
            "This project subtracts the mean and divides by the standard deviation itself: the "
            "model has to be compiled without them."
        )
    return (
        "The compiled model subtracts the mean and divides by the standard deviation itself; the "
        "program hands over pixels (uint8, NHWC) as they are."
    )


def _filled(template: str, words: Mapping[str, str]) -> bytes:
    """A template with its words; a word that is not known is a fault of the template."""
    text = (_TEMPLATES / template).read_text("utf-8")
    return _WORD.sub(lambda match: words[match[1]], text).encode()


def _cpp_sources(plan: TaskPlan, *further: str) -> tuple[str, ...]:
    return (*CPP_SOURCES, *further, *(part for part in _PARTS[plan.family] if part != "labels"))


def _cpp_files(
    project: Project, plan: TaskPlan, words: Mapping[str, str], model_file: str
) -> dict[str, bytes | Path]:
    names = [f"src/{stem}.cpp" for stem in _cpp_sources(plan)]
    names += [f"src/{stem}.h" for stem in (*_CPP_HEADERS, *_PARTS[plan.family])]
    names += ["include/rknn_minimal.h", "stub/rknn_stub.c", "CMakeLists.txt", "build.sh"]
    files: dict[str, bytes | Path] = {stem: _filled(f"cpp/{stem}.in", words) for stem in names}
    files["src/postprocess.cpp"] = _filled(f"cpp/src/postprocess_{plan.family}.cpp.in", words)
    files["src/model.h"] = model_header(project, model_file).encode()
    if plan.family != "none":
        files["src/task.h"] = task_header(plan).encode()
    return files


def _python_files(
    project: Project, plan: TaskPlan, words: Mapping[str, str], model_file: str
) -> dict[str, bytes | Path]:
    files: dict[str, bytes | Path] = {
        f"{stem}.py": _filled(f"python/{stem}.py.in", words)
        for stem in (*_PYTHON, *_PARTS[plan.family])
    }
    files["postprocess.py"] = _filled(f"python/postprocess_{plan.family}.py.in", words)
    files["model.py"] = model_module(project, plan, model_file).encode()
    return files


def _data(project: Project, plan: TaskPlan) -> dict[str, bytes | Path]:
    """Golden samples, labels and priors; an index of them for the reader."""
    files: dict[str, bytes | Path] = {}
    lines = ["file\tname\tshape\tdtype"]
    for number, sample in enumerate(project.samples):
        inputs, outputs = [s.name for s in project.inputs], [s.name for s in project.outputs]
        ends = ("input", inputs, sample.inputs), ("output", outputs, sample.outputs)
        for side, names, arrays in ends:
            for i, (name, array) in enumerate(zip(names, arrays, strict=True)):
                file = f"sample{number}/{side}{i}.npy"
                files[f"data/{file}"] = npy_bytes(np.ascontiguousarray(array))  # read in C order
                lines.append(f"{file}\t{plain_line(name)}\t{array.shape}\t{array.dtype}")
    if plan.priors is not None:
        files["data/priors.npy"] = npy_bytes(plan.priors)
    if plan.labels:
        files["data/labels.txt"] = "".join(f"{plain_line(spec)}\n" for spec in plan.labels).encode()
    files["data/index.tsv"] = ("\n".join(lines) + "\n").encode()
    return files
