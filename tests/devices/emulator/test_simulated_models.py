"""What an emulated board makes of containers of every kind, without a board."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.base.errors import ContainerError, DatasetError, DeviceError, UsageError
from engine.base.files import sha256_of
from engine.container import read_container, write_container
from engine.graph.ir import Graph
from rknntui_emulator.boards import BOARDS
from rknntui_emulator.runtime.answers import TensorFacts
from rknntui_emulator.simulated import desk as desk_module
from rknntui_emulator.simulated.bend import read_bend
from rknntui_emulator.simulated.desk import AnswerDesk
from rknntui_emulator.simulated.model import SimulatedBoardModel, read_model
from rknntui_emulator.simulated.tensors import GivenInput
from tests.container.build import content, model
from tests.devices.demo_container import (
    LAYER,
    demo_container,
    digits,
    simulated,
    with_all_layers,
)
from tests.devices.waiting import until
from tests.safety import ends

NUMPY = {
    "FLOAT32": "<f4", "FLOAT16": "<f2", "INT8": "i1", "UINT8": "u1", "INT16": "<i2", "INT64": "<i8",
    "BOOL": "?",
}  # fmt: skip


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_container(tmp_path_factory.mktemp("demo") / "demo.rknn", "rk3588")


def given(array: np.ndarray, layout: str = "NHWC") -> GivenInput:
    names = {np.dtype(dtype): name for name, dtype in NUMPY.items()}
    return GivenInput(np.ascontiguousarray(array).tobytes(), names[array.dtype], layout, False)


def floats(facts: TensorFacts, data: bytes) -> np.ndarray:
    """What ``rknn_outputs_get`` gives where floats are wanted, in the model's order."""
    array: np.ndarray = np.frombuffer(data, NUMPY[facts.dtype]).reshape(facts.dims)
    if facts.quantization == "AFFINE":
        steps = (array.astype(np.int64) - facts.zero_point).astype(np.float32)
        array = steps * np.float32(facts.scale)
    elif facts.quantization == "DFP":
        array = np.ldexp(array.astype(np.float32), -facts.fl)
    return array.transpose(0, 3, 1, 2) if facts.layout == "NHWC" else array


DTYPES = [
    ("rk3588", "w8a8", "INT8", "AFFINE"),
    ("rk3562", "w8a16", "FLOAT16", "NONE"),
    ("rk3576", "w4a16", "FLOAT16", "NONE"),
    ("rv1106", "w16a16i", "INT16", "AFFINE"),
    ("rv1106", "w16a16i_dfp", "INT16", "DFP"),
    ("rk1808", "asymmetric_quantized-u8", "UINT8", "AFFINE"),
    ("rk1808", "dynamic_fixed_point-8", "INT8", "DFP"),
    ("rk1808", "dynamic_fixed_point-16", "INT16", "DFP"),
]


@pytest.mark.long
@pytest.mark.parametrize(("chip", "dtype", "kind", "quantization"), DTYPES)
def test_every_layer_in_every_dtype_equals_the_simulator_and_can_be_bent(
    tmp_path: Path, chip: str, dtype: str, kind: str, quantization: str
) -> None:
    board = BOARDS[chip]
    container = tmp_path / "demo.rknn"
    demo_container(container, chip, generation=board.generation, quantized_dtype=dtype)
    container = with_all_layers(container, tmp_path / "all.rknn")
    found = read_model(container, board)
    facts = found.answers.outputs
    assert {(each.dtype, each.quantization) for each in facts} == {(kind, quantization)}
    last = "NHWC" if chip == "rv1106" else "NCHW"
    assert {each.layout for each in facts} == {last, "UNDEFINED"}
    (image,) = digits(1)
    for array, layout in (
        (image, "NHWC"),
        (image.astype(np.float32), "NHWC"),
        (image.transpose(0, 3, 1, 2), "NCHW"),
    ):
        expected = simulated(
            container, array, generation=board.generation, data_format=layout.lower()
        )
        exact = found.run([given(array, layout)])
        for each, data in zip(facts, exact, strict=True):
            np.testing.assert_array_equal(floats(each, data), expected[each.name])
    layers = read_container(container).layers
    assert layers is not None
    before: set[str] = set()
    for layer in layers.layers:
        bent = found.run([given(image)], f"{layer.id}:7")
        changed = {each.name for each, a, b in zip(facts, exact, bent, strict=True) if a != b}
        assert layer.tensor in changed
        assert not changed & before
        before.add(layer.tensor)
    assert found.run([given(image)]) == exact


def test_times_follow_from_multiplications_and_bytes(demo: Path) -> None:
    """RK3588: 2 TOPS int8 of a core, of which half is reached, and 20 GB/s; 8 us for each layer."""
    rows = read_model(demo, BOARDS["rk3588"]).answers.layers
    convolutions = [row for row in rows if row.op.startswith("Conv")]
    assert len(convolutions) > 3
    for row in convolutions:
        size = sum(math.prod(shape) for shape in (*row.inputs, *row.outputs))
        macs = math.prod(row.outputs[0]) * math.prod(row.inputs[1][1:])
        times = size / 20e3, macs / 0.5e6
        assert row.microseconds == 8 + math.ceil(max(times))
        assert row.traffic == math.ceil(size / 1024) * 1024
        cycles = (row.ddr_cycles, row.npu_cycles, row.total_cycles)
        assert cycles == tuple(math.ceil(time * 1000) for time in (*times, max(times)))


def test_names_of_layers_that_are_bent(demo: Path) -> None:
    layers = read_container(demo).layers
    assert layers is not None
    assert read_bend(LAYER, layers).strength == 16
    assert read_bend(f"{LAYER}:3", layers).layer.id == layers.named(LAYER).id
    with pytest.raises(UsageError, match="no layer 'Gem'") as refused:
        read_bend("Gem", layers)
    assert "Its layers are /stem/stem.0/Conv, " in refused.value.remedy
    with pytest.raises(UsageError, match="no layer") as refused:
        read_bend(LAYER.replace("pointwise", "pointwize"), layers)
    assert LAYER in refused.value.remedy
    with pytest.raises(UsageError, match="no layer 'Gem'"):
        read_bend("Gem:3", layers)
    for strength in ("0", "99999"):
        with pytest.raises(UsageError, match="cannot be bent by"):
            read_bend(f"{LAYER}:{strength}", layers)


def odd_graph() -> Graph:
    """Two inputs, of which one is a picture of four channels, and outputs of several types."""
    value, tensors = helper.make_tensor_value_info, onnx.TensorProto
    nodes = [
        helper.make_node("Add", ["picture", "other"], ["sum"], "add"),
        helper.make_node("ArgMax", ["sum"], ["best"], "best", axis=1, keepdims=0),
        helper.make_node("ReduceMax", ["sum"], ["most"], "most", keepdims=0),
        helper.make_node("Greater", ["picture", "other"], ["larger"], "larger"),
    ]
    graph = helper.make_graph(
        nodes,
        "odd",
        [value("picture", tensors.FLOAT, [1, 4, 2, 5]), value("other", tensors.FLOAT, [1])],
        [
            value("sum", tensors.FLOAT, [1, 4, 2, 5]),
            value("best", tensors.INT64, [1, 2, 5]),
            value("most", tensors.FLOAT, []),
            value("larger", tensors.BOOL, [1, 4, 2, 5]),
        ],
    )
    return Graph.from_proto(model(graph))


def odd_model(tmp_path: Path, graph: Graph) -> SimulatedBoardModel:
    path = tmp_path / "odd.rknn"
    bare = {"table": None, "layers": None, "target_platform": None, "recipe": {"version": 1}}
    path.write_bytes(write_container(content(graph=graph, quantized=False, **bare)))
    return read_model(path, BOARDS["rk3588"])


def test_inputs_and_outputs_of_several_kinds(tmp_path: Path) -> None:
    found = odd_model(tmp_path, odd_graph())
    answers = found.answers
    assert [(each.dims, each.layout) for each in answers.inputs] == [
        ((1, 2, 5, 4), "NHWC"),
        ((1,), "UNDEFINED"),
    ]
    assert [(each.dims, each.layout, each.dtype) for each in answers.outputs] == [
        ((1, 4, 2, 5), "NCHW", "FLOAT32"),
        ((1, 2, 5), "UNDEFINED", "INT64"),
        ((1,), "UNDEFINED", "FLOAT32"),
        ((1, 4, 2, 5), "NCHW", "BOOL"),
    ]
    assert answers.platform == ""
    picture = np.arange(40, dtype=np.float32).reshape(1, 2, 5, 4)
    other = np.array([5], np.float32)
    outputs = found.run([given(picture), given(other, "UNDEFINED")])
    total, best, most, larger = (
        floats(each, data) for each, data in zip(answers.outputs, outputs, strict=True)
    )
    np.testing.assert_array_equal(total, picture.transpose(0, 3, 1, 2) + 5)
    assert (best == 3).all()
    assert most == 44
    np.testing.assert_array_equal(larger, picture.transpose(0, 3, 1, 2) > 5)
    bent = found.run([given(picture), given(other, "UNDEFINED")], "best:2")
    assert bent[0] == outputs[0]
    assert np.frombuffer(bent[1], "<i8").tolist() == [5, 1] * 5
    with pytest.raises(UsageError, match="no values that can be bent"):
        found.run([given(picture), given(other)], "larger")
    with pytest.raises(DeviceError, match="has 2 inputs"):
        found.run([given(picture)])
    with pytest.raises(DeviceError, match="are no FLOAT32 of 1x2x5x4"):
        found.run([given(picture[:, :1]), given(other)])
    with pytest.raises(DeviceError, match="are no INT4"):
        found.run([replace(given(picture), dtype="INT4"), given(other)])
    with pytest.raises(DatasetError, match="not finite"):
        found.run([given(picture * np.float32(np.nan)), given(other)])


def test_what_no_library_could_describe_is_refused(tmp_path: Path) -> None:
    value, tensors = helper.make_tensor_value_info, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["places"], "places")],
        "open",
        [value("x", tensors.FLOAT, [4])],
        [value("places", tensors.INT64, [1, None])],
    )
    with pytest.raises(DeviceError, match="places is int64 of 1x"):
        odd_model(tmp_path, Graph.from_proto(model(graph)))
    with pytest.raises(ContainerError, match="could not be read"):
        read_model(tmp_path / "missing.rknn", BOARDS["rk3588"])


# -- the desk


class Library:
    """The other side of a desk, as a stand-in library writes it."""

    def __init__(self, desk: AnswerDesk) -> None:
        self.folder = desk.folder
        self._numbers = itertools.count()

    def ask(self, request: bytes) -> str:
        """The answer to a request: empty, or why there is none."""
        place = self.folder / "asked" / f"{os.getpid()}-{next(self._numbers)}"
        place.with_suffix(".part").write_bytes(request)
        place.with_suffix(".part").rename(place.with_suffix(".ask"))
        done = place.with_suffix(".done")
        until(done.exists, "an answer")
        said = done.read_text()
        done.unlink()
        return said

    def open(self, container: Path) -> str:
        line = f"model\t{sha256_of(container)}\t{container}\n"
        return self.ask(b"rknntui ask 1\n" + line.encode() + b"data\n")

    def run(self, container: Path, array: np.ndarray, number: int = 0) -> str:
        name = f"{'0' * 32}-{number:032x}.result"
        lines = f"run\t{sha256_of(container)}\t{name}\t\ninput\tUINT8\tNHWC\t0\t{array.nbytes}\n"
        return self.ask(b"rknntui ask 1\n" + lines.encode() + b"data\n" + array.tobytes())


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AnswerDesk]:
    with ends(), closing(AnswerDesk(tmp_path / "answers", BOARDS["rk3588"], print)) as made:
        yield made


DIGEST = b"0" * 64
BROKEN = [
    b"",
    b"rknntui ask 2\ndata\n",
    b"rknntui ask 1\n",
    b"rknntui ask 1\ndata\n",
    b"rknntui ask 1\nmodel\t" + DIGEST + b"\ndata\n",
    b"rknntui ask 1\nmodel\t../../x\t/etc/passwd\ndata\n",
    b"rknntui ask 1\nmodel\t" + DIGEST + b"\t/etc/passwd\ndata\n",
    b"rknntui ask 1\nmodel\t" + DIGEST + b"\t/no/such/file\ndata\n",
    b"rknntui ask 1\nmodel\t" + DIGEST + b"\t/dev/zero\ndata\n",
    b"rknntui ask 1\nrun\t" + DIGEST + b"\t../x.result\t\ndata\n",
    b"rknntui ask 1\nrun\t" + DIGEST + b"\t" + b"0" * 32 + b"-" + b"0" * 32 + b".result\t\ndata\n",
    b"rknntui ask 1\n" + b"x" * 10_000 + b"\ndata\n",
    b"rknntui ask 1\n" + b"input\n" * 5_000 + b"data\n",
    b"rknntui ask 1\nrun\t"
    + DIGEST
    + b"\t"
    + b"0" * 32
    + b"-"
    + b"0" * 32
    + b".result\t\ninput\tUINT8\tNHWC\t0\t9999999999\ndata\n",
]


def test_what_is_no_request_is_refused_and_the_next_is_answered(
    desk: AnswerDesk, demo: Path
) -> None:
    library = Library(desk)
    for request in BROKEN:
        assert library.ask(request), request[:80]
    line = b"model\t" + DIGEST + b"\t" + bytes(demo) + b"\n"
    assert "changed while it was loaded" in library.ask(b"rknntui ask 1\n" + line + b"data\n")
    assert library.open(demo) == ""
    assert (desk.folder / f"{sha256_of(demo)}.answers").is_file()
    (image,) = digits(1)
    assert library.run(demo, image) == ""
    assert "are no UINT8 of 1x8x8x1" in library.run(demo, image[:, :4])
    assert not list(desk.folder.glob("*.part"))


def test_only_so_many_models_and_results_are_kept(
    desk: AnswerDesk, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "_MOST_RESULTS", 3)
    monkeypatch.setattr(desk_module, "_MOST_MODELS", 2)
    library = Library(desk)
    assert library.open(demo) == ""
    for number, image in enumerate(digits(5)):
        assert library.run(demo, image, number) == ""
    until(lambda: len(list(desk.folder.glob("*.result"))) == 3, "fewer results")
    assert (desk.folder / f"{'0' * 32}-{4:032x}.result").is_file()
    found = read_container(demo)
    for number in range(3):
        other = tmp_path / f"{number}.rknn"
        other.write_bytes(write_container(replace(found, custom_string=str(number))))
        assert library.open(other) == ""
    until(lambda: len(list(desk.folder.glob("*.rknn"))) == 2, "fewer models")
    until(lambda: len(list(desk.folder.glob("*.answers"))) == 2, "fewer answers")
    assert "has the model no more" in library.run(demo, digits(1)[0])


def test_one_answers_in_a_folder(desk: AnswerDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "_LOCK_SECONDS", 0.1)
    with pytest.raises(DeviceError, match="Another emulator"):
        AnswerDesk(desk.folder, BOARDS["rk3588"], print)


def test_many_ask_at_once(desk: AnswerDesk, demo: Path) -> None:
    def ask(number: int) -> tuple[str, str]:
        library = Library(desk)
        library._numbers = itertools.count(1000 * number)
        return library.open(demo), library.run(demo, digits(1)[0])

    with ThreadPoolExecutor(4) as askers:
        assert list(askers.map(ask, range(4))) == [("", "")] * 4


def test_the_emulator_starts_without_the_rooms_of_graphs() -> None:
    code = (
        "import sys, engine, rknntui_emulator.emulator; engine.emulate; "
        "print([n for n in ('numpy', 'onnx', 'onnxruntime', 'onnx_ir') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
