"""The readers that are attacked, and the valid files that the damage starts from."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rknntui.demo import demo_folder

__all__ = ["READERS", "Attack", "Case"]


@dataclass(frozen=True)
class Case:
    """Files that belong together: name -> (content, whether it is text); ``main`` is opened."""

    main: str
    files: Mapping[str, tuple[bytes, bool]]


@dataclass(frozen=True)
class Attack:
    read: Callable[[Path], object]
    cases: tuple[Case, ...]


def load(path: Path, **options: object) -> None:
    """Load a source model as everybody does, look at it first, and verify the graph."""
    from engine.frontends.load import find_source, inspect_source, load_source
    from engine.frontends.source import LoadOptions
    from engine.graph.ir import verify

    source = find_source(path, None, LoadOptions(**options))  # type: ignore[arg-type]
    inspect_source(source)
    verify(load_source(source).graph)


def pair(folder: Path, main: str, weights: str) -> Case:
    files = {main: (folder / main).read_bytes(), weights: (folder / weights).read_bytes()}
    return Case(main, {name: (content, name == main) for name, content in files.items()})


def single(path: Path, *, text: bool = False) -> Case:
    return Case(path.name, {path.name: (path.read_bytes(), text)})


def caffe(zoo: Path) -> Attack:
    return Attack(load, (pair(zoo / "caffe", "mtcnn_det1.prototxt", "mtcnn_det1.caffemodel"),))


DARKNET = b"""[net]
width=32
height=32
channels=3
[convolutional]
batch_normalize=1
filters=8
size=3
stride=2
pad=1
activation=leaky
[maxpool]
size=2
stride=2
[convolutional]
filters=8
size=1
stride=1
pad=1
groups=2
activation=mish
[shortcut]
from=-2
activation=linear
[route]
layers=-1,0
groups=1
[upsample]
stride=2
[convolutional]
filters=18
size=1
stride=1
activation=linear
[yolo]
mask=0,1,2
anchors=10,14, 23,27, 37,58
classes=1
num=3
"""


def darknet(zoo: Path) -> Attack:
    cfg = DARKNET.replace(b"[route]\nlayers=-1,0\ngroups=1\n", b"")
    convolutions = (8 * 4 + 8 * 27) + (8 + 8 * 4) + (18 + 18 * 8)
    values = np.random.default_rng(0).uniform(0.1, 1, convolutions).astype("<f4").tobytes()
    weights = struct.pack("<3iQ", 0, 2, 5, 0) + values
    return Attack(load, (Case("n.cfg", {"n.cfg": (cfg, True), "n.weights": (weights, False)}),))


def mxnet(zoo: Path) -> Attack:
    case = pair(zoo / "mxnet", "mtcnn_det1-symbol.json", "mtcnn_det1-0001.params")
    return Attack(lambda path: load(path, input_size_list=((1, 3, 32, 32),)), (case,))


def tflite(zoo: Path) -> Attack:
    names = ("micro_speech_int8.tflite", "mnist_lstm_float.tflite")
    return Attack(load, tuple(single(zoo / "tflite" / name) for name in names))


def onnx(zoo: Path) -> Attack:
    names = ("multiple_input_test.onnx", "concat_block.onnx")
    own = single(demo_folder() / "digits_demo.onnx")
    return Attack(load, (own, *(single(zoo / "onnx" / name) for name in names)))


def rknn(zoo: Path) -> Attack:
    """The vendor's files of both generations with their views, and a small container of ours."""
    from engine.container import read_container, write_container
    from engine.container.vendor import inspect_vendor, vendor_graph_view, vendor_view
    from engine.frontends.sniff import sniff
    from tests.container.build import content

    def read(path: Path) -> object:
        ours = sniff(path).kind == "rknn"
        if ours:
            return read_container(path)
        model = inspect_vendor(path)
        return vendor_view(model), vendor_graph_view(model)

    names = ("dual_residual_RK3562.rknn", "multiple_input_RK3588.rknn")
    vendor = [single(zoo / "rknn_vendor" / name) for name in (*names, "resize_area_toolkit1.rknn")]
    own = Case("own.rknn", {"own.rknn": (write_container(content()), False)})
    return Attack(read, (*vendor, own))


def encrypted(zoo: Path) -> Attack:
    """An encrypted container, read with its key; what derives the key costs nothing here."""
    from engine.container import encryption, read_container, write_container
    from engine.container.keys import key_of_text
    from tests.container.build import content

    cost = encryption.Cost
    encryption.LEVELS.update({1: cost(1, 8, 1), 2: cost(2, 8, 1), 3: cost(2, 8, 2)})
    key, data, sealed = key_of_text("secret"), write_container(content()), io.BytesIO()
    encryption.encrypt(io.BytesIO(data), len(data), sealed, key)
    own = Case("own.rknn", {"own.rknn": (sealed.getvalue(), False)})
    return Attack(lambda path: read_container(path, key), (own,))


def rknnop(zoo: Path) -> Attack:
    from engine.container.vendor import inspect_op_package

    return Attack(inspect_op_package, (single(zoo / "rknn_vendor" / "Exp.rknnop"),))


RECIPE = b"""version: 1
source:
  model: a.onnx
  input_size_list: [[1, 3, 224, 224]]
  custom_ops: [ops.py:cstSoftmax]
preprocess:
  mean_values: [[127.5, 127.5, 127.5]]
  std_values: [[128, 128, 128]]
  quant_img_RGB2BGR: true
quantization: {do_quantization: yes, quantized_dtype: w8a8, optimization_level: 3}
target: {target_platform: rk3588, custom_string: "hello"}
dataset: {dataset: dataset.txt, dataset_count: 20}
"""


def recipe(_zoo: Path) -> Attack:
    from engine.recipe import dump_recipe, load_recipe

    def read(path: Path) -> object:
        return dump_recipe(load_recipe(path))

    return Attack(read, (Case("r.yaml", {"r.yaml": (RECIPE, True)}),))


def dataset(_zoo: Path) -> Attack:
    """The list, and a picture and an array that it names."""
    from engine.dataset import Preprocess, read_dataset, samples
    from engine.graph.ir import TensorSpec
    from engine.recipe import Recipe

    picture = next((demo_folder() / "calibration").glob("*.png")).read_bytes()
    stream = io.BytesIO()
    np.save(stream, np.zeros((1, 1, 8, 8), np.float32))
    files = {
        "dataset.txt": (b"a.png\nb.npy\n\na.png\n", True),
        "a.png": (picture, False),
        "b.npy": (stream.getvalue(), False),
    }
    plan = Preprocess.from_recipe(Recipe.from_values({}))

    def read(path: Path) -> object:
        inputs = (TensorSpec("image", (1, 1, 8, 8), "float32"),)
        return list(samples(read_dataset(path), inputs, plan))

    return Attack(read, (Case("dataset.txt", files),))


def npz(_zoo: Path) -> Attack:
    """The constants of ``predef_file`` and the test set of ``score``."""
    from engine.frontends.tensorflow.selection import read_predef

    stream = io.BytesIO()
    np.savez(stream, phase=np.array(False), **{"scope#keep": np.ones(3, np.float32)})
    case = Case("p.npz", {"p.npz": (stream.getvalue(), False)})
    return Attack(read_predef, (case,))


def labelled(_zoo: Path) -> Attack:
    from engine.accuracy.labelled import read_labelled

    stream = io.BytesIO()
    np.savez(stream, samples=np.zeros((3, 4, 4), np.uint8), labels=np.arange(3))
    return Attack(read_labelled, (Case("l.npz", {"l.npz": (stream.getvalue(), False)}),))


def recording(_zoo: Path) -> Attack:
    """A watch of a board, shown again."""
    from engine.base.events import NullReporter
    from engine.devices.watch.watch import replay_recording
    from engine.wire.monitor import ReplayParams

    sample = b'{"sample":{"device":"adb:x","at":%d,"state":{"npu_load":[1.0,2.5],"npu_clock":10,'
    sample += b'"temperatures":[{"zone":"npu","celsius":41.6}],"memory":{"total":9}}}}\n'
    content = b'{"format":"rknntui-monitor","version":1,"hertz":10.0}\n'
    content += b'{"board":{"device":"adb:x","label":"measured","chip":"rk3588","cores":3}}\n'
    content += b"".join(sample % at for at in range(4)) + b'{"end":{"seconds":4.5}}\n'

    def read(path: Path) -> object:
        return replay_recording(ReplayParams(str(path), speed=0), NullReporter())

    return Attack(read, (Case("r.jsonl", {"r.jsonl": (content, True)}),))


READERS: Mapping[str, Callable[[Path], Attack]] = {
    read.__name__: read
    for read in (
        *(caffe, darknet, mxnet, tflite, onnx, rknn, encrypted, rknnop, recipe, dataset, npz),
        *(labelled, recording),
    )
}
