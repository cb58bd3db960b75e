"""Make TorchScript models of every kind that the PyTorch front end takes, with torch's own outputs.

``python scripts/make_torch_models.py FOLDER [NAME ...]`` writes for each model ``NAME.pt`` and
``NAME.npz`` with ``in:0``, ``in:1`` ... (its inputs) and ``out:0``, ``out:1`` ... (what torch gives
for them). Needs the extra ``torch``. Weights and inputs come from a fixed seed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.ao import quantization
from torch.nn import functional as F  # noqa: N812 - its name everywhere

Made = tuple[Any, tuple[Any, ...]]


class Residual(nn.Module):
    """Convolutions with batch normalisation, a residual sum and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.quant = quantization.QuantStub()
        self.first = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.second = nn.Sequential(
            nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.add = nn.quantized.FloatFunctional()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(8, 5)
        self.dequant = quantization.DeQuantStub()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of five classes."""
        x = self.first(self.quant(x))
        x = self.add.add(x, self.second(x))
        return self.dequant(self.head(torch.flatten(self.pool(x), 1)))


class Upscale(nn.Module):
    """Pixel shuffle, resizes and a padding, as super resolution and segmentation have them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 12, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Three pictures of other sizes."""
        y = F.pixel_shuffle(self.conv(x), 2)
        wide = F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        near = F.interpolate(y, size=(20, 24), mode="nearest")
        return wide, near, F.pad(y, [1, 2, 3, 4], mode="reflect")


class Branches(nn.Module):
    """An If that depends on data, one that depends on a setting, and one on a size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.sharp = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A picture of four channels."""
        y = self.conv(x)
        if bool(y.sum() > 0):  # noqa: SIM108 - the branch is what is tested
            y = y * 2
        else:
            y = torch.sigmoid(y) - 1
        if self.sharp:
            y = F.relu(y)
        if y.shape[2] > 100:
            y = F.max_pool2d(y, 2)
        return y


class Loops(nn.Module):
    """A loop over a number, and one over a size."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A row of eight."""
        for i in range(3):
            x = torch.tanh(self.line(x)) + i
        total = torch.zeros_like(x[:, 0])
        for j in range(x.shape[1]):
            total = total + x[:, j] * (0.01 * j)
        return x * total.unsqueeze(1)


class Recurrent(nn.Module):
    """A bidirectional LSTM of two layers, and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 12, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(24, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The GRU's outputs, and the LSTM's last states."""
        y, (h, c) = self.lstm(x)
        return self.gru(y)[0], h, c


class Stateful(nn.Module):
    """An LSTM whose states are inputs and outputs: a tuple goes in, a dictionary comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6)

    def forward(
        self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Outputs and states by name."""
        y, (h, c) = self.lstm(x, state)
        return {"y": y, "h": h, "c": c}


class Attention(nn.Module):
    """An embedding, MultiheadAttention and an encoder layer, as a small transformer has them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.attend = nn.MultiheadAttention(16, 4, batch_first=True)
        self.encode = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, activation="gelu")
        self.head = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores of three classes."""
        x = self.embed(ids)
        x = x + self.attend(x, x, x, need_weights=False)[0]
        return self.head(self.encode(x).mean(1))


class Block(nn.Module):
    """Two convolutions and a shortcut, as ResNet has them."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        step = after // before
        self.one = nn.Sequential(
            nn.Conv2d(before, after, 3, step, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
        )
        self.two = nn.Sequential(nn.Conv2d(after, after, 3, 1, 1), nn.BatchNorm2d(after))
        self.short = nn.Sequential(nn.Conv2d(before, after, 1, step), nn.BatchNorm2d(after))
        self.add = nn.quantized.FloatFunctional()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A smaller picture of more channels."""
        return self.add.add_relu(self.two(self.one(x)), self.short(x))


class Deep(nn.Module):
    """Eleven convolutions: the rounding of one layer changes the next."""

    def __init__(self) -> None:
        super().__init__()
        self.quant = quantization.QuantStub()
        self.first = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(Block(8, 8), Block(8, 16), Block(16, 32))
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(32, 10)
        self.dequant = quantization.DeQuantStub()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ten classes."""
        x = self.blocks(self.pool(self.first(self.quant(x))))
        return self.dequant(self.head(torch.flatten(self.mean(x), 1)))


class Restored(nn.Module):
    """A layer that says itself how it is saved and loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.randn(4, 3, 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A picture of four channels."""
        return F.conv2d(x, self.weight)

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, bool]:
        return (self.weight, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
        self.weight = state[0]
        self.training = state[1]


def _seeded(module: nn.Module) -> nn.Module:
    """Statistics and biases away from their defaults, so that an error in them shows."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean, -0.3, 0.3)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    for parameter in module.parameters():
        if parameter.dim() == 1:
            nn.init.uniform_(parameter, -0.5, 0.5)
    return module.eval()


def _traced(module: nn.Module, *inputs: Any) -> Made:
    return torch.jit.trace(_seeded(module), inputs, strict=False, check_trace=False), inputs


def _scripted(module: nn.Module, *inputs: Any) -> Made:
    return torch.jit.script(_seeded(module)), inputs


def _picture() -> torch.Tensor:
    return torch.randn(1, 3, 16, 16)


def _converted(engine: str) -> Made:
    """Calibrated and converted to integers, per channel where the engine has it so."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        model = _prepared(engine)
        for _ in range(4):
            model(_picture())
        quantization.convert(model, inplace=True)
        # the packed weights belong to the engine: traced and saved while it is set
        picture = _picture()
        return torch.jit.trace(model, picture), (picture,)
    finally:
        torch.backends.quantized.engine = before


def _prepared(engine: str, *, training: bool = False) -> nn.Module:
    model = _seeded(Residual())
    groups = [["first.0", "first.1", "first.2"], ["second.0", "second.1", "second.2"]]
    if training:
        model.train()
        quantization.fuse_modules_qat(model, groups, inplace=True)
        model.qconfig = quantization.get_default_qat_qconfig(engine)
        return quantization.prepare_qat(model, inplace=True)
    quantization.fuse_modules(model, groups, inplace=True)
    model.qconfig = quantization.get_default_qconfig(engine)
    return quantization.prepare(model, inplace=True)


def _fake_quantized(engine: str) -> Made:
    """Trained with fake quantization for a few steps, observers then off."""
    model = _prepared(engine, training=True)
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(3):
        optimiser.zero_grad()
        model(_picture()).square().mean().backward()
        optimiser.step()
    model.apply(quantization.disable_observer)
    picture = _picture()
    return torch.jit.trace(model.eval(), picture), (picture,)


def _trained(engine: str) -> Made:
    """A ResNet trained with fake quantization and converted to integers, as torch.ao shows it."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        model = Deep().train()
        quantization.fuse_modules_qat(model, [["first.0", "first.1", "first.2"]], inplace=True)
        for block in model.blocks:
            groups = [["one.0", "one.1", "one.2"], ["two.0", "two.1"], ["short.0", "short.1"]]
            quantization.fuse_modules_qat(block, groups, inplace=True)
        model.qconfig = quantization.get_default_qat_qconfig(engine)
        quantization.prepare_qat(model, inplace=True)
        optimiser = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(4):
            optimiser.zero_grad()
            model(torch.randn(4, 3, 64, 64)).square().mean().backward()
            optimiser.step()
        quantization.convert(model.eval(), inplace=True)
        picture = torch.randn(1, 3, 64, 64)
        return torch.jit.trace(model, picture), (picture,)
    finally:
        torch.backends.quantized.engine = before


MODELS: dict[str, Callable[[], Made]] = {
    "traced": lambda: _traced(Residual(), _picture()),
    "upscale": lambda: _traced(Upscale(), torch.randn(1, 3, 8, 10)),
    "scripted_if": lambda: _scripted(Branches(), _picture()),
    "scripted_loop": lambda: _scripted(Loops(), torch.randn(2, 8)),
    "lstm": lambda: _traced(Recurrent(), torch.randn(1, 7, 8)),
    "lstm_scripted": lambda: _scripted(Recurrent(), torch.randn(1, 7, 8)),
    "stateful": lambda: _scripted(
        Stateful(), torch.randn(3, 1, 8), (torch.randn(1, 1, 6), torch.randn(1, 1, 6))
    ),
    "restored": lambda: _scripted(Restored(), _picture()),
    "attention": lambda: _traced(Attention(), torch.randint(0, 40, (1, 9))),
    "attention_scripted": lambda: _scripted(Attention(), torch.randint(0, 40, (1, 9))),
    "quantized_qnnpack": lambda: _converted("qnnpack"),
    "quantized_x86": lambda: _converted("x86"),
    "trained_resnet": lambda: _trained("qnnpack"),
    "fake_quant_qnnpack": lambda: _fake_quantized("qnnpack"),
    "fake_quant_x86": lambda: _fake_quantized("x86"),
}


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    else:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


def make(folder: Path, names: list[str]) -> None:
    """Write the models that ``names`` lists, or all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        torch.manual_seed(len(name))
        module, inputs = MODELS[name]()
        with torch.no_grad():
            outputs = module(*inputs)
        torch.jit.save(module, str(folder / f"{name}.pt"))
        arrays: dict[str, np.ndarray] = {
            f"in:{i}": tensor.numpy() for i, tensor in enumerate(_tensors(inputs))
        }
        arrays |= {f"out:{i}": tensor.numpy() for i, tensor in enumerate(_tensors(outputs))}
        np.savez(folder / f"{name}.npz", **arrays)
        print(f"{name}: {[list(a.shape) for a in arrays.values()]}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[*MODELS, []])
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(arguments.folder, arguments.names)


if __name__ == "__main__":
    main()
