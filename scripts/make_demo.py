"""Make the demo model and its samples again: a small CNN on the UCI digits of scikit-learn.

    python -m venv /tmp/train
    /tmp/train/bin/pip install torch==2.13.0 scikit-learn==1.9.1 onnx==1.23.2 pillow
    /tmp/train/bin/python scripts/make_demo.py [--out FOLDER]

It needs torch, scikit-learn, onnx and pillow; the program itself needs none of the first two.
Everything is seeded and runs on one thread, so that a second run on the same kind of CPU writes the
same bytes.

Written to ``rknntui/demo`` (or ``--out``):

* ``digits_demo.onnx``: input ``image`` float32 (1, 1, 8, 8), normalised with mean 127.5 and std
  127.5; output ``logits`` float32 (1, 10). Opset 17, BatchNormalization left in the graph.
* ``calibration/NNN.png``: 100 samples, 8-bit grey pictures of 8x8, listed in ``dataset.txt``.
* ``test.npz``: ``samples`` uint8 (500, 8, 8) and ``labels`` uint8 (500,).

The grey levels 0..16 of the source become bytes by ``round(level * 255 / 16)``. Training,
calibration and test samples are disjoint; nothing but the final accuracy is ever computed on the
test samples.

Source of the digits: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI
Machine Learning Repository, 1998, doi 10.24432/C50P49, CC BY 4.0.
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

import numpy as np
import onnx
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn

SEED = 20
TEST, CALIBRATION = 500, 100
MEAN = STD = 127.5
EPOCHS = 60
OPSET = 17


def conv_bn(
    ins: int, outs: int, kernel: int = 3, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Convolution, BatchNorm and ReLU, as nets for NPUs are built."""
    conv = nn.Conv2d(ins, outs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outs), nn.ReLU())


def separable(ins: int, outs: int, stride: int = 1) -> nn.Sequential:
    """Depthwise, then pointwise."""
    return nn.Sequential(conv_bn(ins, ins, 3, stride, ins), conv_bn(ins, outs, 1))


class Residual(nn.Module):
    """A separable convolution beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = conv_bn(channels, channels, groups=channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape of ``x``: (N, channels, H, W)."""
        return torch.relu(x + self.norm(self.pointwise(self.depthwise(x))))


class Digits(nn.Module):
    """(N, 1, 8, 8) in, (N, 10) logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_bn(1, 24)
        self.stage1 = nn.Sequential(separable(24, 48), Residual(48))
        self.stage2 = nn.Sequential(separable(48, 80, stride=2), Residual(80))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(80, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores before softmax."""
        x = self.stage2(self.stage1(self.stem(x)))
        return self.head(torch.flatten(self.pool(x), 1))


def split() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Bytes (N, 8, 8) and labels (N,) of the three disjoint parts."""
    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    order = np.random.default_rng(SEED).permutation(len(images))
    parts = np.split(order, [TEST, TEST + CALIBRATION])
    names = ("test", "calibration", "train")
    return {name: (images[p], labels[p]) for name, p in zip(names, parts, strict=True)}


def normalised(images: np.ndarray) -> Tensor:
    """Bytes (N, 8, 8) as the model's input (N, 1, 8, 8)."""
    return torch.from_numpy(((images[:, None].astype(np.float32)) - MEAN) / STD)


def shifted(batch: Tensor, generator: torch.Generator) -> Tensor:
    """Every sample moved by up to one pixel and dimmed a little: 1,197 digits are few."""
    padded = nn.functional.pad(batch, (1, 1, 1, 1), value=-1.0)
    offsets = torch.randint(0, 3, (len(batch), 2), generator=generator).tolist()
    moved = [p[:, y : y + 8, x : x + 8] for p, (y, x) in zip(padded, offsets, strict=True)]
    gain = 0.8 + 0.2 * torch.rand(len(batch), 1, 1, 1, generator=generator)
    return (torch.stack(moved) + 1) * gain - 1


def train(images: np.ndarray, labels: np.ndarray) -> Digits:
    """The trained net, in evaluation mode."""
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    inputs, targets = normalised(images), torch.from_numpy(labels.astype(np.int64))
    net = Digits()
    steps = EPOCHS * -(-len(inputs) // 32)
    optimiser = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(inputs), generator=generator).split(32):
            optimiser.zero_grad()
            scores = net(shifted(inputs[chosen], generator))
            nn.functional.cross_entropy(scores, targets[chosen], label_smoothing=0.05).backward()
            optimiser.step()
            schedule.step()
    return net.eval()


def export(net: Digits) -> bytes:
    """The net as checked ONNX, with names that read well and BatchNormalization kept."""
    buffer = io.BytesIO()
    torch.onnx.export(
        net,
        (torch.zeros(1, 1, 8, 8),),
        buffer,
        input_names=["image"],
        output_names=["logits"],
        opset_version=OPSET,
        dynamo=False,
        # Evaluation mode would fold BatchNorm into the convolutions: our passes do that.
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
    )
    model = onnx.load_from_string(buffer.getvalue())
    model.graph.name = "digits_demo"
    model.doc_string = "Digits of 8x8 grey pixels; made by scripts/make_demo.py"
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def write(out: Path, model: bytes, parts: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Write everything below ``out``, replacing what an earlier run left."""
    shutil.rmtree(out / "calibration", ignore_errors=True)
    (out / "calibration").mkdir(parents=True)
    (out / "digits_demo.onnx").write_bytes(model)
    lines = []
    for index, image in enumerate(parts["calibration"][0]):
        lines.append(f"calibration/{index:03d}.png")
        Image.fromarray(image).save(out / lines[-1], optimize=True)
    (out / "dataset.txt").write_text("\n".join(lines) + "\n", encoding="ascii")
    samples, labels = parts["test"]
    np.savez_compressed(out / "test.npz", samples=samples, labels=labels)


def main() -> None:
    """Split, train, export, write, and print the accuracy on the test samples."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = Path(__file__).resolve().parents[1] / "rknntui" / "demo"
    parser.add_argument("--out", type=Path, default=default)
    out: Path = parser.parse_args().out
    parts = split()
    net = train(*parts["train"])
    model = export(net)
    write(out, model, parts)
    with torch.no_grad():
        for name, (images, labels) in parts.items():
            right = int((net(normalised(images)).argmax(1).numpy() == labels).sum())
            print(f"{name}: {right} of {len(labels)} right ({right / len(labels):.2%})")
    print(f"{out / 'digits_demo.onnx'}: {len(model)} bytes")


if __name__ == "__main__":
    main()
