"""The C++ project: compiled without a warning, run against the stand-ins of the runtime library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from engine.dataset import Preprocess
from engine.dataset.samples import ReadingStats, load_pixels
from engine.export.codegen import Project, ProjectInput, ProjectOutput, Sample
from engine.export.codegen.project import Array, Board
from engine.graph.ir import TensorSpec
from engine.wire.codegen import ModelTask
from rknntui_emulator.runtime.answers import TensorFacts
from tests.export.codegen.projects import (
    KINDS,
    PICTURE,
    answer,
    cmake,
    command,
    compile_project,
    generate,
    project_of,
    run,
    well,
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.cc,
    pytest.mark.skipif(cmake() is None, reason="no CMake or no C++ compiler here"),
]
CHIPS = {"full": "rk3588", "mini": "rv1106", "generation1": "rk1808"}


def scores() -> list[Array]:
    source = np.random.default_rng(2)
    flat = np.round(source.normal(0, 20, (1, 12))).astype(np.float32) / 4
    planes = np.round(source.normal(0, 20, (1, 5, 6, 7))).astype(np.float32) / 8
    return [flat, planes]


def stored(api: str) -> list[TensorFacts]:
    """The outputs in 8 bits, and of the mini runtime in its own layout, rows with gaps."""
    layout, shape = ("NHWC", (1, 6, 7, 5)) if api == "mini" else ("NCHW", (1, 5, 6, 7))
    return [
        TensorFacts("out0", (1, 12), "INT8", "UNDEFINED", "AFFINE", 0, 3, 0.25),
        TensorFacts("out1", shape, "INT8", layout, "AFFINE", 0, -7, 0.125),
    ]


def compiled(project: Project, path: Path, task: ModelTask = "none", flags: str = "") -> Path:
    """The folder of a project that was written and built."""
    generate(project, path, task)
    compile_project(path, flags=flags)
    return path


@pytest.mark.parametrize("api", KINDS)
def test_golden_and_bent_outputs(api: str, tmp_path: Path) -> None:
    project = project_of(scores(), chip=CHIPS[api], names=['na"me\\', "*/ plane"])
    path = compiled(project, tmp_path / "app", "classification")
    environment = answer(path, tmp_path / "lib", api, facts=stored(api))
    done = run(path, environment, "--loops", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" ok\n") == 2
    assert 'output 0 na"me\\ cosine 1.000000 max_abs 0 sqnr inf' in done.stdout
    assert ("normal" if api == "generation1" else "zero-copy") in done.stdout
    assert "(emulated by rknntui)" in done.stderr
    if api == "full":
        done = run(path, environment, "--normal")
        assert done.returncode == 0, done.stdout + done.stderr
        assert ", normal" in done.stdout
    # a wrong output is found, and which it is
    environment = answer(path, tmp_path / "lib", api, facts=stored(api), bend=1)
    done = run(path, environment)
    assert done.returncode == 1
    assert [line[:8] for line in done.stdout.splitlines() if "DIFFERS" in line] == ["output 1"]
    done = run(path, environment, "--cosine", "-1")
    assert done.returncode == 0
    # what cannot be done
    for words, said in (
        (["--model", "none.rknn"], "cannot be read"),
        (["--data", "none"], "cannot be opened"),
        (["--wrong", "1"], "not known"),
        (["a.npy", "b.npy"], "takes 1 inputs"),
    ):
        done = run(path, environment, *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    (path / "model" / "bad.rknn").write_bytes(b"XXXX")
    done = run(path, environment, "--model", "model/bad.rknn")
    assert done.returncode == 2
    assert "rknn_init returned -6: the model is damaged" in done.stderr


def test_without_reaching_beyond_memory(tmp_path: Path) -> None:
    project, flags = project_of(scores(), chip="rv1106"), "-fsanitize=address,undefined"
    path = compiled(
        project, tmp_path / "app", "classification", f"{flags} -fno-sanitize-recover=all"
    )
    environment = answer(path, tmp_path / "lib", "mini", facts=stored("mini"))
    environment["ASAN_OPTIONS"] = "detect_leaks=1"
    done = run(path, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    # files that are cut off, or lie
    good = (path / "data/sample0/input0.npy").read_bytes()
    picture = b"BM" + bytes(16) + (2**31 - 1).to_bytes(4, "little") * 2 + b"\1\0\x18\0" + bytes(40)
    for name, content in {
        "cut.npy": good[:-1],
        "head.npy": good[:20],
        "huge.npy": good.replace(b"(1, 24, 32, 3)", b"(9999999999,) "),
        "order.npy": good.replace(b"False", b"True "),
        "type.npy": good.replace(b"|u1", b"|O8"),
        "empty.npy": b"",
        "lies.bmp": picture,
        "cut.ppm": b"P6 9 9 255\n123",
        "huge.ppm": b"P6 99999 99999 255\n",
        "comment.ppm": b"P6 #",
    }.items():
        (path / name).write_bytes(content)
        done = run(path, environment, name)
        assert done.returncode == 2, (name, done.stdout, done.stderr)
        assert done.stderr.splitlines()[-1].startswith("error: "), done.stderr


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_pictures_are_scaled_as_pillow_does(fit: str, tmp_path: Path) -> None:
    source = np.random.default_rng(8)
    pictures = {
        "wide": source.integers(0, 256, (37, 61, 3), np.uint8),
        "tall": source.integers(0, 256, (90, 40, 3), np.uint8),
        "small": source.integers(0, 256, (11, 9, 3), np.uint8),
        "same": source.integers(0, 256, (24, 32, 3), np.uint8),
    }
    for name, pixels in pictures.items():
        Image.fromarray(pixels).save(tmp_path / f"{name}.bmp")
        Image.fromarray(pixels).save(tmp_path / f"{name}.ppm")
    ways = ("bilinear", "nearest", "bicubic", "lanczos", "box")
    for way in ways if fit == "stretch" else ways[:1]:
        for normalise in (False, True):
            path = tmp_path / f"{way}-{normalise}"
            spec = ProjectInput(
                "image",
                PICTURE,
                nhwc=True,
                picture=True,
                width=32,
                height=24,
                channels=3,
                order=(2, 1, 0),
                filter=way,
                fit=fit,
                pad=(12.0, 100.6, 7.0),
                normalise=normalise,
                mean=(12.0, 100.6, 7.0) if normalise else (),
                std=(3.0, 2.0, 58.4) if normalise else (),
            )
            project = Project("m", Board.of_chip("rk3588"), (spec,), (ProjectOutput("o", (1,)),))
            generate(project, path)
            (path / "check.cpp").write_text(CHECK)
            _compile(path)
            for name in pictures:
                wanted = _by_pillow(tmp_path / f"{name}.bmp", spec)
                for suffix in ("bmp", "ppm"):
                    file = tmp_path / f"{name}.{suffix}"
                    well(path / "check", file, path / "out.npy")
                    found = np.load(path / "out.npy")
                    assert found.dtype == wanted.dtype
                    gap = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
                    assert gap.max() <= 1e-6, f"{name} {way} {fit}"
                    if way in ("bilinear", "nearest"):
                        # Pillow chooses by the sizes which way is scaled first
                        own = _by_engine(tmp_path / f"{name}.bmp", spec)
                        gap = np.abs(found.astype(np.float64) - own.astype(np.float64))
                        assert gap.max() <= (0.5001 if normalise else 1)
            if not normalise and way != "bilinear":
                break


CHECK = """
#include "image.h"
#include "model.h"
int main(int, char **words) {
  Placement place;
  const InputSpec &spec = InputSpecs()[0];
  WriteNpy(words[2], Preprocess(ReadPicture(words[1], spec.channels), spec, &place));
}
"""


def _compile(path: Path) -> None:
    code = [path / "check.cpp", path / "src/image.cpp", path / "src/tensor.cpp"]
    words = ["-std=c++11", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{path / 'src'}"]
    well("g++", *words, "-o", path / "check", *code)


def _by_pillow(picture: Path, spec: ProjectInput) -> Array:
    """Pillow's scaling, across first, which one call of it may do the other way round."""
    image = Image.open(picture)
    box, size = (0.0, 0.0, *image.size), (spec.width, spec.height)
    if spec.fit == "pad":
        size = ImageOps.contain(image, size).size
    elif spec.fit == "crop":
        ratio = spec.width / spec.height
        w, h = min(image.width, ratio * image.height), min(image.height, image.width / ratio)
        left, top = (image.width - w) * 0.5, (image.height - h) * 0.5
        box = (left, top, left + w, top + h)
    way = Image.Resampling[spec.filter.upper()]
    if way == Image.Resampling.NEAREST:
        scaled = image.resize(size, way, box)
    else:
        across = image.resize((size[0], image.height), way, (box[0], 0, box[2], image.height))
        scaled = across.resize(size, way, (0, box[1], size[0], box[3]))
    canvas = np.empty((spec.height, spec.width, 3), np.float32)
    canvas[:] = spec.pad
    top, left = (spec.height - size[1]) // 2, (spec.width - size[0]) // 2
    canvas[top : top + size[1], left : left + size[0]] = np.asarray(scaled)[..., ::-1]
    if not spec.normalise:
        return np.clip(np.rint(canvas), 0, 255).astype(np.uint8)[np.newaxis]
    made: Array = (canvas - np.float32(spec.mean)) / np.float32(spec.std)
    return made[np.newaxis]


def _by_engine(picture: Path, spec: ProjectInput) -> Array:
    """What a sample of the calibration is made of: the engine's own reading."""
    n, h, w, c = PICTURE
    preprocess = Preprocess(
        mean=((12.0, 100.6, 7.0),),
        std=((3.0, 2.0, 58.4),),
        rgb2bgr=True,
        resize_filter=spec.filter,
        resize_fit=spec.fit,
    )
    (plan,) = preprocess.plans([TensorSpec("image", (n, c, h, w), "float32")])
    pixels = load_pixels(picture, plan, ReadingStats())
    if spec.normalise:
        made: Array = plan.normalise_pixels(pixels).transpose(0, 2, 3, 1)
        return made
    whole: Array = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)[np.newaxis]
    return whole


def test_float_inputs_and_several_samples(tmp_path: Path) -> None:
    source = np.random.default_rng(4)
    inputs = [source.random((1, 6), np.float32), source.random((1, 4, 4, 8), np.float32)]
    samples = tuple(
        Sample(tuple(each + n for each in inputs), (np.full((1, 3), n + 1, np.float32),))
        for n in range(2)
    )
    project = Project(
        "two",
        Board.of_chip("rk3566"),
        (ProjectInput("a", (1, 6), False), ProjectInput("b", (1, 4, 4, 8), True)),
        (ProjectOutput("c", (1, 3)),),
        samples,
    )
    path = compiled(project, tmp_path / "app")
    done = run(path, answer(path, tmp_path / "lib", "full"), "--save", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("normal") == 2, "float inputs are copied"
    np.testing.assert_array_equal(np.load(tmp_path / "sample1_output0.npy"), [[2, 2, 2]])


def test_build_and_run_scripts(tmp_path: Path) -> None:
    path = tmp_path / "app"
    generate(project_of(scores()), path)
    for script in ("build.sh", "run.sh"):
        well("sh", "-n", path / script)
    well(path / "build.sh", "native")
    assert (path / "install-native" / "small_model").is_file()
    for words in (
        ["build.sh", "mips"],
        ["build.sh", "arm64", "no-such-prefix-"],
        ["run.sh", "telnet"],
        ["run.sh", "adb", "--folder", "/tmp/x; reboot", "--kind", "native"],
        ["run.sh", "ssh", "-oProxyCommand=x", "--kind", "native"],
    ):
        done = command(path / words[0], *words[1:])
        assert done.returncode == 2, words
        assert done.stderr


@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
@pytest.mark.parametrize("name", ["stub", "all", "install", "CMakeFiles"])
def test_models_called_like_a_target_of_cmake_build(
    name: str, generator: str, tmp_path: Path
) -> None:
    if generator == "Ninja" and shutil.which("ninja") is None:
        pytest.skip("there is no ninja")
    path = tmp_path / "app"
    generate(replace(project_of(scores()), model=f"{name}.onnx"), path)
    well(path / "build.sh", "native", CMAKE_GENERATOR=generator)
    assert [each.name for each in (path / "install-native").iterdir()] == [name]


@pytest.mark.parametrize("name", ["data", "model"])
def test_models_called_like_a_folder_of_the_board(name: str, tmp_path: Path) -> None:
    path = tmp_path / "app"
    generate(replace(project_of(scores()), model=f"{name}.onnx"), path)
    assert f"install-$kind/model_{name}\n" in (path / "run.sh").read_text()


def over_adb(
    path: Path, program: str, *words: str | Path
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """How ``run.sh`` ends with this machine's shell and files as the board's, and adb's words."""
    generate(project_of(scores()), path)
    (path / "model" / "small_model.rknn").write_text("the model\n")
    log, tools = path.parent / "log", path.parent / "bin"
    adb = (
        f'for w in "$@"; do printf "<%s>" "$w"; done >> "{log}"\necho >> "{log}"\nshift 2\n'
        'case "$1" in shell) sh -c "$2" ;; push) cp -r "$2" "$3" ;; esac\n'
    )
    for file, lines in ((path / "install-native" / "small_model", program), (tools / "adb", adb)):
        file.parent.mkdir()
        file.write_text(f"#!/bin/sh\n{lines}")
        file.chmod(0o755)
    words = (path / "run.sh", "adb", "se rial;x", "--kind", "native", *words)
    done = command(*words, PATH=f"{tools}:{os.environ['PATH']}")
    return done, log.read_text().splitlines()


def test_run_over_adb(tmp_path: Path) -> None:
    """The words that adb is given, whatever the serial number is."""
    path = tmp_path / "my app"
    done, lines = over_adb(path, "cat model/small_model.rknn && ls data && exit 1\n")
    assert done.returncode == 1, done.stderr
    assert "the model" in done.stdout
    assert all(line.startswith("<-s><se rial;x>") for line in lines)
    assert lines[0] == "<-s><se rial;x><shell><mktemp -d /tmp/small_model.XXXXXX>"
    removed = re.fullmatch(r".*<rm -rf (/tmp/small_model\.[A-Za-z0-9]{6})>", lines[-1])
    assert removed, lines[-1]
    assert f"<push><{path}/install-native/small_model><{removed[1]}/>" in lines[2]
    assert not Path(removed[1]).exists(), "nothing stays on the board"


def test_run_over_adb_into_a_named_folder(tmp_path: Path) -> None:
    """That one is the user's and stays."""
    board = tmp_path / "board"
    done, _ = over_adb(tmp_path / "app", "exit 0\n", "--folder", board)
    assert done.returncode == 0, done.stderr
    assert (board / "model" / "small_model.rknn").read_text() == "the model\n"
