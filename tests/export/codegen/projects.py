"""Projects of small models, compiled here and run against the stand-ins of the runtime library."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.events import NullReporter
from engine.export.codegen import Project, ProjectInput, ProjectOutput, Sample, write_project
from engine.export.codegen.project import Array, Board
from engine.wire.codegen import Generated, Language, ModelTask, TaskDetails
from rknntui_emulator.runtime.answers import Answers, TensorFacts, input_digest
from rknntui_emulator.runtime.build import LIBRARIES, Kind, build

PICTURE = (1, 24, 32, 3)
KINDS: dict[str, Kind] = {
    "full": "librknnrt.so",
    "mini": "librknnmrt.so",
    "generation1": "librknn_runtime.so",
}
assert set(KINDS.values()) == set(LIBRARIES)


def project_of(
    outputs: Sequence[Array],
    *,
    chip: str = "rk3588",
    model: str = "small model.onnx",
    picture: tuple[int, int, int, int] = PICTURE,
    names: Sequence[str] = (),
    samples: bool = True,
) -> Project:
    """A project of one input that takes pictures, whose outputs are those given."""
    pixels = np.random.default_rng(5).integers(0, 256, picture, np.uint8)
    _, height, width, channels = picture
    called = list(names) or [f"out{i}" for i in range(len(outputs))]
    return Project(
        model=model,
        board=Board.of_chip(chip),
        inputs=(ProjectInput("image", picture, True, True, width, height, channels),),
        outputs=tuple(
            ProjectOutput(name, tuple(array.shape))
            for name, array in zip(called, outputs, strict=True)
        ),
        samples=(Sample((pixels,), tuple(outputs)),) if samples else (),
    )


def generate(
    project: Project,
    path: Path,
    task: ModelTask = "none",
    language: Language = "cpp",
    overwrite: bool = False,
    anchors: Mapping[str, object] | None = None,
    **details: Any,
) -> Generated:
    """Write the project."""
    return write_project(
        project,
        path,
        NullReporter(),
        language=language,
        task=task,
        details=TaskDetails(**details),
        anchors=anchors,
        overwrite=overwrite,
    )


def command(
    *words: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program with variables of its environment changed."""
    return subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def well(*words: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Run a program that must succeed; what it prints."""
    done = command(*words, cwd=cwd, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cmake() -> str | None:
    """CMake, where there is one with a compiler of C++."""
    return shutil.which("cmake") if shutil.which("c++") or shutil.which("g++") else None


def compile_project(path: Path, *options: str, flags: str = "") -> Path:
    """Configure and build with every warning as an error; the program."""
    folder = path / "build-test"
    words = [f"-DCMAKE_CXX_FLAGS=-Werror -O0 {flags}", f"-DCMAKE_C_FLAGS=-Werror -O0 {flags}"]
    words += ["-DCMAKE_BUILD_TYPE=Debug", *options]
    for command in (["-S", path, "-B", folder, *words], ["--build", folder]):
        well("cmake", *command)
    return program(path)


def program(path: Path) -> Path:
    """The program that was built."""
    for each in (path / "build-test").iterdir():
        if each.is_file() and os.access(each, os.X_OK) and not each.suffix:
            return each
    raise AssertionError("nothing was built")


def answer(
    path: Path,
    folder: Path,
    api: str,
    *,
    bend: int | None = None,
    facts: Sequence[TensorFacts] = (),
) -> dict[str, str]:
    """Have the stand-in of a runtime library know the golden samples; the variables to run with.

    Args:
        path: of the project, which gets a model.
        folder: for the library and its answers.
        api: of the runtime library.
        bend: number of an output that is answered wrongly.
        facts: of the outputs, whose golden values are stored in these types; else float32.
    """
    library = build(KINDS[api], folder)
    (model_text,) = [
        line.split('"')[1]
        for line in (path / "src" / "model.h").read_text().splitlines()
        if line.startswith("#define MODEL_FILE")
    ]
    model = path / "model" / model_text
    model.write_bytes(b"RKNN" + bytes(range(60)) + path.name.encode())
    results, inputs, outputs = {}, (), tuple(facts)
    for sample in sorted((path / "data").glob("sample*")):
        given = [np.load(each) for each in sorted(sample.glob("input*.npy"))]
        golden = [np.load(each) for each in sorted(sample.glob("output*.npy"))]
        inputs = tuple(
            TensorFacts(f"in{i}", a.shape, str(a.dtype).upper(), "NHWC", "NONE")
            for i, a in enumerate(given)
        )
        outputs = outputs or tuple(
            TensorFacts(f"out{i}", a.shape, "FLOAT32", _layout(a), "NONE")
            for i, a in enumerate(golden)
        )
        if bend is not None:
            golden[bend] = golden[bend][..., ::-1] + 1
        results[input_digest([a.tobytes() for a in given])] = [
            _stored(a, each) for a, each in zip(golden, outputs, strict=True)
        ]
    generation = 1 if api == "generation1" else 2
    Answers(inputs, outputs, results, generation=generation, run_us=(50,)).into(
        library.parent / "answers", model
    )
    return {"LD_LIBRARY_PATH": str(library.parent.absolute())}


def _layout(array: Array) -> str:
    return "NCHW" if array.ndim == 4 else "UNDEFINED"


def _stored(array: Array, facts: TensorFacts) -> bytes:
    """Values in the type that a tensor has on the NPU, and in its layout."""
    if facts.layout == "NHWC" and array.ndim == 4:
        array = array.transpose(0, 2, 3, 1)
    if facts.quantization == "AFFINE":
        array = np.rint(array / np.float32(facts.scale)) + facts.zero_point
    kind = {"INT8": "i1", "UINT8": "u1", "FLOAT16": "<f2", "INT16": "<i2"}.get(facts.dtype, "<f4")
    return np.ascontiguousarray(array).astype(kind).tobytes()


def run(
    path: Path, environment: Mapping[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    """Run the program in the project's folder."""
    return command(program(path).absolute(), *words, cwd=path, **environment)
