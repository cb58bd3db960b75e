"""Every rule: where it fires, where it must not, and that the numbers stay."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from engine.graph.passes import optimise
from tests.graph.models import model, nodes_of
from tests.graph.passes.support import furthest, operators, random_feeds, run


def f32(*dims, low=0.5, high=1.5, seed=1):
    return np.random.default_rng(seed).uniform(low, high, dims).astype(np.float32)


BN = {"s": f32(4, seed=2), "b": f32(4, seed=3), "m": f32(4, seed=4), "v": f32(4, seed=5)}
X = {"x": (1, 4, 6, 6)}


@dataclass
class Case:
    """Nodes in ONNX's own notation, and what each level makes of them."""

    nodes: str
    after: str
    fires: str = ""
    inputs: dict = field(default_factory=lambda: dict(X))
    outputs: tuple = ("y",)
    constants: dict = field(default_factory=dict)
    level: int = 3


W = {"w": f32(4, 4, 3, 3, low=-1)}
CLOSE = 2e-6
ROUNDED_ANEW = {
    "canonical-gemm",
    "canonical-pooling",
    "fold-ahead-into-weights",
    "fold-into-weights",
    "hard-activations",
    "pad-into-window",
}
"""The passes after which a sum is rounded otherwise than before; after all others it is not."""


CASES = {
    # -- folding and clean-up ------------------------------------------------------------------
    "constants are computed": Case(
        "b = Mul (a, a); c = Sqrt (b); y = Add (x, c)",
        "Add",
        "constant-folding",
        constants={"a": f32(4, 1, 1)},
    ),
    "a large result is not kept": Case(
        "b = Expand (a, d); c = ReduceSum (b); y = Add (x, c)",
        "Expand ReduceSum Add",
        constants={"a": f32(1, 1), "d": [1024, 1025]},
    ),
    "a result of 4 MiB is kept": Case(
        "b = Expand (a, d); c = ReduceSum (b); y = Add (x, c)",
        "Add",
        "constant-folding",
        constants={"a": f32(1, 1), "d": [1024, 1024]},
    ),
    "a Range whose end is computed is a constant, and what has its length": Case(
        "d = Shape <end=3, start=2> (x); n = Squeeze (d); end = Cast <to=1> (n); "
        "r = Range (start, end, step); middle = Add (r, half); count = Shape (middle); "
        "row = Expand (middle, count); y = Add (x, row)",
        "Add",
        "constant-folding",
        constants={"start": 0.0, "step": 1.0, "half": 0.5},
    ),
    "a Range that is too long is not kept": Case(
        "r = Range (start, end, step); s = ReduceSum (r); y = Add (x, s)",
        "Range ReduceSum Add",
        constants={"start": 0.0, "end": 2e6, "step": 1.0},
    ),
    "shapes are computed": Case(
        "d = Shape (x); n = Gather (d, zero); u = Unsqueeze (n, zeros); "
        "t = Concat <axis=0> (u, rest); y = Reshape (x, t)",
        "Reshape",
        "static-shapes",
        constants={"zero": 0, "zeros": [0], "rest": [-1]},
    ),
    "identity, dropout and neutral numbers go": Case(
        "a = Identity (x); b = Dropout (a); c = Mul (b, one); d = Add (zero, c); "
        "e = Transpose <perm=[0, 1, 2, 3]> (d); f = Slice (e, from, to); y = Sigmoid (f)",
        "Sigmoid",
        "no-ops",
        constants={"one": [1.0], "zero": [[0.0]], "from": [0, 0], "to": [9, 9]},
    ),
    "ends of the graph keep an Identity": Case(
        "y = Identity (x); z = Identity (x)",
        "Identity Identity",
        outputs=("y", "z"),
    ),
    "a no-op between ends becomes Identity": Case(
        "y = Transpose <perm=[0, 1, 2, 3]> (x)", "Identity", "no-ops"
    ),
    "Dropout with training switched off goes": Case(
        "a = Dropout (x, ratio, training); y = Tanh (a)",
        "Tanh",
        "no-ops",
        constants={"ratio": 0.5, "training": False},
    ),
    "Pad before a MaxPool whose indices are read stays": Case(
        "a = Pad (x, pads, low); b, i = MaxPool <kernel_shape=[3, 3]> (a); "
        "c = Cast <to=1> (i); y = Add (b, c)",
        "Pad MaxPool Cast Add",
        constants={"pads": [0, 0, 1, 1, 0, 0, 1, 1], "low": -np.inf},
    ),
    "Pad with minus infinity into MaxPool": Case(
        "a = Pad (x, pads, low); y = MaxPool <kernel_shape=[3, 3]> (a)",
        "MaxPool",
        "pad-into-window",
        constants={"pads": [0, 0, 1, 1, 0, 0, 1, 1], "low": -np.inf},
    ),
    "a mask that is read keeps its Dropout": Case(
        "a, mask = Dropout (x); c = Cast <to=1> (mask); y = Add (a, c)",
        "Dropout Cast Add",
    ),
    "a broadcasting one is no no-op": Case(
        "y = Mul (x, ones)",
        "Mul",
        inputs={"x": (1, 4)},
        constants={"ones": np.ones((3, 4), np.float32)},
    ),
    "a reversed slice is no no-op": Case(
        "y = Slice (x, from, to, axes, steps)",
        "Slice",
        constants={"from": [-1], "to": [np.iinfo(np.int64).min], "axes": [2], "steps": [-1]},
    ),
    "dead branches go": Case(
        "y = Relu (x); a = Exp (x); b = Log (a)",
        "Relu",
        "dead-code",
    ),
    # -- canonical forms -----------------------------------------------------------------------
    "flatten, squeeze and unsqueeze are one reshape": Case(
        "a = Flatten (x); b = Unsqueeze (a, zero); c = Squeeze (b, zero); y = Softmax (c)",
        "Reshape Softmax",
        "canonical-reshape",
        constants={"zero": [0]},
    ),
    "a reshape that is read twice stays for its reader": Case(
        "a = Reshape (x, t); b = Reshape (a, u); c = ReduceSum (a); y = Mul (b, c)",
        "Reshape Reshape ReduceSum Mul",
        "canonical-reshape",
        constants={"t": [1, 4, 36], "u": [1, 12, 12]},
    ),
    "reshapes around a softmax go": Case(
        "a = Reshape (x, t); b = Softmax (a); y = Reshape (b, u)",
        "Softmax",
        "reshape-pairs",
        constants={"t": [24, 6], "u": [1, 4, 6, 6]},
    ),
    "reshapes around a softmax over another axis stay": Case(
        "a = Reshape (x, t); b = Softmax (a); y = Reshape (b, u)",
        "Reshape Softmax Reshape",
        constants={"t": [4, 36], "u": [1, 4, 6, 6]},
    ),
    "MatMul and Add are Gemm": Case(
        "a = MatMul (x, w); y = Add (b, a)",
        "Gemm",
        "canonical-gemm",
        inputs={"x": (2, 5)},
        constants={"w": f32(5, 3), "b": f32(3)},
    ),
    "a product that is read twice stays MatMul": Case(
        "a = MatMul (x, w); c = Add (a, b); y = Mul (a, c)",
        "MatMul Add Mul",
        inputs={"x": (2, 5)},
        constants={"w": f32(5, 3), "b": f32(3)},
    ),
    "a product of rank 3 stays MatMul": Case(
        "a = MatMul (x, w); y = Add (a, b)",
        "MatMul Add",
        inputs={"x": (1, 2, 5)},
        constants={"w": f32(5, 3), "b": f32(3)},
    ),
    "Gemm takes alpha and beta in": Case(
        "y = Gemm <alpha=0.5, beta=2.0, transA=1> (x, w, b)",
        "Gemm",
        "canonical-gemm",
        inputs={"x": (5, 2)},
        constants={"w": f32(5, 3), "b": f32(3)},
    ),
    "a Gemm of two inputs stays": Case(
        "y = Gemm <alpha=0.5> (x, z)",
        "Gemm",
        inputs={"x": (2, 5), "z": (5, 3)},
    ),
    "Sub and Div by powers of two": Case(
        "b = Sub (x, a); y = Div (b, c)",
        "Add Mul",
        "canonical-arithmetic",
        constants={"a": f32(4, 1, 1), "c": [-4.0]},
    ),
    "Div by three stays": Case("y = Div (x, c)", "Div", constants={"c": 3.0}),
    "means over the picture": Case(
        "a = ReduceMean <keepdims=0> (x, axes); b = AveragePool <kernel_shape=[6, 6]> (x); "
        "c = Flatten (b); y = Add (a, c)",
        "GlobalAveragePool Reshape GlobalAveragePool Reshape Add",
        "canonical-pooling",
        constants={"axes": [-1, 2]},
        level=1,
    ),
    "a mean of a layer normalization stays": Case(
        "t = Reshape (x, rows); a = ReduceMean (t, axes); b = Sub (t, a); c = Mul (b, b); "
        "y = ReduceMean (c, axes)",
        "Reshape ReduceMean Sub Mul ReduceMean",
        constants={"axes": [2], "rows": [1, 4, -1]},
    ),
    "a mean over rows stays": Case(
        "y = ReduceMean (x, axes)", "ReduceMean", constants={"axes": [2]}
    ),
    # -- activations ---------------------------------------------------------------------------
    "clamps merge": Case(
        "a = Relu (x); b = Clip (a, low, high); y = Relu (b)",
        "Clip",
        "canonical-clamps",
        constants={"low": -1.0, "high": 1.0},
    ),
    "clamps that do not overlap": Case(
        "t = Clip (x, a, b); y = Clip (t, c, d)",
        "Clip",
        "canonical-clamps",
        constants={"a": -2.0, "b": -1.0, "c": 0.5, "d": 1.0},
    ),
    "Max and Min are clamps": Case(
        "a = Max (x, zero); y = Min (six, a)",
        "Clip",
        "canonical-clamps",
        constants={"zero": [0.0], "six": 0.5},
    ),
    "Relu after Sigmoid goes": Case("a = Sigmoid (x); y = Relu (a)", "Sigmoid"),
    "PRelu with one slope": Case(
        "b = PRelu (x, a); y = PRelu (b, z)",
        "LeakyRelu Relu",
        "canonical-clamps",
        constants={"a": np.full((4, 1, 1), 0.2, np.float32), "z": [0.0]},
    ),
    "PRelu with a slope per channel stays": Case(
        "y = PRelu (x, a)", "PRelu", constants={"a": f32(4, 1, 1)}
    ),
    "HardSigmoid and HardSwish written out": Case(
        "a = Add (x, three); b = Clip (a, zero, six); c = Mul (x, b); d = Div (c, six); "
        "e = Add (d, three); f = Clip (e, zero, six); g = Div (f, six); h = Mul (g, d); "
        "i = Mul (h, quarter); j = Add (half, i); y = Clip (j, zero, one)",
        "HardSwish HardSwish HardSigmoid",
        "hard-activations",
        constants={"three": 3.0, "zero": 0.0, "six": 6.0, "quarter": 0.3, "half": 0.5, "one": 1.0},
    ),
    "a gate with another offset is no HardSigmoid": Case(
        "a = Add (x, two); b = Clip (a, zero, six); y = Div (b, six)",
        "Add Clip Div",
        constants={"two": 2.0, "zero": 0.0, "six": 6.0},
    ),
    "a gate with another slope is no HardSwish": Case(
        "a = HardSigmoid <alpha=0.2, beta=0.5> (x); y = Mul (x, a)",
        "HardSigmoid Mul",
    ),
    "a slope that is rounded to 0.16667 is no HardSwish": Case(
        "a = HardSigmoid <alpha=0.16667, beta=0.5> (x); y = Mul (x, a)",
        "HardSigmoid Mul",
    ),
    "Relu moves before Transpose and Concat": Case(
        "a = Conv <pads=[1, 1, 1, 1]> (x, w); b = Conv <pads=[1, 1, 1, 1]> (x, u); "
        "c = Concat <axis=1> (a, b); d = Transpose <perm=[0, 2, 3, 1]> (c); y = Relu (d)",
        "Conv Conv Relu Relu Concat Transpose",
        "activations-first",
        constants=W | {"u": f32(2, 4, 3, 3, low=-1)},
    ),
    "what is empty leaves a Concat": Case(
        "a = Conv <pads=[1, 1, 1, 1]> (x, w); b = Concat <axis=1> (none, x, a, none); "
        "c = Concat <axis=1> (none, b); y = Sigmoid (c)",
        "Conv Concat Sigmoid",
        constants=W | {"none": f32(1, 0, 6, 6)},
    ),
    "Relu stays behind a Concat of an input": Case(
        "a = Conv <pads=[1, 1, 1, 1]> (x, w); b = Concat <axis=1> (a, x); y = Relu (b)",
        "Conv Concat Relu",
        constants=W,
    ),
    "Clip moves before MaxPool": Case(
        "a = Conv (x, w); b = MaxPool <kernel_shape=[2, 2], pads=[1, 1, 0, 0]> (a); "
        "y = Clip (b, low, high)",
        "Conv Clip MaxPool",
        "activations-first",
        constants=W | {"low": 0.5, "high": 1.0},
    ),
    # -- into weights --------------------------------------------------------------------------
    "everything per channel goes into Conv": Case(
        "a = Conv (x, w); n = BatchNormalization (a, s, b, m, v); p = Mul (k, n); "
        "q = Sub (c, p); r = Div (q, k); y = Add (r, one)",
        "Conv",
        "fold-into-weights",
        constants=W | BN | {"k": f32(4, 1, 1), "c": f32(1, 4, 1, 1), "one": f32()},
    ),
    "grouped ConvTranspose": Case(
        "a = ConvTranspose <group=2, strides=[2, 2]> (x, u, b); "
        "y = BatchNormalization (a, s, b, m, v)",
        "ConvTranspose",
        "fold-into-weights",
        constants=BN | {"u": f32(4, 2, 3, 3, low=-1)},
    ),
    "Gemm and MatMul take scales": Case(
        "a = Gemm (x, u); p = Mul (a, s); q = BatchNormalization (p, s, b, m, v); "
        "r = MatMul (q, t); y = Mul (r, k)",
        "Gemm MatMul",
        "fold-into-weights",
        inputs={"x": (3, 5)},
        constants=BN | {"u": f32(5, 4), "t": f32(4, 2), "k": f32(2)},
    ),
    "shared weights are not changed under another reader": Case(
        "a = Conv (x, w); n = BatchNormalization (a, s, b, m, v); c = Conv (x, w); y = Add (n, c)",
        "Conv Conv Add",
        "fold-into-weights",
        constants=W | BN,
    ),
    "a Conv that is an output of the graph keeps its numbers": Case(
        "a = Conv (x, w); y = BatchNormalization (a, s, b, m, v)",
        "Conv BatchNormalization",
        outputs=("y", "a"),
        constants=W | BN,
    ),
    "a Conv that is read twice keeps its numbers": Case(
        "a = Conv (x, w); n = BatchNormalization (a, s, b, m, v); y = Add (a, n)",
        "Conv BatchNormalization Add",
        constants=W | BN,
    ),
    "a constant per column is no scale per channel": Case(
        "a = Conv <pads=[1, 1, 1, 1]> (x, w); y = Mul (a, k)",
        "Conv Mul",
        constants=W | {"k": f32(6)},
    ),
    "weights that would overflow stay": Case(
        "a = Conv (x, w); y = Mul (a, k)",
        "Conv Mul",
        constants={
            "w": np.full((4, 4, 3, 3), 1e20, np.float32),
            "k": np.full((4, 1, 1), 1e25, np.float32),
        },
    ),
    "training BatchNormalization stays": Case(
        "a = Conv (x, w); y, mean, var = BatchNormalization <training_mode=1> (a, s, b, m, v)",
        "Conv BatchNormalization",
        constants=W | BN,
    ),
    "BatchNormalization before Conv without padding": Case(
        "n = BatchNormalization (x, s, b, m, v); y = Conv <group=2> (n, u, b)",
        "Conv",
        "fold-ahead-into-weights",
        constants=BN | {"u": f32(4, 2, 3, 3, low=-1)},
    ),
    "a scale before a padded Conv": Case(
        "n = Mul (x, k); y = Conv <pads=[1, 1, 1, 1]> (n, w)",
        "Conv",
        "fold-ahead-into-weights",
        constants=W | {"k": f32(4, 1, 1)},
    ),
    "an offset before a padded Conv stays": Case(
        "n = Add (x, k); y = Conv <pads=[1, 1, 1, 1]> (n, w)",
        "Add Conv",
        constants=W | {"k": f32(4, 1, 1)},
    ),
    # -- transposes and pads -------------------------------------------------------------------
    "inverse transposes go": Case(
        "a = Transpose <perm=[0, 2, 3, 1]> (x); b = Transpose <perm=[0, 3, 1, 2]> (a); "
        "y = Tanh (b)",
        "Tanh",
        "transpose-chains",
    ),
    "transposes merge": Case(
        "a = Transpose <perm=[0, 2, 3, 1]> (x); y = Transpose <perm=[0, 2, 1, 3]> (a)",
        "Transpose",
        "transpose-chains",
        inputs={"x": (2, 3, 4, 5)},
    ),
    "channels last comes back": Case(
        "a = Transpose <perm=[0, 2, 3, 1]> (x); b = Add (a, k); c = Softmax <axis=-1> (b); "
        "d = Concat <axis=3> (c, a); e = ReduceMean <keepdims=1> (d, axes); f = Mul (e, d); "
        "g = Pad (f, pads); y = Transpose <perm=[0, 3, 1, 2]> (g)",
        "Add Softmax Concat GlobalAveragePool Mul Pad",
        "transpose-regions",
        constants={"k": f32(4), "axes": [1, 2], "pads": [0, 1, 0, 0, 0, 0, 1, 0]},
    ),
    "a transpose that would come back elsewhere stays": Case(
        "a = Transpose <perm=[0, 2, 3, 1]> (x); b = Sigmoid (a); "
        "y = ReduceMax <keepdims=0> (b, axes)",
        "Transpose Sigmoid ReduceMax",
        constants={"axes": [1]},
    ),
    "an output in channels last keeps its layout": Case(
        "a = Transpose <perm=[0, 2, 3, 1]> (x); s = Sigmoid (a); "
        "y = Transpose <perm=[0, 3, 1, 2]> (s)",
        "Sigmoid Transpose",
        "transpose-regions",
        outputs=("y", "s"),
    ),
    "a transpose of axes of length 1 is a reshape": Case(
        "a = GlobalMaxPool (x); y = Transpose <perm=[0, 2, 3, 1]> (a)",
        "GlobalMaxPool Reshape",
        "transpose-to-reshape",
    ),
    "Pad into Conv": Case(
        "a = Pad (x, pads); y = Conv <pads=[0, 1, 0, 1]> (a, w)",
        "Conv",
        "pad-into-window",
        constants=W | {"pads": [0, 0, 1, 1, 0, 0, 2, 0]},
    ),
    "Pad with ones stays": Case(
        "a = Pad (x, pads, one); y = Conv (a, w)",
        "Pad Conv",
        constants=W | {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "one": 1.0},
    ),
    "Pad of channels stays": Case(
        "a = Pad (x, pads); y = Conv (a, w)",
        "Pad Conv",
        constants={"w": f32(2, 5, 3, 3), "pads": [0, 1, 0, 0, 0, 0, 0, 0]},
    ),
    "mirrored Pad stays": Case(
        'a = Pad <mode="reflect"> (x, pads); y = Conv (a, w)',
        "Pad Conv",
        constants=W | {"pads": [0, 0, 1, 1, 0, 0, 1, 1]},
    ),
    "Pad into AveragePool counts": Case(
        "a = Pad (x, pads); y = AveragePool <kernel_shape=[3, 3]> (a)",
        "AveragePool",
        "pad-into-window",
        constants={"pads": [0, 0, 1, 1, 0, 0, 1, 1]},
    ),
    "Pad before an AveragePool that does not count its own stays": Case(
        "a = Pad (x, pads); y = AveragePool <kernel_shape=[3, 3], pads=[1, 1, 1, 1]> (a)",
        "Pad AveragePool",
        constants={"pads": [0, 0, 1, 1, 0, 0, 1, 1]},
    ),
    "Pad with zeros before MaxPool stays": Case(
        "a = Pad (x, pads); y = MaxPool <kernel_shape=[3, 3]> (a)",
        "Pad MaxPool",
        constants={"pads": [0, 0, 1, 1, 0, 0, 1, 1]},
    ),
    # -- duplicates ----------------------------------------------------------------------------
    "the same computed twice": Case(
        "a = Sigmoid (x); b = Sigmoid (x); c = Add (a, k); d = Add (b, l); y = Mul (c, d)",
        "Sigmoid Add Mul",
        "common-subexpressions",
        constants={"k": 2.0, "l": 2.0},
    ),
    "two outputs of the graph stay two": Case(
        "y = Sigmoid (x); z = Sigmoid (x)",
        "Sigmoid Sigmoid",
        outputs=("y", "z"),
    ),
    "other attributes are another node": Case(
        "a = LeakyRelu <alpha=0.1> (x); b = LeakyRelu <alpha=0.2> (x); y = Mul (a, b)",
        "LeakyRelu LeakyRelu Mul",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rule(name) -> None:
    case = CASES[name]
    graph = model(case.nodes, case.inputs, case.outputs, case.constants)
    feeds = random_feeds(graph, seed=7)
    done = optimise(graph, case.level)
    assert operators(done.graph) == case.after.split()
    modified = {r.name for r in done.log if r.modified}
    assert not case.fires or case.fires in modified
    assert [s.name for s in done.graph.outputs] == [s.name for s in graph.outputs]
    assert [s.shape for s in done.graph.outputs] == [s.shape for s in graph.outputs]
    tolerance = CLOSE if modified & ROUNDED_ANEW and "MaxPool" not in case.after else 0
    below = optimise(graph, case.level if not case.fires else 0)
    for other in (done, below):
        assert furthest(run(graph, feeds), run(other.graph, feeds)) <= tolerance


@pytest.mark.parametrize(("pools", "moved"), [(8, True), (9, False)])
def test_an_activation_moves_past_eight_nodes_at_most(pools: int, moved: bool) -> None:
    chain = [f"p{at} = MaxPool <kernel_shape=[2, 2]> (p{at - 1})" for at in range(1, pools + 1)]
    nodes = "; ".join(["p0 = Conv (x, w)", *chain, f"y = Relu (p{pools})"])
    done = optimise(model(nodes, {"x": (1, 4, 12, 12)}, ["y"], W)).graph
    assert operators(done).index("Relu") == (1 if moved else pools + 1)


def test_canonical_forms_in_detail() -> None:
    slices = "a = Slice (x, from, to); b, c = Split <axis=-3, num_outputs=2> (a); y = Mul (b, c)"
    constants = {"from": [-1, 0, 1, -3], "to": [9, 4, np.iinfo(np.int64).max, -1]}
    done = optimise(model(slices, X, ["y"], constants), 1).graph
    first = next(n for n in done.nodes if n.op_type == "Slice")
    written = [v.const_value.numpy().tolist() for v in first.inputs[1:]]
    assert written == [[1, 3], [6, 5], [2, 3], [1, 1]]
    second = next(n for n in done.nodes if n.op_type == "Split")
    assert second.attributes.get_int("axis") == 1
    assert second.inputs[1].const_value.numpy().tolist() == [2, 2]


def test_gemm_holds_outputs_by_inputs() -> None:
    nodes = "y = Gemm <alpha=0.5> (x, w, b)"
    constants = {"w": f32(5, 3), "b": f32(3)}
    done = optimise(model(nodes, {"x": (2, 5)}, ["y"], constants), 1).graph
    gemm = next(iter(done.nodes))
    assert gemm.attributes.get_int("transB") == 1
    assert "alpha" not in gemm.attributes
    assert gemm.inputs[1].name == "w"
    assert gemm.inputs[1].const_value.numpy().shape == (3, 5)


def test_equal_matrices_are_stored_once_but_biases_are_not() -> None:
    nodes = "a = Conv <pads=[1, 1, 1, 1]> (x, w); y = Conv <pads=[1, 1, 1, 1]> (a, u, c)"
    constants = W | {"u": W["w"].copy(), "c": np.zeros(4, np.float32)}
    done = optimise(model(nodes, X, ["y"], constants), 3).graph
    assert set(done.model.graph.initializers) == {"w", "c"}


def test_infinite_and_nan_values_pass_through() -> None:
    nodes = (
        "a = Conv (x, w); n = BatchNormalization (a, s, b, m, v); i = Identity (n); y = Tanh (i)"
    )
    graph = model(nodes_of(nodes), X, ["y"], W | BN)
    feeds = random_feeds(graph)
    feeds["x"][0, 0, 0, 0] = np.nan
    feeds["x"][0, 1, 5, 5] = np.inf
    reference = run(graph, feeds)
    assert np.isnan(reference["y"]).any()
    assert furthest(reference, run(optimise(graph, 3).graph, feeds)) < 1e-5
