"""``accuracy_analysis`` and ``NN_LAYER_DUMP`` as the manuals of both generations have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from engine.accuracy import dump_layers
from engine.api import RKNN
from engine.base.errors import OutputError
from engine.graph.execute import Session
from engine.graph.layers import LayerMap
from engine.quantize import QuantizeSettings
from tests.accuracy.build import built, feeds, float_graph, made


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model and two pictures, where the script stands."""
    monkeypatch.chdir(tmp_path)
    onnx.save(float_graph().to_proto(), tmp_path / "small.onnx")
    rng = np.random.default_rng(0)
    for name in ("a.png", "b.png"):
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(tmp_path / name)
    (tmp_path / "dataset.txt").write_text("a.png\nb.png\n")
    (tmp_path / "one.txt").write_text("b.png\n")
    return tmp_path


def ready(generation: int, *, quantize: bool = True) -> RKNN:
    rknn = RKNN(generation=generation)
    if generation == 1:
        rknn.config(channel_mean_value="127 127 127 60", reorder_channel="0 1 2")
    else:
        rknn.config(mean_values=[[127] * 3], std_values=[[60] * 3])
    assert rknn.load_onnx("small.onnx") == 0
    assert rknn.build(do_quantization=quantize, dataset="dataset.txt") == 0
    return rknn


def test_generation_1_takes_a_list_of_one_line(place: Path) -> None:
    rknn = ready(1)
    assert rknn.accuracy_analysis("one.txt", "out") == 0
    text = (place / "out/error_analysis.txt").read_text()
    assert "manuals of generation 1 show no layout" in text
    assert (place / "out/golden/npy/r1.npy").exists()
    assert (place / "out/simulator/npy/r1.npy").exists()
    # tensors without their errors
    assert rknn.accuracy_analysis(inputs="one.txt", output_dir="out", calc_qnt_error=False) == 0
    assert not (place / "out/error_analysis.txt").exists()
    assert (place / "out/simulator/npy/r1.npy").exists()


@pytest.mark.parametrize(
    ("keywords", "word"),
    [
        ({"inputs": "dataset.txt"}, "2 samples"),
        ({"inputs": ["a.png"]}, "needs a dataset file"),
        ({"inputs": "none.txt"}, "does not exist"),
        ({"inputs": "one.txt", "compiled": "layers.rknn"}, "compiled needs a target"),
        ({"inputs": "one.txt", "device_id": "515e9b40"}, "device_id needs a target"),
        ({"inputs": "one.txt", "dump_file_type": "bmp"}, "dump_file_type"),
        ({"inputs": "one.txt", "output_dir": 3}, "output_dir"),
    ],
)
def test_generation_1_refuses_with_the_reason(
    place: Path, capsys: pytest.CaptureFixture[str], keywords: dict[str, object], word: str
) -> None:
    rknn = ready(1)
    assert rknn.accuracy_analysis(**{"output_dir": "out", **keywords}) == -1
    assert word in capsys.readouterr().err
    assert not (place / "out").exists()


@pytest.mark.parametrize("generation", [1, 2])
def test_no_folder_is_the_manuals_folder(place: Path, generation: int) -> None:
    """As the vendor's examples call it."""
    (place / "line.txt").write_text("a.png\n")
    inputs = "line.txt" if generation == 1 else ["a.png"]
    assert ready(generation).accuracy_analysis(inputs, output_dir=None) == 0
    assert (place / "snapshot" / "error_analysis.txt").exists()


def test_a_build_without_quantization_has_no_error(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ready(2, quantize=False).accuracy_analysis(["a.png"]) == -1
    assert "not quantized" in capsys.readouterr().err


def test_a_model_that_came_quantized_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[RKNN-T2 1.1.0, 3.5.13; RKNN-T2 2.3.0, 2.13]: the source must be a float model."""
    onnx.save(built()[1].graph.to_proto(), place / "small.onnx")
    assert ready(2).accuracy_analysis(["a.png"]) == -1
    assert "was already quantized" in capsys.readouterr().err


def test_layer_dump_writes_a_file_for_each_layer(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rknn = ready(1)
    assert rknn.init_runtime() == 0
    picture = np.asarray(Image.open("a.png"))
    assert not list(place.glob("layer_*"))
    monkeypatch.setenv("NN_LAYER_DUMP", "1")
    outputs = rknn.inference([picture])
    assert outputs is not None
    files = sorted(path.name for path in place.glob("layer_*"))
    assert files[0] == "layer_0000_x.npy"
    names = [name[11:-4] for name in files]
    # c1 and c2 are merged with the clamps behind them
    assert [n for n in names if not n.startswith("x")] == [
        "r1",
        "k2",
        "a_sum",
        "m",
        "f",
        "g",
        "prob",
    ]
    assert np.array_equal(np.load(place / files[-1]), outputs[0])
    assert "layer_NUMBER_NAME.npy" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["w8a8", "w8a16", "dynamic_fixed_point-8", "float16"])
def test_dumped_tensors_are_those_of_the_whole_graph(tmp_path: Path, dtype: str) -> None:
    _, done = made(8, QuantizeSettings(dtype=dtype))
    (sample,) = feeds(1, seed=4)
    files = dump_layers(done.graph, done.layers, sample, tmp_path)
    tensors = ["r1", "k2", "a/sum", "g", "prob"]
    wanted = Session(done.graph, outputs=tensors).run(sample, tensors)
    found = {path.name[11:-4]: np.load(path) for path in files}
    for name in tensors:
        # half precision: sums in another order may round to the neighbour
        slack = 1e-3 if "16" in dtype else 1e-6
        assert np.abs(found[name.replace("/", "_")] - wanted[name]).max() <= slack, name


def test_a_dump_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OutputError):
        dump_layers(float_graph(), LayerMap(), feeds(1)[0], file)
