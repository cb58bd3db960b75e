"""Packages that stand in for the model zoos of PyTorch and MXNet, which examples download from."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_TORCHVISION = {
    "__init__.py": "from torchvision import models\n",
    "models/__init__.py": '''"""Any name is a classifier of a few layers with random weights."""

import torch

from torchvision.models import quantization


def _net(*_args, **_keywords):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, 2, 1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 1000),
    ).eval()


mnasnet0_5 = resnet18 = _net
''',
    "models/quantization.py": '''"""A quantized classifier, as torch.ao makes one after training."""

import torch
from torch.ao import quantization as ao


def mobilenet_v2(*_args, **_keywords):
    torch.manual_seed(0)
    torch.backends.quantized.engine = "qnnpack"
    net = torch.nn.Sequential(
        ao.QuantStub(),
        torch.nn.Conv2d(3, 8, 3, 2, 1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 1000),
        ao.DeQuantStub(),
    ).eval()
    net.qconfig = ao.get_default_qconfig("qnnpack")
    ao.fuse_modules(net, [["1", "2"]], inplace=True)
    ao.prepare(net, inplace=True)
    net(torch.rand(1, 3, 224, 224))
    return ao.convert(net)
''',
}
_MXNET = {
    "mxnet/__init__.py": '''"""No more than an array of ones."""

import numpy as np


class nd:
    ones = staticmethod(np.ones)
''',
    "gluoncv/__init__.py": '''"""Its export is there already: the stand-in's files."""

from pathlib import Path


class _Net:
    def hybridize(self):
        pass

    def __call__(self, *_inputs):
        pass

    def export(self, prefix):
        assert Path(prefix + "-symbol.json").is_file()
        assert Path(prefix + "-0000.params").is_file()


class model_zoo:
    @staticmethod
    def get_model(_name, pretrained=False):
        return _Net()
''',
}


def make_packages(folder: Path) -> Path:
    """Write the stand-ins of packages that are not installed; returns the folder."""
    files = {f"torchvision/{name}": text for name, text in _TORCHVISION.items()} | _MXNET
    for name, text in files.items():
        if importlib.util.find_spec(name.partition("/")[0]) is None:
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return folder
