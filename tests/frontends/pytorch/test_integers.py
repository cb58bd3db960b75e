"""Modules that compute in integers: each layer as torch computes it, one step at most."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.graph.execute import Session
from tests.frontends.pytorch.conftest import load

pytestmark = pytest.mark.torch

# Set by a fixture: collecting these tests must not load torch.
torch: Any = None
F: Any = None
Q: Any = None


@pytest.fixture(autouse=True, scope="module")
def _torch() -> Iterator[None]:
    global torch, F, Q  # noqa: PLW0603 - the tables below name them
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    F, Q = torch.nn.functional, torch.ops.quantized
    before = torch.backends.quantized.engine
    yield
    torch.backends.quantized.engine = before


def _also(x: Any) -> Any:
    """Another tensor of other parameters, made of the same numbers."""
    return torch.quantize_per_tensor(x.dequantize() * -0.7 + 0.1, 0.021, 117, torch.quint8)


def _some(count: int) -> Any:
    return torch.linspace(0.3, 1.4, count)


def _layer(kind: str, *arguments: Any, **more: Any) -> Any:
    """A layer of torch.ao with random weights, per channel where torch has it so."""
    layer = getattr(torch.ao.nn.quantized, kind)(*arguments, **more)
    weight, _ = (layer._weight_bias if hasattr(layer, "_weight_bias") else layer.get_weights)()
    real = torch.randn(weight.shape) * 0.2
    if "Transpose" in kind:
        packed = torch.quantize_per_tensor(real, 0.006, 0, torch.qint8)
        outputs = weight.shape[1] * more.get("groups", 1)
    else:
        scales = torch.rand(weight.shape[0]).double() * 0.004 + 0.003
        points = torch.zeros(weight.shape[0]).long()
        packed = torch.quantize_per_channel(real, scales, points, 0, torch.qint8)
        outputs = weight.shape[0]
    layer.set_weight_bias(packed, torch.randn(outputs) * 0.3)
    layer.scale, layer.zero_point = 0.031, 121
    return layer


LAYERS: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "conv": lambda: _layer("Conv2d", 4, 6, 3, stride=2, padding=1),
    "conv_groups": lambda: _layer("Conv2d", 4, 8, 3, padding=2, dilation=2, groups=2),
    "conv_row": lambda: torch.nn.Sequential(
        torch.nn.Flatten(2), _layer("Conv1d", 4, 6, 5, padding=2)
    ),
    "transposed": lambda: _layer("ConvTranspose2d", 4, 6, 3, stride=2, output_padding=1),
    "linear": lambda: _layer("Linear", 16, 9),
    "linear_row": lambda: torch.nn.Sequential(torch.nn.Flatten(), _layer("Linear", 1280, 9)),
}

OPERATORS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: Q.add(x, _also(x), 0.05, 100),
    "add_relu": lambda x: Q.add_relu(x, _also(x), 0.05, 3),
    "mul": lambda x: Q.mul(x, _also(x), 0.07, 110),
    "matmul": lambda x: Q.matmul(x, _also(x).transpose(2, 3), 0.2, 128),
    "cat": lambda x: Q.cat([x, _also(x)], 1, 0.04, 100),
    "add_scalar": lambda x: Q.add_scalar(x, 0.37),
    "mul_scalar": lambda x: Q.mul_scalar(x, 1.7),
    "relu6": lambda x: F.relu6(x, inplace=False),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.8),
    "clamp": lambda x: torch.clamp(x, -0.4, 1.1),
    "leaky": lambda x: Q.leaky_relu(x, 0.1, False, 0.03, 20),
    "elu": lambda x: Q.elu(x, 0.03, 40),
    "prelu": lambda x: Q.prelu(
        x, torch.quantize_per_tensor(torch.tensor([0.2]), 0.01, 0, torch.quint8), 0.04, 30
    ),
    "sigmoid": lambda x: x.sigmoid(),
    "tanh": lambda x: x.tanh(),
    "hardsigmoid": lambda x: F.hardsigmoid(x, inplace=False),
    "hardswish": lambda x: Q.hardswish(x, 0.03, 20),
    "softmax": lambda x: Q.softmax(x, 1, 0.004, 0),
    "batch_norm": lambda x: Q.batch_norm2d(
        x, _some(4), _some(4), _some(4), _some(4), 1e-5, 0.05, 120
    ),
    "layer_norm": lambda x: Q.layer_norm(x, [16], _some(16), _some(16), 1e-5, 0.04, 120),
    "instance_norm": lambda x: Q.instance_norm(x, _some(4), _some(4), 1e-5, 0.04, 120),
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "average_pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average_inside": lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
    "average_ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_to": lambda x: F.adaptive_avg_pool2d(x, (4, 8)),
    "mean": lambda x: x.mean([2, 3]),
    "nearest": lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"),
    "bilinear": lambda x: F.interpolate(x, size=(24, 31), mode="bilinear"),
    "moves": lambda x: x.permute(0, 2, 3, 1).reshape(1, -1, 8)[:, 3:40:2].unsqueeze(0).squeeze(0),
    "chosen": lambda x: torch.cat([x[:, 2:], x[:, :2]], 1).select(2, 3).flatten(1),
    "chunks": lambda x: Q.add(*x.chunk(2, 1), 0.05, 100),
    "shuffle": lambda x: F.channel_shuffle(x, 2),
    "padded": lambda x: F.pad(x, (1, 2, 0, 1), value=0.0),
    "in_place": lambda x: F.relu_(x.clone()),
    "floats_between": lambda x: torch.quantize_per_tensor(
        torch.softmax(x.dequantize() * 2, 1), 0.004, 0, torch.quint8
    ),
    "qint8": lambda x: torch.quantize_per_tensor(x.dequantize(), 0.03, -5, torch.qint8),
}


def _module(body: Callable[[Any], Any]) -> Any:
    class One(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if isinstance(body, torch.nn.Module):
                self.body = body

        def forward(self, x: Any) -> Any:
            given = torch.quantize_per_tensor(x, 0.025, 119, torch.quint8)
            return body(given).dequantize()

    return One().eval()


def _traced(module: Any, sizes: tuple[int, ...], folder: Path) -> Path:
    path = folder / "one.pt"
    torch.jit.trace(module, torch.randn(sizes), check_trace=False).save(path)
    return path


def _written(path: Path, sizes: tuple[int, ...], folder: Path) -> tuple[Any, onnx.ModelProto]:
    """The module layer by layer, as the child does it but for other routes."""
    from engine.frontends.pytorch import child
    from engine.frontends.pytorch.by_layers import write_by_layers

    request = {"model": str(path), "sizes": [sizes], "traced": [], "route": "auto"}
    module, plan, _ = child._planned(path, request, [])
    names = ([feed.name for feed in plan.feeds], ["output"])
    out = folder / "written.onnx"
    return write_by_layers(module, plan, names, 3, out), onnx.load(str(out))


_QUICK = frozenset({"conv", "linear", "add_relu", "hardtanh", "moves"})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in _QUICK else pytest.mark.long)
        for name in (*LAYERS, *OPERATORS)
    ],
)
def test_a_layer_is_within_a_step_of_torch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(7)
    torch.backends.quantized.engine = "qnnpack"
    body = LAYERS[name]() if name in LAYERS else OPERATORS[name]
    sizes = (1, 4, 20, 16)
    layers, model = _written(_traced(_module(body), sizes, tmp_path), sizes, tmp_path)
    assert layers.count >= 1
    assert layers.apart <= 0.05  # scales of 25 and 30 thousandths have many ties
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("QuantizeLinear") >= layers.count


def test_a_wrong_layer_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.frontends.pytorch import by_layers, integer_operators

    path = _traced(_module(OPERATORS["average_pool"]), (1, 4, 8, 8), tmp_path)
    maximum = integer_operators.RULES["aten::max_pool2d"]
    wrong = {
        **integer_operators.RULES,
        "aten::avg_pool2d": lambda g, a, out: maximum(
            g, {name: value for name, value in a.items() if name != "count_include_pad"}, out
        ),
    }
    monkeypatch.setattr(by_layers, "RULES", wrong)
    with pytest.raises(SourceModelError, match=r"avg_pool2d, differs .* by \d+ steps"):
        _written(path, (1, 4, 8, 8), tmp_path)


def test_a_part_in_floats_stays_in_floats(tmp_path: Path) -> None:
    torch.manual_seed(5)
    conv = torch.nn.Conv2d(3, 4, 3)

    class Partly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv
            self.line = torch.nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            x = F.max_pool2d(F.relu(self.conv(x)), 2)
            x = torch.quantize_per_tensor(x, 0.02, 0, torch.quint8)
            x = F.adaptive_avg_pool2d(Q.mul_scalar(x, 0.8), 1).flatten(1)
            return torch.softmax(self.line(x.dequantize()), 1)

    path = _traced(Partly().eval(), (1, 3, 12, 12), tmp_path)
    layers, model = _written(path, (1, 3, 12, 12), tmp_path)
    assert layers.count == 4
    kinds = [node.op_type for node in model.graph.node]
    assert {"Conv", "MaxPool", "Gemm", "Softmax"} <= set(kinds)


def test_what_depends_on_the_numbers_that_are_fed_is_left_to_other_routes(tmp_path: Path) -> None:
    class Loudness(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            scale, zero = x.mean([0, 1, 2, 3]) * 0.01 + 0.03, torch.tensor(100)
            return torch.quantize_per_tensor(x, scale, zero, torch.quint8).dequantize()

    path = _traced(Loudness(), (1, 3, 5, 5), tmp_path)
    with pytest.raises(UnsupportedOperatorError, match="depend on data"):
        _written(path, (1, 3, 5, 5), tmp_path)


def test_the_end_of_a_module_of_integers_may_be_steps_away() -> None:
    """Behind a softmax no step shows in the outputs, and the graph's rounding is another."""
    from engine.frontends.numeric_check import NumericCheck
    from engine.frontends.pytorch import child
    from engine.frontends.pytorch.by_layers import Layers
    from engine.frontends.pytorch.select_strategy import Agreed, Expected

    smooth = np.random.default_rng(1).dirichlet(np.ones(9)).astype(np.float32)
    expected = Expected([], [[smooth]], quantized=True)
    same = NumericCheck()
    assert child._tolerance(Agreed(same, "", Layers(4, 0.0)), expected) == 0.02
    assert child._tolerance(Agreed(same, ""), expected) == 1e-5


FAKE: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "tensor": lambda: lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127),
    "channels": lambda: (
        lambda x: torch.fake_quantize_per_channel_affine(
            x, _some(4), torch.arange(4).int(), 1, -128, 127
        )
    ),
    "moving": lambda: torch.ao.quantization.FusedMovingAvgObsFakeQuantize().eval(),
}


@pytest.mark.parametrize("kind", FAKE)
def test_fake_quantization_is_written_by_the_script_exporter(kind: str, tmp_path: Path) -> None:
    from engine.frontends.pytorch import child

    body, sizes, out = FAKE[kind](), (1, 4, 3, 3), tmp_path / "written.onnx"
    body(torch.randn(sizes))  # what observes has seen something

    class One(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = body

        def forward(self, x: Any) -> Any:
            return self.body(x)

    path = _traced(One().eval(), sizes, tmp_path)
    request = {"model": str(path), "sizes": [sizes], "traced": [], "route": "script"}
    child.convert(request, out)
    operators = [node.op_type for node in onnx.load(str(out)).graph.node]
    assert [op for op in operators if op != "Constant"] == ["QuantizeLinear", "DequantizeLinear"]


def test_places_of_a_maximum_are_not_taken_for_constants(tmp_path: Path) -> None:
    class Places(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            _, places = F.max_pool2d(x, 2, return_indices=True)
            y = torch.quantize_per_tensor(x, 0.02, 100, torch.quint8)
            return y.dequantize()[:, :, :2, :2] + places

    path = _traced(Places(), (1, 3, 4, 4), tmp_path)
    with pytest.raises(UnsupportedOperatorError, match="besides its numbers"):
        _written(path, (1, 3, 4, 4), tmp_path)


def _inverted() -> Any:
    """Two blocks of MobileNetV2: expansion, depthwise with ReLU6, projection, sum."""
    nn = torch.nn

    def layer(before: int, after: int, size: int, **options: Any) -> list[Any]:
        conv = nn.Conv2d(before, after, size, bias=False, **options)
        return [conv, nn.BatchNorm2d(after)]

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            wide = channels * 4
            depthwise = layer(wide, wide, 3, padding=1, groups=wide)
            self.conv = nn.Sequential(
                *(*layer(channels, wide, 1), nn.ReLU6(), *depthwise, nn.ReLU6()),
                *layer(wide, channels, 1),
            )

        def forward(self, x: Any) -> Any:
            return x + self.conv(x)

    blocks = nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6(), Block(8), Block(8)
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)).eval()


@pytest.fixture(params=["fbgemm", "qnnpack", "x86"])
def converted(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An FX-converted network, packed by one of torch's engines."""
    from torch.ao.quantization import get_default_qconfig_mapping, quantize_fx

    if request.param not in torch.backends.quantized.supported_engines:
        pytest.skip(f"this PyTorch has no {request.param}")
    torch.manual_seed(3)
    torch.backends.quantized.engine = request.param
    sample = (torch.randn(1, 3, 32, 32),)
    mapping = get_default_qconfig_mapping(request.param)
    model = quantize_fx.prepare_fx(_inverted(), mapping, sample)
    for _ in range(4):
        model(torch.randn(2, 3, 32, 32))
    path = tmp_path / "converted.pt"
    torch.jit.script(quantize_fx.convert_fx(model)).save(path)
    return path


@pytest.mark.long
def test_packed_weights_of_each_engine_are_read(converted: Path, tmp_path: Path) -> None:
    layers, model = _written(converted, (1, 3, 32, 32), tmp_path)
    assert layers.apart <= 1e-3
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    reads = {node.input[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}
    weights = [onnx.numpy_helper.to_array(stored[name]) for name in reads if name in stored]
    module = torch.jit.load(converted)
    parts = [getattr(part, "_packed_params", None) for part in module.modules()]
    packed = [
        torch.ops.quantized.conv2d_unpack(value)[0].int_repr().numpy()
        for value in parts
        if isinstance(value, torch.ScriptObject) and "Conv2d" in str(value._type())
    ]
    assert len(packed) == 7
    for kernel in packed:
        assert any(np.array_equal(kernel, each) for each in weights)


@pytest.mark.long
def test_the_quantization_flows_through_a_build(converted: Path, tmp_path: Path) -> None:
    from engine.export.tflite import to_tflite
    from engine.pipeline.pipeline import Pipeline
    from engine.pipeline.stages import STAGES
    from engine.recipe import Recipe
    from engine.services.build import vendor_onnx

    loaded = load(converted, (1, 3, 32, 32))
    assert "its layers of integers" in loaded.source.format
    sizes = {"model": str(converted), "input_size_list": [[1, 3, 32, 32]]}
    pipeline = Pipeline(Recipe.from_values(sizes | {"do_quantization": False}), STAGES)
    feed = {"x": np.random.default_rng(2).normal(size=(1, 3, 32, 32)).astype(np.float32)}
    name = loaded.graph.inputs[0].name
    (want,) = Session(loaded.graph).run({name: feed["x"]}).values()
    graph = pipeline.optimised.graph.graph
    (got,) = Session(graph).run({graph.inputs[0].name: feed["x"]}).values()
    step = np.diff(np.unique(want)).min()
    assert np.abs(got - want).max() <= 2.01 * step
    kinds = [node.op_type for node in graph.nodes]
    assert kinds.count("QuantizeLinear") >= 15
    assert onnx.load_model_from_string(vendor_onnx(pipeline)).graph.node
    assert to_tflite(graph).inputs[0].quant is not None


@pytest.mark.vendor
@pytest.mark.long
@pytest.mark.usefixtures("toolkit2")
def test_the_vendors_compiler_takes_the_integers(converted: Path, tmp_path: Path) -> None:
    from engine.container.vendor import inspect_vendor

    out = tmp_path / "converted.rknn"
    command = [sys.executable, "-m", "rknntui", "compile", str(converted), "-o", str(out)]
    command += ["--input-size-list", "[[1,3,32,32]]", "--no-quantize"]
    command += ["--target-platform", "rk3588"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (port,) = inspect_vendor(out).inputs
    assert port.tensor.dtype == "int8"
    assert port.tensor.quant is not None
    scale = getattr(torch.jit.load(converted), "0_input_scale_0")
    assert port.tensor.quant.scale[0] == pytest.approx(float(scale), rel=1e-6)
