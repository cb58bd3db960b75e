"""The look at a frozen graph: no TensorFlow is imported, nothing hostile gets through."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import EngineError, SourceModelError, UnsupportedOperatorError
from engine.base.events import NullReporter
from engine.frontends.load import find_source
from engine.frontends.source import LoadOptions, SourceModel
from engine.frontends.tensorflow import inspect, load
from engine.frontends.tensorflow.graphdef import read_graph, tensor_of
from engine.frontends.tensorflow.load import FAKE_QUANT_SHARE, _difference
from engine.frontends.tensorflow.selection import SUPPORTED, fixed_shape, read_predef, refusal_of
from tests.frontends.tensorflow import wire
from tests.fuzz.mutate import mutant
from tests.safety import ends

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)
SMALL = wire.graph(
    wire.placeholder("net/input", [-1, 3]),
    wire.constant("net/weights", WEIGHTS),
    wire.binary("net/product", "MatMul", "net/input", "net/weights"),
    wire.unary("net/scores", "Softmax", "net/product"),
    wire.node("check", "Assert", ["net/scores"]),
    wire.node("init", "NoOp", ["^net/scores"]),
    wire.node("save/SaveV2", "SaveV2", ["net/weights"]),
    wire.placeholder("unused", None, "bool"),
)


def source(tmp_path: Path, data: bytes, **options: object) -> SourceModel:
    path = tmp_path / "graph.pb"
    path.write_bytes(data)
    return find_source(path, options=LoadOptions(**options))  # type: ignore[arg-type]


def test_inputs_and_outputs_that_suit_are_found(tmp_path: Path) -> None:
    summary = inspect(source(tmp_path, SMALL))
    assert summary.candidates == (("net/input:0",), ("net/scores:0",))
    assert [(t.name, t.shape, t.dtype) for t in summary.inputs] == [
        ("net/input:0", (-1, 3), "float32")
    ]
    assert summary.parameters == 12
    assert summary.weights_bytes == 48
    assert summary.operators["MatMul"] == 1
    assert summary.version[0][:2] == ("GraphDef producer", "1087")
    assert not summary.findings


def test_a_decoder_of_pictures_is_cut_behind(tmp_path: Path) -> None:
    data = wire.graph(
        wire.node("contents", "Placeholder", dtype=wire.number(6, 7)),
        wire.node("DecodeJpeg", "DecodeJpeg", ["contents"]),
        wire.node("Cast", "Cast", ["DecodeJpeg"], DstT=wire.kind("float32")),
        wire.unary("cond/switch_t", "Identity", "flag"),
        wire.node("flag", "Switch", ["Cast", "Cast"]),
        wire.unary("out", "Relu", "Cast"),
    )
    summary = inspect(source(tmp_path, data))
    assert summary.candidates == (("DecodeJpeg:0",), ("out:0",))
    assert not summary.refused


def test_layers_tell_their_attributes(tmp_path: Path) -> None:
    layers = {layer.name: layer for layer in inspect(source(tmp_path, SMALL)).layers}
    assert layers["net/weights"].shape == (3, 4)
    assert dict(layers["net/input"].attributes) == {"dtype": "float32", "shape": "[-1, 3]"}
    assert layers["net/product"].inputs == ("net/input", "net/weights")


def test_looking_imports_no_tensorflow(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    path.write_bytes(SMALL)
    code = (
        "import sys; from engine.frontends.load import find_source;"
        "from engine.frontends.load import inspect_source;"
        f"inspect_source(find_source({str(path)!r})); print('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("option", ["inputs", "outputs"])
def test_wrong_names_get_the_nearest(tmp_path: Path, option: str) -> None:
    model = source(tmp_path, SMALL, **{option: ("net/inptu",)})
    with pytest.raises(SourceModelError, match=option) as caught:
        load(model, NullReporter())
    assert "'net/input'" in caught.value.remedy
    assert [f.severity for f in inspect(model).findings] == ["error"]


def test_refused_operators_are_known_before_anything_runs(tmp_path: Path) -> None:
    bad = wire.graph(
        wire.placeholder("x", [1, 3]),
        wire.node("secret", "ReadFile", []),
        wire.binary("y", "Betainc", "x", "secret"),
    )
    summary = inspect(source(tmp_path, bad))
    assert [(op, name) for op, name, _ in summary.refused] == [
        ("ReadFile", "secret"),
        ("Betainc", "y"),
    ]
    with pytest.raises(UnsupportedOperatorError, match=r"'secret' is a ReadFile \(and Betainc\)"):
        load(source(tmp_path, bad), NullReporter())
    # cut away, it is no longer looked at
    assert not inspect(source(tmp_path, bad, outputs=("x",))).refused


REFUSED = """
ReadFile WriteFile PyFunc EagerPyFunc RestoreV2 SaveV2 HashTableV2 RandomStandardNormal DecodeJpeg
QuantizedConv2D ReadVariableOp _FusedConv2D IteratorGetNext Betainc Cumprod Digamma Dilation2D
Lgamma
"""


@pytest.mark.parametrize("op", REFUSED.split())
def test_operators_that_do_more_than_compute_are_refused(op: str) -> None:
    assert op not in SUPPORTED
    assert "Cut the graph" in refusal_of(op, set())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "g.pb"
    path.write_bytes(data)
    with contextlib.suppress(SourceModelError):  # any other exception fails
        read_graph(path)


@pytest.mark.parametrize("count", [120, pytest.param(2000, marks=pytest.mark.long)])
def test_mutants_are_looked_at_or_refused(tmp_path: Path, count: int, zoo: Path) -> None:
    originals = [SMALL, (zoo / "tensorflow" / "keras_lstm.pb").read_bytes()]
    for number in range(count):
        with ends(), contextlib.suppress(EngineError):
            inspect(source(tmp_path, mutant(originals[number % 2], number)))


def test_truncation_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match="not a whole TensorFlow graph"):
        inspect(source(tmp_path, SMALL[:-30]))


def test_two_nodes_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = wire.graph(wire.placeholder("x", [1]), wire.placeholder("x", [2]))
    with pytest.raises(SourceModelError, match="two nodes are called 'x'"):
        inspect(source(tmp_path, twice))


@pytest.mark.parametrize(
    ("name", "tensor"),
    [("x", ("x", 0)), ("x:0", ("x", 0)), ("a/b:3", ("a/b", 3)), ("odd:name", ("odd:name", 0))],
)
def test_names_of_nodes_and_tensors_are_the_same(name: str, tensor: tuple[str, int]) -> None:
    assert tensor_of(name) == tensor


@pytest.mark.parametrize(
    ("known", "given_sizes", "nchw", "expected"),
    [
        ([None, 300, 300, 3], [300, 300, 3], False, (1, 300, 300, 3)),
        ([None, 300, 300, 3], [2, 300, 300, 3], False, (2, 300, 300, 3)),
        ([8, 300, 300, 3], [300, 300, 3], False, (8, 300, 300, 3)),
        (None, [300, 300, 3], False, (1, 300, 300, 3)),
        (None, [1, 512], False, (1, 512)),
        ([None, None, None, 3], [1, 3, 40, 50], True, (1, 40, 50, 3)),
        ([None, None, None, 3], [1, 40, 50, 3], True, (1, 40, 50, 3)),
        ([None, 12], None, False, (1, 12)),
    ],
)
def test_sizes_with_and_without_batch(
    known: list[int | None] | None,
    given_sizes: list[int] | None,
    nchw: bool,
    expected: tuple[int, ...],
) -> None:
    assert fixed_shape("x:0", known, given_sizes, nchw=nchw, findings=[]) == expected


@pytest.mark.parametrize(
    ("known", "given_sizes", "words"),
    [
        ([None, None, 3], None, "is open"),
        (None, None, "no shape at all"),
        ([None, 4, 3], [7], "3 axes"),
        ([None, 4], [1, 0], "would have the size"),
        ([None, 4], [1 << 20, 1 << 20], "would have the size"),
    ],
)
def test_sizes_that_do_not_fit(
    known: list[int | None] | None, given_sizes: list[int] | None, words: str
) -> None:
    with pytest.raises(SourceModelError, match=words):
        fixed_shape("x:0", known, given_sizes, nchw=False, findings=[])


def test_predefined_constants_are_read_by_node_name(tmp_path: Path) -> None:
    path = tmp_path / "prd.npz"
    np.savez(path, **{"phase#train": np.array(False), "keep": np.float32(1)})  # type: ignore[arg-type]
    found = read_predef(path)
    assert {k: v.tolist() for k, v in found.items()} == {"phase/train": False, "keep": 1.0}


def test_predefined_constants_are_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "prd.npz"
    np.savez(path, x=np.array([print], dtype=object))
    with pytest.raises(SourceModelError, match="Python objects"):
        read_predef(path)


def test_a_bomb_of_predefined_constants_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "prd.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\0" * (65 << 20))
    with pytest.raises(SourceModelError, match="holds more than"):
        read_predef(path)
    header = np.lib.format.magic(1, 0) + b"\x76\0"
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824, 64), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header + text.ljust(117) + b"\n")
    with pytest.raises(SourceModelError, match="is cut"):
        read_predef(path)
    path.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(SourceModelError, match="not a file of predefined"):
        read_predef(path)


@pytest.mark.parametrize(
    ("calls_of", "culprit"),
    [({"f": ["f"]}, "f"), ({"a": ["z"], "z": ["y", "x"], "y": ["z"], "x": []}, "[yz]")],
    ids=["itself", "through others"],
)
def test_a_function_that_calls_itself_is_refused(
    calls_of: dict[str, list[str]], culprit: str, tmp_path: Path
) -> None:
    """TensorFlow's process would end by SIGSEGV."""
    library = b"".join(
        wire.message(
            1,
            wire.message(1, wire.message(1, name))
            # node_def = 3 of a function, and a node has the same fields as one of the graph
            + b"".join(wire.message(3, node_body(f"n{at}", op)) for at, op in enumerate(called)),
        )
        for name, called in calls_of.items()
    )
    first = next(iter(calls_of))
    graph = wire.graph(wire.placeholder("x", [4]), wire.node("y", first, ["x"]))
    model = source(tmp_path, graph + wire.message(2, library))
    with pytest.raises(SourceModelError, match=f"function '{culprit}' of the graph calls itself"):
        load(model, NullReporter())


def node_body(name: str, op: str) -> bytes:
    """A NodeDef without its tag."""
    return wire.message(1, name) + wire.message(2, op)


def test_the_error_of_a_quantized_output_is_measured_as_everywhere() -> None:
    wanted = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    found = wanted * np.float32(1 + FAKE_QUANT_SHARE / 2)
    share = _difference("o", wanted, found, quantized=True)
    assert share == pytest.approx(FAKE_QUANT_SHARE / 2, rel=1e-4)
    for far in (wanted * 1.1, np.full_like(wanted, np.nan)):
        with pytest.raises(SourceModelError, match="of its energy"):
            _difference("o", wanted, far.astype(np.float32), quantized=True)
