"""Operators one by one: torch's own numbers, or refused; in this process, as the child does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import SourceModelError, UnsupportedOperatorError

pytestmark = [pytest.mark.torch, pytest.mark.long]

# Set by a fixture: collecting these tests must not load torch.
torch: Any = None
F: Any = None


@pytest.fixture(autouse=True, scope="module")
def _torch() -> None:
    global torch, F  # noqa: PLW0603 - the tables below name them
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    F = torch.nn.functional


AGREE: dict[str, Callable[[Any], Any]] = {
    "threshold": lambda x: F.threshold(x, 0.1, 0.5),
    "logsigmoid": lambda x: F.logsigmoid(5 * x),
    "expm1": lambda x: torch.expm1(0.5 * x),
    "mish": lambda x: F.mish(x, inplace=False),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "glu": lambda x: F.glu(x, 1),
    "nearest_6_5": lambda x: F.interpolate(x, size=(24, 20), mode="nearest"),
    "nearest_factor": lambda x: F.interpolate(x, scale_factor=1.7, mode="nearest"),
    "nearest_twice": lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"),
    "nearest_down": lambda x: F.interpolate(x, size=(7, 5), mode="nearest"),
    "nearest_exact": lambda x: F.interpolate(x, size=(24, 11), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, size=(13, 11), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, size=(13, 11), mode="bicubic", align_corners=True),
    "area": lambda x: F.interpolate(x, size=(4, 4), mode="area"),
    "reflect": lambda x: F.pad(x, (1, 2, 1, 2), mode="reflect"),
    "circular": lambda x: F.pad(x, (1, 1, 1, 1), mode="circular"),
    "pad_negative": lambda x: F.pad(x, (-1, 1, 0, -2)),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "max_ceil": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "average_ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "average_inside": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "fold": lambda x: F.fold(F.unfold(x, 2, stride=2), (20, 16), 2, stride=2),
    "layer_norm": lambda x: F.layer_norm(x, (16,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "rms_norm": lambda x: F.rms_norm(x, (16,)),
    "instance_norm": lambda x: F.instance_norm(x, eps=1e-3),
    "normalize": lambda x: F.normalize(x, dim=1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "grid": lambda x: F.grid_sample(
        x,
        F.affine_grid(0.9 * torch.eye(2, 3)[None], [1, 4, 6, 6], align_corners=False),
        align_corners=False,
    ),
    "einsum": lambda x: torch.einsum("nchw,nchv->nwv", x, x),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "assigned": lambda x: torch.cat([x.clone().index_fill(1, torch.tensor([1]), 0.0), x]),
    "chosen": lambda x: x[:, [2, 0, 1]],
    "topk": lambda x: torch.topk(x, 3, 1),
    "argmax": lambda x: x.argmax(1),
    "roll": lambda x: torch.roll(x, (1, 2), (2, 3)),
    "repeat": lambda x: x.repeat_interleave(2, 1),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 4),
    "scatter": lambda x: torch.zeros(1, 4, 20, 16).scatter(1, x.argmax(1, keepdim=True), 1.0),
    "floor_divide": lambda x: torch.floor_divide(x, 0.3),
    "truncated": lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
    "remainder": lambda x: torch.remainder(x, 0.3),
    "variance": lambda x: x.var((2, 3)),
    "quantile": lambda x: torch.quantile(x, 0.5, dim=1),
    "sizes": lambda x: x.view(x.size(0), x.size(1) // 2, -1) * (x.size(3) / 7),
}

REFUSED: dict[str, Callable[[Any], Any]] = {
    "median": lambda x: x.median(1)[0],
    "cumprod": lambda x: x.cumprod(1),
    "divisor": lambda x: F.avg_pool2d(x, 2, 2, divisor_override=3),
    "random": lambda x: x + torch.rand_like(x),
}


def convert(function: Callable[[Any], Any], folder: Path) -> dict[str, Any]:
    from engine.frontends.pytorch import child

    path = folder / "one.pt"
    shape = (1, 4, 20, 16)
    torch.manual_seed(0)
    kind = type("One", (torch.nn.Module,), {"forward": lambda self, x: function(x)})
    module = kind().eval()
    torch.jit.trace(module, torch.randn(shape), check_trace=False, strict=False).save(path)
    request = {"model": str(path), "sizes": [shape], "traced": [], "route": "auto"}
    return child.convert(request, folder / "one.onnx")


@pytest.mark.parametrize("name", AGREE)
def test_an_operator_gives_torchs_numbers(name: str, tmp_path: Path) -> None:
    assert convert(AGREE[name], tmp_path)["error"] <= 1e-5


def _fixed(module: Any) -> Any:
    return module.eval().requires_grad_(False)


def _masked(attention: Any) -> Callable[[Any], Any]:
    hidden = torch.ones(20, 20).triu(1).bool()
    return lambda x: attention(x, x, x, attn_mask=hidden, average_attn_weights=False)


ATTENTION: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "layer": lambda: _fixed(torch.nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)),
    "layer_norm_first": lambda: _fixed(
        torch.nn.TransformerEncoderLayer(
            16, 2, 24, activation="gelu", batch_first=True, norm_first=True
        )
    ),
    "attention": lambda: _masked(_fixed(torch.nn.MultiheadAttention(16, 4, batch_first=True))),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_fused_attention_is_written_out(name: str, tmp_path: Path) -> None:
    # traced without gradients, as users do: torch then takes its fused operators
    with torch.no_grad():
        torch.manual_seed(0)
        attend = ATTENTION[name]()
        found = convert(lambda x: attend(x[0]), tmp_path)
    assert found["error"] <= 1e-5
    assert found["route"] == "script exporter"


@pytest.mark.parametrize("name", REFUSED)
def test_an_operator_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises((SourceModelError, UnsupportedOperatorError)):
        convert(REFUSED[name], tmp_path)


@pytest.mark.parametrize(("size", "wanted"), [(20, 24), (16, 20), (7, 3), (5, 64), (13, 13)])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_the_nearest_element_is_torchs(size: int, wanted: int, mode: str) -> None:
    from engine.frontends.pytorch.operators import nearest_elements

    places = torch.arange(size, dtype=torch.float32).reshape(1, 1, size)
    want = F.interpolate(places, size=wanted, mode=mode).flatten().numpy()
    found = nearest_elements(size, wanted, None, exact=mode == "nearest-exact")
    np.testing.assert_array_equal(found, want)


def test_rewrites_of_the_runtime_are_told_apart_from_a_wrong_conversion(tmp_path: Path) -> None:
    """Fused kernels round otherwise, which networks of high gain show; the file is what counts."""
    from engine.frontends.numeric_check import NumericCheck
    from engine.frontends.pytorch import child, select_strategy

    module = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), torch.nn.SiLU()).eval()
    path = tmp_path / "one.pt"
    torch.jit.trace(module, torch.randn(1, 4, 20, 16)).save(path)
    loaded, plan, _ = child._planned(path, {"sizes": [(1, 4, 20, 16)], "traced": []}, [])
    sample = plan.sample(0)
    result = child.call(loaded, plan.signature, sample)
    subject = child._subject(path, loaded, plan, result, fixable=True)
    out = tmp_path / "one.onnx"
    select_strategy.ROUTES[0].export(subject, out)

    right = select_strategy.Expected([sample], [[result.numpy()]], quantized=False)
    wrong = select_strategy.Expected([sample], [[1.002 * result.numpy()]], quantized=False)
    noise = select_strategy._Noise(subject, right)
    for expected, error, taken in (
        (right, 1e-3, True),  # as after an optimisation that rounds otherwise
        (right, 0.1, False),  # more than rounding explains
        (wrong, 1e-3, False),
    ):
        given = select_strategy._as_written(
            NumericCheck(error=error), out, subject, expected, noise
        )
        assert given == taken
    assert not select_strategy._as_written(NumericCheck(misfit="shape"), out, subject, right, noise)
