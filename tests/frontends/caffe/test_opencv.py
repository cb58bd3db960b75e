"""Whole nets of the kinds that people have, against OpenCV 4.14's own reader and kernels."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.base.files import atomic_write
from engine.frontends.load import find_source, load_source
from engine.graph.execute.session import Session
from tests.frontends.caffe.nets import caffemodel, floats, inputs, layer


class _Builder:
    """A net in the making: layers and their weights side by side."""

    def __init__(self, **shapes: tuple[int, ...]) -> None:
        self.text = inputs(**shapes)
        self.blobs: dict[str, list[np.ndarray]] = {}
        self.feeds = {name: floats(len(name), *shape) for name, shape in shapes.items()}

    def add(
        self, kind: str, bottoms: str, top: str, params: str = "", *shapes: tuple[int, ...]
    ) -> None:
        # OpenCV gives results by the names of layers: the first to make a blob has its name
        first = top.split()[0]
        name = first if f'name: "{first}"' not in self.text else f"{first}_{kind}"
        self.text += layer(kind, bottoms, top, params, name)
        fan = [max(1, int(np.prod(shape[1:]))) ** 0.5 for shape in shapes]
        if shapes:
            self.blobs[name] = [
                floats(index + len(self.blobs), *shape) / width
                for index, (shape, width) in enumerate(zip(shapes, fan, strict=True))
            ]
        if kind == "BatchNorm":
            mean, variance, _ = self.blobs[name]
            self.blobs[name] = [mean, np.abs(variance) + 0.5, np.array([2.0])]

    def conv(self, bottom: str, top: str, channels: int, more: str, weight: tuple) -> None:
        params = f"convolution_param {{ num_output: {channels} {more} }}"
        self.add("Convolution", bottom, top, params, weight, (channels,))


def _ssd() -> tuple[_Builder, list[str]]:
    """Normalize, heads by Permute and Flatten, PriorBox; the end of every SSD without its NMS."""
    net = _Builder(data=(1, 3, 48, 64))
    net.conv("data", "c1", 8, "kernel_size: 3 stride: 4 pad: 1", (8, 3, 3, 3))
    net.add("ReLU", "c1", "c1")
    params = "norm_param { across_spatial: false channel_shared: false }"
    net.add("Normalize", "c1", "n1", params, (8,))
    for index, (bottom, priors) in enumerate({"n1": 4, "c2": 6}.items()):
        if bottom == "c2":
            net.conv("c1", "c2", 8, "kernel_size: 3 stride: 2 pad: 1", (8, 8, 3, 3))
        for head, count in {"loc": 4, "conf": 3}.items():
            top, number = f"{head}{index}", priors * count
            net.conv(bottom, top, number, "kernel_size: 3 pad: 1", (number, 8, 3, 3))
            net.add("Permute", top, f"{top}p", "permute_param { order: [0, 2, 3, 1] }")
            net.add("Flatten", f"{top}p", f"{top}f", "flatten_param { axis: 1 }")
        ratios = "aspect_ratio: 2" + (" aspect_ratio: 3" if priors == 6 else "")
        params = (
            f"prior_box_param {{ min_size: 12 max_size: 24 {ratios} flip: true clip: true "
            "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 offset: 0.5 }"
        )
        net.add("PriorBox", f"{bottom} data", f"box{index}", params)
    net.add("Concat", "loc0f loc1f", "loc")
    net.add("Concat", "conf0f conf1f", "conf")
    net.add("Concat", "box0 box1", "boxes", "concat_param { axis: 2 }")
    net.add("Reshape", "conf", "rows", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }")
    net.add("Softmax", "rows", "scores", "softmax_param { axis: 2 }")
    return net, ["loc", "scores", "boxes"]


def _segmentation() -> tuple[_Builder, list[str]]:
    """A decoder: dilated convolution, Deconvolution, Crop, Eltwise."""
    net = _Builder(data=(1, 3, 30, 38))
    net.conv("data", "c1", 6, "kernel_size: 3 pad: 2 dilation: 2", (6, 3, 3, 3))
    net.add("PReLU", "c1", "a1", "", (6,))
    net.add("Pooling", "a1", "p1", "pooling_param { kernel_size: 3 stride: 2 }")
    params = "convolution_param { num_output: 6 kernel_size: 4 stride: 2 group: 2 }"
    net.add("Deconvolution", "p1", "up", params, (6, 3, 4, 4), (6,))
    net.add("Crop", "up a1", "cut", "crop_param { axis: 2 offset: 1 }")
    net.add("Eltwise", "cut a1", "sum", "eltwise_param { coeff: 1 coeff: -0.5 }")
    net.add("Eltwise", "cut a1", "most", "eltwise_param { operation: MAX }")
    net.add("Slice", "sum", "s1 s2", "slice_param { slice_point: 2 }")
    net.add("Power", "s2", "w2", "power_param { power: 2 scale: 0.5 shift: 1 }")
    net.add("MVN", "s1", "m1")
    return net, ["most", "w2", "m1"]


def _classifier() -> tuple[_Builder, list[str]]:
    """AlexNet's and GoogLeNet's parts: LRN, groups, AVE pooling, InnerProduct, Dropout."""
    net = _Builder(data=(2, 4, 21, 19))
    net.conv("data", "c1", 8, "kernel_h: 5 kernel_w: 3 stride: 2 group: 2", (8, 2, 5, 3))
    net.add("ReLU", "c1", "c1", "relu_param { negative_slope: 0.1 }")
    net.add("LRN", "c1", "l1", "lrn_param { local_size: 5 alpha: 0.1 beta: 0.75 }")
    net.add("Pooling", "l1", "p1", "pooling_param { kernel_size: 3 stride: 2 }")
    net.add("Pooling", "p1", "p2", "pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 }")
    net.add("InnerProduct", "p2", "f1", "inner_product_param { num_output: 7 }", (7, 128), (7,))
    net.add("Dropout", "f1", "f1", "dropout_param { dropout_ratio: 0.5 }")
    net.add("TanH", "f1", "t1")
    net.add("InnerProduct", "t1", "f2", "inner_product_param { num_output: 5 }", (5, 7), (5,))
    net.add("Softmax", "f2", "prob")
    net.add("Pooling", "l1", "g", "pooling_param { pool: AVE global_pooling: true }")
    net.add("Sigmoid", "g", "gate")
    return net, ["prob", "gate"]


def _mobile() -> tuple[_Builder, list[str]]:
    """MobileNet's and ShuffleNet's parts: depthwise, BatchNorm and Scale in place, a gate.

    Axpy is left to test_layers: OpenCV's gives another result than its own inputs say.
    """
    net = _Builder(data=(1, 6, 14, 18))
    net.conv("data", "d", 6, "kernel_size: 3 pad: 1 group: 6", (6, 1, 3, 3))
    net.add("BatchNorm", "d", "d", "batch_norm_param { eps: 0.001 }", (6,), (6,), (1,))
    net.add("Scale", "d", "d", "scale_param { bias_term: true }", (6,), (6,))
    net.add("ReLU6", "d", "d")
    net.add("ShuffleChannel", "d", "s", "shuffle_channel_param { group: 3 }")
    net.add("Pooling", "s", "g", "pooling_param { pool: AVE global_pooling: true }")
    net.conv("g", "e", 6, "kernel_size: 1", (6, 6, 1, 1))
    net.add("Sigmoid", "e", "gate")
    net.add("Eltwise", "s d", "y")
    net.add("AbsVal", "y", "z")
    return net, ["gate", "z"]


NETS = {"ssd": _ssd, "segmentation": _segmentation, "classifier": _classifier, "mobile": _mobile}


@pytest.fixture(scope="module")
def opencv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opencv")
    for name, build in NETS.items():
        net, outputs = build()
        (folder / f"{name}.prototxt").write_text(net.text)
        atomic_write(folder / f"{name}.caffemodel", caffemodel(net.blobs))
        np.savez(folder / f"{name}.npz", outputs=outputs, **net.feeds)
    child = Path(__file__).parents[1] / "opencv_child.py"
    command = [sys.executable, str(child), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, re.sub(r"\s+", " ", done.stderr)[-2000:]
    return folder


@pytest.mark.parametrize("name", NETS)
def test_whole_nets_agree_with_opencv(opencv: Path, name: str) -> None:
    net, outputs = NETS[name]()
    source = find_source(opencv / f"{name}.prototxt")
    loaded = load_source(replace(source, options=replace(source.options, outputs=tuple(outputs))))
    found = Session(loaded.graph, outputs=outputs).run(net.feeds, outputs)
    wanted = np.load(opencv / f"{name}.out.npz")
    for output in outputs:
        assert found[output].shape == wanted[output].shape
        assert np.abs(found[output] - wanted[output]).max() <= 5e-5
