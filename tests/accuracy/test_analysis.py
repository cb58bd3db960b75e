"""Cumulative and isolated errors against sums done by hand; the vendor's files to the byte."""

from __future__ import annotations

import errno
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.utils import Extractor

from engine.accuracy import (
    AccuracyReport,
    Row,
    SnapshotWriter,
    analyse,
    error_table,
    file_names,
    layer_rows,
)
from engine.accuracy.snapshot import euclidean_text, npy_header, value_lines
from engine.base.errors import JobCancelledError, OutputError, OutputExistsError, UsageError
from engine.base.events import CallbackReporter
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.metrics import cosine, euclidean, sqnr
from engine.wire.build import Distance, LayerAccuracy
from engine.wire.codec import encode
from tests.accuracy.build import assert_near, built, feeds


def golden_of(sample: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, np.ndarray]:
    graph, _ = built()
    return Session(graph, outputs=list(names)).run(sample, list(names))


# ------------------------------------------------------------------------------------------ rows


def test_rows_follow_the_float_graph() -> None:
    _, quantized = built()
    rows = layer_rows(quantized)
    assert [(row.op, row.label, row.simulated is None) for row in rows] == [
        ("Input", "x", False),
        ("exDataConvert", "x_int8", False),
        ("Conv", "c1", True),  # fused with its Relu
        ("Relu", "r1", False),
        ("Conv", "c2", True),
        ("Clip", "k2", False),
        ("Add", "a/sum", False),
        ("MaxPool", "m", False),
        ("Reshape", "f", False),
        ("Gemm", "g", False),
        ("Softmax", "prob", False),
    ]


# --------------------------------------------------------------------------------------- figures


def test_cumulative_is_the_distance_of_two_whole_runs() -> None:
    _, quantized = built()
    (sample,) = feeds(1, seed=9)
    report = analyse(quantized, [sample])
    tensors = ["r1", "k2", "a/sum", "m", "f", "g", "prob"]
    golden = golden_of(sample, tensors)
    simulated = Session(quantized.graph, outputs=tensors).run(sample, tensors)
    layers = {layer.tensor: layer for layer in report.layers}
    for name in tensors:
        layer = layers[name]
        assert layer.cumulative is not None
        assert layer.cumulative.cosine == pytest.approx(
            cosine(golden[name], simulated[name]), abs=1e-6
        )
        # the golden graph runs in parts here: the last bits of its floats differ
        wanted = euclidean(golden[name], simulated[name])
        assert layer.cumulative.euclidean == pytest.approx(wanted, rel=1e-4)
        assert layer.sqnr == pytest.approx(sqnr(golden[name], simulated[name]), abs=0.01)
    assert layers["c1"].cumulative is layers["c1"].isolated is layers["c1"].sqnr is None
    assert layers["x"].cumulative == layers["x"].isolated == Distance(1.0, 0.0)
    assert layers["x"].sqnr is None


SINGLE = {  # row -> the rows that its layer reads
    "r1": ["x"],
    "k2": ["r1"],
    "a/sum": ["r1", "k2"],
    "m": ["a/sum"],
    "f": ["m"],
    "g": ["f"],
    "prob": ["g"],
}


def test_single_is_each_layer_alone_on_golden_inputs() -> None:
    """Against layers cut out by ONNX's own extractor, fed with golden values quantized in numpy."""
    _, quantized = built()
    (sample,) = feeds(1, seed=9)
    report = analyse(quantized, [sample])
    golden = golden_of(sample, [n for n in SINGLE if n != "x"]) | sample
    extractor = Extractor(onnx.shape_inference.infer_shapes(quantized.graph.to_proto()))
    names = quantized.graph.values
    for layer in report.layers:
        if layer.tensor not in SINGLE:
            continue
        cuts, given_ = [], {}
        for source in SINGLE[layer.tensor]:
            cut = f"{source}/dequantized" if f"{source}/dequantized" in names else source
            params = quantized.table.get(source)
            values = golden[source]
            cuts.append(cut)
            given_[cut] = values if params is None else params.dequantize(params.quantize(values))
        alone = Session(Graph.from_proto(extractor.extract_model(cuts, [layer.tensor])))
        result = alone.run(given_)[layer.tensor]
        assert layer.isolated is not None
        wanted = euclidean(golden[layer.tensor], result)
        assert layer.isolated.euclidean == pytest.approx(wanted, rel=1e-4, abs=1e-5), layer.tensor


def test_quantized_input_shows_its_own_error() -> None:
    _, quantized = built()
    sample = {"x": feeds(1)[0]["x"] * 3}  # beyond the calibrated range
    report = analyse(quantized, [sample])
    row = report.layers[1]
    params = quantized.table["x"]
    wanted = euclidean(sample["x"], params.dequantize(params.quantize(sample["x"])))
    assert row.cumulative is not None
    assert row.cumulative.euclidean == pytest.approx(wanted)
    assert row.isolated == row.cumulative


def test_several_samples_are_averaged() -> None:
    _, quantized = built()
    both = feeds(2, seed=5)
    together = analyse(quantized, both)
    apart = [analyse(quantized, [sample]) for sample in both]
    assert together.samples == 2
    for index, layer in enumerate(together.layers):
        if layer.cumulative is None:
            continue
        means = [report.layers[index].cumulative for report in apart]
        distance = sum(m.euclidean for m in means if m) / 2
        assert layer.cumulative.euclidean == pytest.approx(distance, rel=1e-4, abs=1e-5)
        cosines = sum(m.cosine for m in means if m) / 2
        assert layer.cumulative.cosine == pytest.approx(cosines, abs=1e-5)
    names = ["g"]
    golden = [golden_of(sample, names)["g"] for sample in both]
    session = Session(quantized.graph, outputs=names)
    simulated = [session.run(sample, names)["g"] for sample in both]
    (row,) = [layer for layer in together.layers if layer.tensor == "g"]
    wanted = sqnr(np.stack(golden), np.stack(simulated))
    assert row.sqnr == pytest.approx(wanted, abs=1e-3)
    assert together.samples == 2


def test_large_graphs_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    _, quantized = built()
    whole = analyse(quantized, feeds(1))
    # the room exports a function of the module's name
    monkeypatch.setattr(importlib.import_module("engine.accuracy.analyse"), "CHUNK_BYTES", 1)
    parts = analyse(quantized, feeds(1))
    assert_near(whole, parts)


def test_no_sample_and_cancel() -> None:
    _, quantized = built()
    with pytest.raises(UsageError):
        analyse(quantized, [])
    reporter = CallbackReporter(lambda _: None, lambda: True)
    with pytest.raises(JobCancelledError):
        analyse(quantized, feeds(1), reporter=reporter)


def test_report_as_json() -> None:
    _, quantized = built()
    layers = [encode(layer) for layer in analyse(quantized, feeds(1)).layers]
    fused, layer = layers[2:4]
    assert fused.pop("sources") == ("conv1",)
    assert fused.pop("dtype") == ""
    assert (fused.pop("name"), fused.pop("op"), fused.pop("tensor")) == ("conv1", "Conv", "c1")
    assert (fused.pop("node"), fused.pop("inner")) == ("conv1", True)
    assert fused.pop("aliases") == layer["aliases"]
    assert (layer["name"], layer["op"], layer["node"], layer["inner"]) == (
        "conv1",
        "Conv",
        "relu1",
        False,
    )
    assert set(fused) == {
        "cumulative",
        "isolated",
        "sqnr",
        "isolated_sqnr",
        "added_share",
        "saturation",
        "output_impact",
    }
    assert not any(value is not None for value in fused.values())
    assert layer["dtype"] == "int8"
    assert set(layer["cumulative"]) == {"cosine", "euclidean"}


def test_a_real_detector(zoo: Path) -> None:
    """RFB-320 on one photograph-sized sample: no layer alone is far off."""
    from engine.frontends.onnx import load_onnx
    from engine.quantize import calibrate, quantize

    graph = load_onnx(zoo / "onnx/version-RFB-320_without_postprocessing.onnx").graph
    rng = np.random.default_rng(0)
    (spec,) = graph.inputs
    smooth = np.kron(rng.uniform(-1, 1, (1, 3, 15, 20)), np.ones((1, 1, 16, 16)))
    sample = {spec.name: smooth.astype(np.float32)}
    quantized = quantize(graph, calibrate(graph, [sample]))
    report = analyse(quantized, [sample])
    singles = [layer.isolated.cosine for layer in report.layers if layer.isolated is not None]
    assert len(singles) > 60
    assert min(singles) > 0.98


# ----------------------------------------------------------------------------------- error table


def report_of(*layers: tuple[str, str, tuple[float, ...]]) -> AccuracyReport:
    """A report; figures are cosine and distance, cumulative and isolated."""
    rows = tuple(Row(tensor, op, tensor, tensor, None, 0) for op, tensor, _ in layers)
    pairs = [(Distance(*f[:2]), Distance(*f[2:])) if f else (None, None) for *_, f in layers]
    found = (
        LayerAccuracy(t, op, t, t, False, (), "int8", (), whole, alone)
        for (op, t, _), (whole, alone) in zip(layers, pairs, strict=True)
    )
    return AccuracyReport(tuple(found), rows, 1)


def test_table_is_the_vendors_to_the_byte() -> None:
    """An excerpt of ``error_analysis.txt`` as toolkit 2.3.2 writes it."""
    report = report_of(
        ("Input", "x", (1, 0, 1, 0)),
        ("exDataConvert", "x_int8", (0.99999, 0.59071, 0.99999, 0.59071)),
        ("Conv", "c1", ()),
        ("Relu", "r1", (0.99997, 0.90622, 0.99997, 0.90622)),
    )
    text = error_table(report)
    comments, _, table = text.partition("\n\n")
    assert [line[0] for line in comments.split("\n")] == ["#"] * 3
    assert "entire" in comments
    assert "single" in comments
    assert table.split("\n") == [
        "layer_name                          simulator_error                    ",
        "                                entire              single             ",
        "                             cos      euc        cos      euc          ",
        "-------------------------------------------------------------------",
        "[Input] x                  1.00000 | 0.0       1.00000 | 0.0           ",
        "[exDataConvert] x_int8     0.99999 | 0.5907    0.99999 | 0.5907        ",
        "[Conv] c1                  ",
        "[Relu] r1                  0.99997 | 0.9062    0.99997 | 0.9062        ",
        "",
    ]
    assert "generation 1" in error_table(report, generation=1)
    assert error_table(report, generation=1).endswith(table)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (0.59071, "0.5907"),
        (0.00461, "0.0046"),
        (1e-9, "0.0000"),
        (9.99996, "10.000"),
        (31.866, "31.866"),
        (180.7349, "180.73"),
        (99.99999, "100.00"),
        (1234.56, "1234.6"),
        (99999.7, "100000"),
        (12345678.9, "12345679"),
    ],
)
def test_distances_have_six_characters(value: float, text: str) -> None:
    assert euclidean_text(value) == text


def test_control_characters_of_names_reach_no_file() -> None:
    assert file_names(["a\x1b[31mb/c"]) == {"a\x1b[31mb/c": "a_[31mb_c"}
    text = error_table(report_of(("Relu", "a\x1b[31mb", ())))
    assert "[Relu] a[31mb" in text
    assert text.replace("\n", "").isprintable()


def test_file_names() -> None:
    labels = ["/blk.0/add_out 1", "a:0", "a/0", "a.0", "a/0", "", "x" * 300, "x" * 299 + "y", ".."]
    names = file_names(labels)
    assert names["/blk.0/add_out 1"] == "_blk_0_add_out 1"
    assert [names[n] for n in ("a:0", "a/0", "a.0")] == ["a_0", "a_0_1", "a_0_2"]
    assert len(set(names.values())) == len(names)
    assert all(0 < len(name) <= 220 and "/" not in name for name in names.values())


# -------------------------------------------------------------------------------------- snapshot


@given(
    st.lists(
        st.floats(width=32, allow_nan=True, allow_infinity=True) | st.floats(-1100, 1100, width=32),
        max_size=50,
    )
)
def test_value_lines_are_printfs(values: list[float]) -> None:
    wanted = "".join(f"{value:.6f}\n" for value in values)
    assert value_lines(np.array(values, np.float32)) == wanted.encode()


def test_lines_of_one_length_are_printfs_too() -> None:
    """Numbers from 0 to below 10 take a way of their own; -0.0 and 10 do not."""
    near = np.float32([0, 9.9999985, 1e-9, 0.9999996, 5.5, np.nextafter(np.float32(10), 0)])
    for values in (near[:5], near, np.float32([-0.0, 1]), np.float32([9.9999996, 10])):
        wanted = "".join(f"{value:.6f}\n" for value in values.tolist())
        assert value_lines(values) == wanted.encode()
    many = np.random.default_rng(0).uniform(0, 9.99, 70_000).astype(np.float32)
    assert value_lines(many) == ("%.6f\n" * len(many) % tuple(many.tolist())).encode()


def test_npy_files_are_numpys(tmp_path: Path) -> None:
    for shape in ((3,), (1, 2, 3), (1, 1000, 1, 1), (0, 4)):
        array = np.zeros(shape, np.float32)
        np.save(tmp_path / "a.npy", array)
        assert npy_header(shape) + array.tobytes() == (tmp_path / "a.npy").read_bytes()


def test_value_lines_round_halves_to_even_and_span_blocks() -> None:
    ties = (np.arange(-300_000, 300_000) / 2.0**7).astype(np.float32)
    ties = ties[np.abs(ties) < 999]
    assert value_lines(ties) == ("%.6f\n" * len(ties) % tuple(ties.tolist())).encode()
    mixed = np.concatenate([ties[:70_000], np.float32([1e9, -5e6]), ties[:70_000]])
    assert value_lines(mixed) == ("%.6f\n" * len(mixed) % tuple(mixed.tolist())).encode()


def snapshot(folder: Path, *, force: bool = False) -> tuple[Path, ...]:
    _, quantized = built()
    rows = layer_rows(quantized)
    with SnapshotWriter(folder, rows, force=force) as writer:
        report = analyse(quantized, feeds(2), sink=writer)
        return writer.finish(report)


def test_tree_of_the_vendor(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "snapshot"
    parts = snapshot(folder)
    assert {part.name for part in parts} == {path.name for path in folder.iterdir()}
    golden = golden_of(feeds(2)[0], ["a/sum", "c1"])
    saved = np.load(folder / "golden/npy/a_sum.npy")
    assert saved.dtype == np.float32
    assert np.allclose(saved, golden["a/sum"], rtol=0, atol=1e-5)
    text = (folder / "golden/a_sum.txt").read_text().splitlines()
    assert text == [f"{value:.6f}" for value in saved.ravel().tolist()]
    assert (folder / "golden/c1.txt").exists()
    assert not (folder / "simulator/c1.txt").exists()  # fused: it exists nowhere
    simulated = np.load(folder / "simulator/npy/g.npy")
    assert simulated.shape == (1, 10)
    names = (folder / "map_name_to_file.txt").read_text().splitlines()
    assert names[0].split() == ["layer_name", "file_name"]
    assert set(names[1]) == {"-"}
    assert ["a/sum", "a_sum.txt"] in [line.split() for line in names[2:]]
    assert "[Gemm] g " in (folder / "error_analysis.txt").read_text()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["snapshot"]


def test_an_existing_folder_is_kept_unless_forced(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    snapshot(folder)  # an empty one is taken
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (folder / "golden" / "old.txt").write_text("old", encoding="utf-8")
    with pytest.raises(OutputExistsError):
        snapshot(folder)
    assert (folder / "golden" / "old.txt").exists()
    snapshot(folder, force=True)
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "golden" / "old.txt").exists()
    assert len(list(folder.iterdir())) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_the_user_calls_as_a_part_stays(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "librknnrt.so").write_bytes(b"mine")
    for _ in range(2):
        snapshot(tmp_path, force=True)
        assert (tmp_path / "runtime" / "librknnrt.so").read_bytes() == b"mine"


def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("engine.accuracy.snapshot.npy_header", full)
    with pytest.raises(OutputError, match="No space") as caught:
        snapshot(tmp_path / "out")
    assert "disk" in caught.value.cause
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_folders_place(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x", encoding="utf-8")
    with pytest.raises(OutputError):
        snapshot(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "x"
