"""The boundary around content, and errors that tell of the machine: never a mistake of ours."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from engine.accuracy.labelled import read_labelled
from engine.base.content import ContentError, reading
from engine.base.errors import (
    ContainerError,
    DatasetError,
    EngineError,
    RecipeError,
    UsageError,
)
from engine.dataset import Preprocess, read_dataset, samples
from engine.frontends.sniff import sniff
from engine.frontends.tensorflow.selection import read_predef
from engine.graph.ir import TensorSpec
from engine.graph.ir.arrays import read_npy
from engine.recipe import Recipe, load_recipe, read_recipe
from engine.services.datasets import check
from rknntui.demo import demo_folder


def npy(head: str, data: bytes = b"") -> bytes:
    """An npy file of version 1 with any head."""
    text = head.encode("latin-1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


GOOD = "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 4), }"
HEADS = {
    "no end": GOOD[:-3],
    "a bracket": GOOD.replace("(", "(("),
    "an open text": GOOD.replace("'}", "").replace(", }", ", 'a"),
    "nested": "(" * 400,
    "nested minus": GOOD.replace("(3,", f"({'-' * 9000}3,"),
    "huge": GOOD.replace("(3,", f"({1 << 60},"),
    "negative": GOOD.replace("(3,", "(-3,"),
    "long": GOOD.replace("(3,", f"({'9' * 4000},"),
    "a truth": GOOD.replace("(3,", "(True,"),
    "objects": GOOD.replace("|u1", "|O"),
    "size 0": GOOD.replace("|u1", "|V0").replace("3,", "-1,"),
    "no type": GOOD.replace("'|u1'", "[('a', 'b', 'c', 'd')]"),
    "a text": GOOD.replace("|u1", "<U0"),
    "a tuple": GOOD.replace("'|u1'", "('|u1', (2, 2))"),
}


@pytest.mark.parametrize("what", HEADS)
def test_a_damaged_head_of_an_array_is_refused_wherever_arrays_are_read(
    what: str, tmp_path: Path
) -> None:
    damaged = npy(HEADS[what], bytes(48))
    with pytest.raises(ValueError, match=r"."):
        read_npy(damaged)
    archive = tmp_path / "a.npz"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("samples.npy", damaged)
        made.writestr("labels.npy", damaged)
    with pytest.raises(DatasetError, match="not a readable npz"):
        read_labelled(archive)
    with pytest.raises(EngineError, match="not a file of predefined constants"):
        read_predef(archive)
    (tmp_path / "a.npy").write_bytes(damaged)
    (tmp_path / "d.txt").write_text("a.npy\n")
    inputs = (TensorSpec("x", (3, 4, 4), "float32"),)
    with pytest.raises(DatasetError):
        list(samples(read_dataset(tmp_path / "d.txt"), inputs, plain()))


def plain() -> Preprocess:
    return Preprocess.from_recipe(Recipe.from_values({}))


def test_a_head_that_is_whole_is_read() -> None:
    assert read_npy(npy(GOOD, bytes(48))).shape == (3, 4, 4)
    with pytest.raises(ValueError, match="cut"):
        read_npy(npy(GOOD, bytes(47)))


@pytest.mark.parametrize("value", [1e308, -1e308, 1e39])
def test_float64_beyond_the_input_is_told_with_its_line(value: float, tmp_path: Path) -> None:
    np.save(tmp_path / "big.npy", np.full((1, 1, 8, 8), value))
    listed = tmp_path / "d.txt"
    listed.write_text("big.npy\n")
    inputs = (TensorSpec("image", (1, 1, 8, 8), "float32"),)
    with pytest.raises(DatasetError, match=r"d.txt line 1: .*cannot hold"):
        list(samples(read_dataset(listed), inputs, plain()))
    model = str(demo_folder() / "digits_demo.onnx")
    found = check({"recipe": {"model": model, "dataset": str(listed)}})
    json.dumps(found, allow_nan=False)


RECIPES = {
    "a section, then a number": b"version: 1\npreprocess: {mean_values: [[1]]}\npreprocess: 3\n",
    "a number, then a section": b"version: 1\npreprocess: 3\npreprocess: {mean_values: [[1]]}\n",
    "a layer mapping, then text": b"version: 1\nquantization:\n  quantized_layers: {a: float16}\n"
    b"  quantized_layers: x\n",
    "text, then a layer mapping": b"version: 1\nquantization:\n  quantized_layers: x\n"
    b"  quantized_layers: {a: float16}\n",
}


@pytest.mark.parametrize("what", RECIPES)
def test_a_key_given_twice_is_a_problem_with_its_line(what: str, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(RECIPES[what])
    _, problems = read_recipe(path)
    assert any("given twice" in problem.message for problem in problems)
    with pytest.raises(RecipeError):
        load_recipe(path)


def test_json_nested_deeply_is_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_bytes(b"[" * 4000 + b"]" * 4000)
    assert sniff(path).format in ("text file", "JSON file")


def test_whatever_a_parser_raises_is_the_contents_fault() -> None:
    class OddError(Exception):
        pass

    def refuse(why: str) -> EngineError:
        return ContainerError(f"damaged: {why}")

    for error in (OddError("x"), RecursionError(), SystemError("y"), OSError(5, "z")):
        with pytest.raises(ContainerError, match="damaged"), reading(refuse):
            raise error
    with pytest.raises(ContentError, match="OddError x"), reading():
        raise OddError("x")
    with pytest.raises(UsageError), reading(refuse):
        raise UsageError("ours")
    with pytest.raises(MemoryError), reading(refuse):
        raise MemoryError
    with pytest.raises(OSError, match="z"), reading():
        raise OSError(5, "z")


@pytest.mark.parametrize("megabytes", [196, 200, 300, 400])
def test_a_limit_of_memory_is_no_mistake_of_this_program(megabytes: int, tmp_path: Path) -> None:
    model = demo_folder() / "digits_demo.onnx"
    words = [sys.executable, "-m", "rknntui", "build", str(model), "--json"]
    words += ["--dataset", str(demo_folder() / "dataset.txt"), "-o", str(tmp_path / "o.rknn")]
    script = f'ulimit -v {megabytes * 1024} && exec "$@"'
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words],
        check=False, capture_output=True, cwd=root, env=env, timeout=120,
    )  # fmt: skip
    assert done.returncode in (0, 12), done.stderr[-500:]


def test_a_container_made_anew_around_a_damaged_graph_is_refused(tmp_path: Path) -> None:
    from engine.base.events import NullReporter
    from engine.container.blob import pack, unpack
    from engine.services.build import simulate

    sections, layers = whole_container()
    picture = next((demo_folder() / "calibration").glob("*.png"))
    path = tmp_path / "m.rknn"
    seen = 0
    for number in range(60):
        damaged = dict(sections)
        at = 40 + number * (len(sections["graph"]) - 80) // 60
        graph = bytearray(sections["graph"])
        graph[at] ^= 1 << number % 8
        damaged["graph"] = bytes(graph)
        content = pack(damaged, layers)
        assert unpack(content, "x").sections.keys() == damaged.keys()  # its checksums hold
        path.write_bytes(content)
        try:
            simulate({"path": str(path), "inputs": [str(picture)]}, NullReporter())
        except EngineError:
            seen += 1
    assert seen > 10


def whole_container() -> tuple[dict[str, bytes], bytes]:
    from engine.base.events import NullReporter
    from engine.container.blob import unpack
    from engine.pipeline.build import build
    from engine.services.state import get_pipeline, recipe_of
    from rknntui.demo import demo_recipe

    frame = unpack(build(get_pipeline(recipe_of(demo_recipe()), NullReporter())).container, "x")
    return {name: bytes(part) for name, part in frame.sections.items()}, bytes(frame.layers)


def test_a_data_file_of_step_1_with_a_damaged_member_is_refused(tmp_path: Path) -> None:
    from engine.hybrid.data_file import Facts, HybridData, read_data, write_data

    facts = Facts(generation=2, recipe={}, model="0" * 64)
    samples_ = ({"x": np.zeros((1, 3), np.float32)},)
    whole = write_data(HybridData(facts, {"a": b"b"}, samples_))
    path = tmp_path / "m.data"
    path.write_bytes(whole)
    assert len(read_data(path).samples) == 1
    for head in HEADS.values():
        stream = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(stream, "w") as new:
            for name in old.namelist():
                new.writestr(name, npy(head) if name.endswith(".npy") else old.read(name))
        path.write_bytes(stream.getvalue())
        with pytest.raises(RecipeError, match=r"no \.data file"):
            read_data(path)


@pytest.mark.parametrize("place", [b"Gemm", b"logits", b"/head/"])
def test_a_name_in_a_graph_that_is_no_text_is_refused(place: bytes) -> None:
    from engine.graph.ir import Graph

    whole = (demo_folder() / "digits_demo.onnx").read_bytes()
    if place not in whole:
        pytest.skip("the demo model has no such name")
    with pytest.raises(EngineError):
        Graph.from_bytes(whole.replace(place, b"\xff" * len(place)))
