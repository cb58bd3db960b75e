"""``onnx_edit``: the rules of the vendor's README, and that the edited model computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from engine.api.onnx_edit import onnx_edit
from engine.api.shape_equation import Step, transform_of
from engine.base.errors import UsageError
from tests.graph.models import finish, nodes_of, tensor


def stepped(values: np.ndarray, steps: Sequence[Step]) -> np.ndarray:
    """An array after each step, which gives the shape that it says."""
    for step in steps:
        values = values.reshape(step.shape) if step.order is None else values.transpose(step.order)
        assert values.shape == step.shape
    return values


@pytest.mark.parametrize(
    ("equation", "shape", "changed"),
    [
        ("a,b,c->a,b,1,c", (2, 3, 4), (2, 3, 1, 4)),
        ("a,b,c->a,1,b,c", (2, 3, 4), (2, 1, 3, 4)),
        ("a,b,c,d,e->ab,c,d,e", (2, 3, 4, 5, 6), (6, 4, 5, 6)),
        ("a,b,c,d,e->a,bce,1,1", (2, 3, 4, 1, 6), None),
        ("a,b,c,d->a,d,b,c", (2, 3, 4, 5), (2, 5, 3, 4)),
        ("a,b,c,d->d,acb,1", (2, 3, 4, 5), (5, 24, 1)),
        ("a,1,c,d->ac,d,1", (32, 1, 4, 64), (128, 64, 1)),
        ("ab,c,d,qk[a=2,k=8]->aq,cd,1,kb", (32, 4, 1, 64), (16, 4, 1, 128)),
        ("a,bc,de,f[b=2,d=4]->ab,fe,dc,1", (3, 24, 8, 5), (6, 10, 48, 1)),
        ("a,bc,de,f[b=2,c=12,d=4]->ab,fe,dc,1", (3, 24, 8, 5), (6, 10, 48, 1)),
        ("a, b -> b, a", (2, 3), (3, 2)),
        ("a,b->a,b", (2, 3), (2, 3)),
    ],
)
def test_equations_of_the_readme(
    equation: str, shape: tuple[int, ...], changed: tuple[int, ...] | None
) -> None:
    if changed is None:  # the README's own example of a letter that is missing on the right
        with pytest.raises(UsageError, match=r"d is missing|does not fit"):
            transform_of("x", equation, shape)
        return
    found = transform_of("x", equation, shape)
    assert found.changed == changed
    values = np.arange(np.prod(shape)).reshape(shape)
    there = stepped(values, found.forward)
    assert there.shape == changed
    np.testing.assert_array_equal(stepped(there, found.backward), values)


def test_the_order_of_split_axes() -> None:
    """Against numpy by hand: 32 is a=2 by b=16, 64 is q=8 by k=8."""
    values = np.arange(32 * 4 * 64).reshape(32, 4, 1, 64)
    change = transform_of("x", "ab,c,d,qk[a=2,k=8]->aq,cd,1,kb", values.shape)
    there = stepped(values, change.forward)
    by_hand = np.einsum("abcdqk->aqcdkb", values.reshape(2, 16, 4, 1, 8, 8)).reshape(16, 4, 1, 128)
    np.testing.assert_array_equal(there, by_hand)


@pytest.mark.parametrize(
    ("equation", "why"),
    [
        ("a,b,c,d", "must read like"),
        ("a,b,c,d->a,2,bc,d", "must read like"),
        ("a,b,c->a,b,c", "has 3 axes"),
        ("a,b,c,d->a,b,c", "d is missing on its right"),
        ("a,b,c,d->a,b,c,d,e", "e is missing on its left"),
        ("a,b,c,d->a,b,c,d,a", "twice"),
        ("ab,c,d,e->a,b,c,d,e", "b are open"),
        ("ab,c,d,e[a=3]->a,b,c,d,e", "not made of 3"),
        ("ab,c,d,e[a=2,b=5]->a,b,c,d,e", "not made of 10"),
        ("ab,c,d,e[a=0]->a,b,c,d,e", "must read like"),
        ("1,b,c,d->b,c,d", "not made of 1"),
        ("a,b,c,d[z=2]->a,b,c,d", "z is not on its left"),
        ("a,b,,d->a,b,d", "letters alone"),
        (5, "must read like"),
    ],
)
def test_equations_that_do_not_fit(equation: object, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        transform_of("x", equation, (4, 48, 1, 8))
    assert why in str(caught.value)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> onnx.ModelProto:
    """An input that two nodes read, and an output that a further node reads."""
    shape = (2, 3, 4, 5)
    ports = {name: tensor(name, *shape) for name in "xkysr"}
    made = finish(
        nodes_of("y = Mul (x, k); s = Add (x, y); r = Relu (y)"),
        [ports[name] for name in "xk"],
        [ports[name] for name in "ysr"],
        opset=17,
        ir_version=8,
    )
    onnx.save(made, tmp_path / "net.onnx")
    rng = np.random.default_rng(1)
    for name in ("x", "k"):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal(shape, np.float32))
    (tmp_path / "dataset.txt").write_text("x.npy k.npy\nk.npy x.npy\n")
    monkeypatch.chdir(tmp_path)
    return made


def test_the_edited_model_computes_the_same(
    model: onnx.ModelProto, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path("out")).mkdir()
    done = onnx_edit(
        model="net.onnx",
        export_path="out/new.onnx",
        inputs_transform={"x": "a,b,c,d->1,ad,b,c"},
        outputs_transform={"y": "a,b,c,d->d,acb,1", "s": "ab,c,d,e[a=2]->a,b,c,d,e,1"},
        dataset="dataset.txt",
    )
    assert done == 0
    edited = onnx.load("out/new.onnx")
    onnx.checker.check_model(edited, full_check=True)
    x, k = np.load("x.npy"), np.load("k.npy")
    listed = Path("out/dataset_for_new.txt").read_text().split("\n")
    assert listed == [
        "dataset_for_new/x.npy ../k.npy",
        "dataset_for_new/k.npy ../x.npy",
        "",
    ]
    turned = np.load("out/dataset_for_new/x.npy")
    np.testing.assert_array_equal(turned, x.transpose(0, 3, 1, 2).reshape(1, 10, 3, 4))
    before = ReferenceEvaluator(model).run(None, {"x": x, "k": k})
    after = ReferenceEvaluator(edited).run(None, {"x": turned, "k": k})
    np.testing.assert_array_equal(after[0], before[0].transpose(3, 0, 2, 1).reshape(5, 24, 1))
    np.testing.assert_array_equal(after[1], before[1].reshape(2, 1, 3, 4, 5, 1))
    np.testing.assert_array_equal(after[2], before[2])
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(
        "I For 'x':'a,b,c,d->1,ad,b,c'\n"
        "  Input:'x' was reset as shape-[1, 10, 3, 4].(Origin shape is [2, 3, 4, 5])\n"
        "  Insert ops to transform [1, 10, 3, 4] to [2, 3, 4, 5]:\n"
        "  - Insert reshape op. [1, 10, 3, 4] reshape to [2, 5, 3, 4].\n"
        "  - Insert transpose op. [2, 5, 3, 4] transpose(0, 2, 3, 1) to [2, 3, 4, 5].\n"
    )


def test_what_is_refused(model: onnx.ModelProto, capsys: pytest.CaptureFixture[str]) -> None:
    assert onnx_edit("net.onnx", "new.onnx") == -1  # as the vendor's: nothing is done
    for keywords, why in (
        ({"inputs_transform": {"z": "a->a"}}, "no input 'z'"),
        ({"outputs_transform": {"x": "a,b,c,d->a,b,c,d"}}, "no output 'x'"),
        ({"inputs_transform": "a->a"}, "must be a dictionary"),
        ({"inputs_transform": {"x": "a,b->b,a"}}, "does not fit"),
        ({"inputs_transform": {"x": "a,b,c,d->d,a,b,c"}, "dataset": "no.txt"}, "no.txt"),
    ):
        capsys.readouterr()
        with pytest.raises(ValueError, match=r"onnx_edit: "):
            onnx_edit("net.onnx", "new.onnx", **keywords)
        assert why in capsys.readouterr().err
    with pytest.raises(ValueError, match="does not exist"):
        onnx_edit("no.onnx", "new.onnx", {"x": "a->a"})
    np.save("x.npy", np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        onnx_edit("net.onnx", "new.onnx", {"x": "a,b,c,d->d,a,b,c"}, None, "dataset.txt")
    assert not Path("new.onnx").exists()


def test_axes_without_a_size_are_refused(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    weight = numpy_helper.from_array(np.zeros(1, np.float32), "unused")
    model.graph.initializer.append(weight)
    onnx.save(model, "open.onnx")
    with pytest.raises(ValueError, match="not fixed"):
        onnx_edit("open.onnx", "new.onnx", {"x": "a,b,c,d->d,a,b,c"})
