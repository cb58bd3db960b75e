"""Files are recognised by what they hold, never by their suffix."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.base.errors import SourceModelError
from engine.frontends import sniff
from tests.graph.models import float_net


def zipped(*names: str) -> bytes:
    """A zip archive of empty files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return stream.getvalue()


CONTENT: list[tuple[bytes, str, str]] = [
    (b"", "unknown", "empty file"),
    (b"RKNN" + bytes(4) + (6).to_bytes(8, "little") + bytes(8) + b"OPENMODL", "rknn", "RKNN TUI"),
    (b"RKNN" + bytes(4) + (6).to_bytes(8, "little") + bytes(56), "rknn_vendor", "vendor"),
    (b"RKNX" + bytes(60), "rknn_vendor", "RKNX"),
    (b"CYPTRKNN" + bytes(60), "rknn_vendor", "encrypted"),
    (bytes(4) + b"RKNN" + bytes(60), "rknn_vendor", "FlatBuffer"),
    (b"VPMN" + bytes(60), "rknn_vendor", "NBG"),
    (bytes(4) + b"TFL3" + bytes(60), "tflite", "TensorFlow Lite"),
    (b"\x80\x02}q\x00" + bytes(40), "pytorch_pickle", "pickle"),
    (zipped("m/code/a.py", "m/constants.pkl", "m/data.pkl"), "pytorch", "TorchScript"),
    (zipped("m/data.pkl", "m/data/0"), "pytorch_state", "torch.save"),
    (zipped("m/data.pkl", "m/data/0")[:60], "unknown", "damaged TorchScript"),
    (zipped("x.npy"), "npz", "npz"),
    (zipped("word/document.xml"), "unknown", "zip archive"),
    (b"\x89HDF\r\n\x1a\n", "unknown", "HDF5"),
    (b"\x1f\x8b\x08", "unknown", "gzip"),
    (b"\x7fELF\x02", "unknown", "ELF"),
    (b"\x12\x01" + bytes(14), "mxnet_weights", "MXNet parameters"),
    (b'{"nodes": [{"op": "null", "name": "data"}]}', "mxnet", "MXNet symbol"),
    (b'{"a": 1}', "unknown", "JSON"),
    (b"version: 1\nsource:\n  model: m.onnx\n", "recipe", "recipe"),
    (b"source:\n  model: m.onnx\npreprocess:\n  mean_values: [[0, 0, 0]]\n", "recipe", "recipe"),
    (b"version: 1\npreprocess:\n  mean_values: [[0, 0, 0]]\n", "recipe", "recipe"),
    (b"model: m.onnx\nmean_values: [[0, 0, 0]]\n", "recipe", "recipe"),
    (b"version: 3\nservices:\n  model: m.onnx\n", "unknown", "text file"),
    (b"# mine\na/b.jpg\nc.PNG d.npy\n", "dataset", "dataset"),
    (b"just some words\n", "unknown", "text file"),
    (
        b"# " + "层".encode("gbk") * 40 + b"\n[net]\nwidth=320\n" + b"x=1\n" * 60,
        "darknet",
        "Darknet",
    ),
    (b"# a licence\n" * 500 + b"layer {\n}\n", "caffe", "Caffe network"),
    ("Grüße\n".encode(), "unknown", "text file"),
    (b"[net]\nwidth=320\n", "darknet", "Darknet"),
    (b"# yolo\n[network]\nwidth=320\n", "darknet", "Darknet"),
    (struct.pack("<3iQ", 0, 2, 5, 0) + bytes(40), "darknet_weights", "Darknet"),
    (b'name: "n"\nlayer {\n  name: "data"\n}', "caffe", "Caffe network"),
    (b'node {\n  name: "x"\n  op: "Placeholder"\n}', "unknown", "pbtxt"),
    (b'model_checkpoint_path: "m-1"\n', "checkpoint", "checkpoint"),
    (b"\n\x03net\xa2\x06\x05\n\x03abc", "caffe_weights", "Caffe model"),
    (b"\n\x03net" + b"\x12\x05\x1a\x03abc" * 2, "caffe_weights", "Caffe model"),
    (b"\x12\x05\x1a\x03abc" * 2 + b"\x12\x05\x1a", "caffe_weights", "Caffe model"),  # cut
    (b"\n\x05\n\x03abc" * 2, "tensorflow", "GraphDef"),
    (b"\n\x05\n\x03abc" * 2 + b"\x12\x02\x12\x00", "tensorflow", "GraphDef"),
    (b"\x08\x01\x12\x02\n\x00", "saved_model", "SavedModel"),
    (b"RKNN" + bytes(4) + b"\x02" + bytes(15) + b"SHDR" + bytes(40), "rknnop", "custom operator"),
    (b"\xff\xfe\x00\x01" * 20, "unknown", "unknown binary"),
]


@pytest.mark.parametrize(("content", "kind", "words"), CONTENT, ids=lambda v: str(v)[:24])
def test_content_decides(tmp_path: Path, content: bytes, kind: str, words: str) -> None:
    for name in ("file.onnx", "file.jpg", "file"):
        path = tmp_path / name
        path.write_bytes(content)
        found = sniff(path)
        assert found.kind == kind
        assert words in found.format
        assert found.why


def test_onnx_also_with_reordered_fields_and_when_cut(tmp_path: Path) -> None:
    path = tmp_path / "picture.jpg"
    data = float_net().SerializeToString()
    path.write_bytes(data)
    assert sniff(path).kind == "onnx"
    # the version field after the graph: protobuf allows any order
    path.write_bytes(data[2:] + data[:2])
    assert data[0] == 0x08
    assert sniff(path).kind == "onnx"
    path.write_bytes(data[: len(data) // 2])
    assert sniff(path).kind == "onnx"
    assert "too early" in sniff(path).why


@pytest.mark.parametrize("suffix", ["png", "bmp", "jpg"])
def test_pictures_and_arrays(tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / "a.bin"
    with picture.open("wb") as stream:
        Image.new("RGB", (4, 4)).save(stream, {"jpg": "JPEG"}.get(suffix, suffix.upper()))
    assert sniff(picture).kind == "picture"
    with picture.open("wb") as stream:
        np.save(stream, np.zeros(3))
    assert sniff(picture).format == "numpy array"


def test_a_long_dataset_is_judged_by_its_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_text("".join(f"pictures/some_long_name_{i}.jpg\n" for i in range(1000)))
    assert sniff(path).kind == "dataset"


def test_folders_missing_files_and_devices(tmp_path: Path) -> None:
    assert sniff(tmp_path).kind == "folder"
    for path, what in ((tmp_path / "no", "does not exist"), (Path("/dev/null"), "device")):
        with pytest.raises(SourceModelError, match=what):
            sniff(path)
    with pytest.raises(SourceModelError):
        sniff("a\0b")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceModelError, match="pipe"):
        sniff(tmp_path / "pipe")


def test_the_zoo_is_recognised(zoo: Path) -> None:
    wanted = {
        "onnx/*.onnx": "onnx",
        "shapes/**/*.onnx": "onnx",
        "rknn_vendor/*.rknn": "rknn_vendor",
        "images/**/*.jpg": "picture",
        "rknn_vendor/*.rknnop": "rknnop",
        "tflite/*": "tflite",
        "tensorflow/*.pb": "tensorflow",
        "caffe/*.caffemodel": "caffe_weights",
        "caffe/*.prototxt": "caffe",
        "mxnet/*.params": "mxnet_weights",
        "mxnet/*.json": "mxnet",
        "darknet/*.cfg": "darknet",
        "darknet/*.weights": "darknet_weights",
        "pytorch/*.pth": "pytorch_pickle",
    }
    for pattern, what in wanted.items():
        files = sorted(zoo.glob(pattern))
        assert files
        for file in files:
            found = sniff(file)
            assert what in (found.kind, found.format), file
