"""Variables of a TFLite file become inputs and outputs; a stream is held to the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import UnsupportedOperatorError
from engine.frontends.load import find_source, inspect_source
from engine.frontends.source import LoadOptions
from engine.graph.execute import Session
from tests.frontends.tflite.tflite_models import (
    In,
    Interpreter,
    OpResolverType,
    Writer,
    const,
    load_bytes,
)

_SHAPE = (1, 4)
_STEP = {"scale": 0.05, "zero": -3}
_RNG = np.random.default_rng(8)


def _handle(writer: Writer, name: str) -> int:
    handle = In((), "resource", name=f"{name}/handle")
    return writer.op("VAR_HANDLE", [], [handle], container="", sharedName=name)


def _begin(writer: Writer, first: dict[str, In]) -> None:
    """The graph that sets variables before the first run."""
    writer.subgraph()
    for name, value in first.items():
        writer.op("ASSIGN_VARIABLE", [_handle(writer, name), value], [])


def _stream(kind: str, first: dict[str, In]) -> bytes:
    """``z = x + a; a = z; b = b + a`` and b is read again behind it: an output."""
    writer = Writer()
    quant = _STEP if kind == "int8" else {}

    def give(op: str, name: str, *inputs: int) -> int:
        return writer.op(op, inputs, [In(_SHAPE, kind, name=name, **quant)])

    x = writer.tensor(In(_SHAPE, kind, name="x", **quant))
    writer.op("CALL_ONCE", [], [], initSubgraphIndex=1)
    a, b = _handle(writer, "a"), _handle(writer, "b")
    old_a, old_b = give("READ_VARIABLE", "a/old", a), give("READ_VARIABLE", "b/old", b)
    z = give("ADD", "z", x, old_a)
    writer.op("ASSIGN_VARIABLE", [a, z], [])
    writer.op("ASSIGN_VARIABLE", [b, give("ADD", "total", old_b, z)], [])
    writer.ends([x], [give("MUL", "y", give("READ_VARIABLE", "b/again", b), x)])
    _begin(writer, first)
    return writer.data()


@pytest.mark.parametrize(("kind", "firsts"), [("float32", (0.0, 2.5)), ("int8", (-3, 40))])
def test_a_stream_is_that_of_the_interpreter(
    kind: str, firsts: tuple[float, float], tmp_path: Path
) -> None:
    quant = _STEP if kind == "int8" else {}
    first = {
        name: const(np.full(_SHAPE, value), kind, **quant)
        for name, value in zip("ab", firsts, strict=True)
    }
    data = _stream(kind, first)
    loaded = load_bytes(data, tmp_path)
    assert [spec.name for spec in loaded.graph.inputs] == ["x", "a", "b"]
    assert [spec.name for spec in loaded.graph.outputs] == ["y", "a/next", "b/next"]
    told = [each for each in loaded.findings if each.code == "state-inputs"]
    for each, name, value in zip(told, "ab", firsts, strict=True):
        assert each.what.endswith(f": {name}.")
        assert each.remedy.startswith(f"Fill them with {value:g} in the first run.")
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=plain)
    interpreter.allocate_tensors()
    (entry,), (out,) = interpreter.get_input_details(), interpreter.get_output_details()
    session = Session(loaded.graph)
    state = {name: first[name].data for name in "ab"}
    seen = set()
    for _ in range(12):
        x = _RNG.normal(size=_SHAPE)
        x = (x * 20).astype(np.int8) if kind == "int8" else x.astype(np.float32)
        interpreter.set_tensor(entry["index"], x)
        interpreter.invoke()
        wanted = interpreter.get_tensor(out["index"])
        found = session.run({"x": x, **state})
        np.testing.assert_allclose(found["y"], wanted, atol=0 if kind == "int8" else 1e-5)
        state = {name: found[f"{name}/next"] for name in state}
        seen.update(wanted.ravel().tolist())
    assert len(seen) > 12


def test_a_first_value_of_several_numbers_is_refused(tmp_path: Path) -> None:
    first = {"a": const(np.arange(4.0).reshape(_SHAPE)), "b": const(np.zeros(_SHAPE))}
    with pytest.raises(UnsupportedOperatorError, match="VAR_HANDLE"):
        load_bytes(_stream("float32", first), tmp_path)


def test_inspect_shows_the_states(tmp_path: Path) -> None:
    first = dict.fromkeys("ab", const(np.zeros(_SHAPE)))
    path = tmp_path / "model.tflite"
    path.write_bytes(_stream("float32", first))
    found = inspect_source(find_source(path, options=LoadOptions()))
    assert [each.name for each in found.inputs] == ["x", "a", "b"]
    assert not [each for each in found.findings if each.severity == "error"]
    assert not any("VARIABLE" in layer.op for layer in found.layers)
