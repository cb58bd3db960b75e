"""What the class decides, refuses and computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.api import RKNN
from engine.api.configuration import configure, detect_generation
from engine.api.signatures import bind
from engine.base.errors import EngineError, OutputError, UsageError
from engine.graph.execute import Session
from engine.graph.ir import Graph
from tests.api.conftest import built, ready, run, simulated
from tests.graph.models import finish, nodes_of, tensor

pytestmark = pytest.mark.usefixtures("place")


@pytest.mark.parametrize(
    ("keywords", "generation"),
    [
        ({}, 2),
        ({"target_platform": "rk3588"}, 2),
        ({"target_platform": "RK3588S"}, 2),
        ({"target_platform": "rk1808"}, 1),
        ({"target_platform": ["rv1109", "rv1126"]}, 1),
        ({"target_platform": "rk3566", "batch_size": 10}, 2),
        ({"channel_mean_value": "0 0 0 1"}, 1),
        ({"reorder_channel": "2 1 0"}, 1),
        ({"batch_size": 10}, 1),
        ({"epochs": 1}, 1),
        ({"need_horizontal_merge": True}, 1),
        ({"quantize_input_node": True, "mean_values": [[0, 0, 0]]}, 1),
        ({"channel_mean_value": "0 0 0 1", "model_pruning": True}, 1),
        ({"model_pruning": True}, 2),
        ({"quantized_dtype": "asymmetric_quantized-u8"}, 1),
        ({"quantized_dtype": "dynamic_fixed_point-8"}, 1),
        ({"quantized_dtype": "asymmetric_quantized-8"}, 2),
        ({"quantized_dtype": "w8a8"}, 2),
        ({"mean_values": [[0, 0, 0]]}, 2),
        ({"mean_values": [[0, 0, 0]], "batch_size": 10}, 2),
        ({"channel_mean_value": "0 0 0 1", "batch_size": 10}, 1),
        ({"optimization_level": 3}, 2),
    ],
    ids=str,
)
def test_the_first_config_decides_the_generation(
    keywords: dict[str, object], generation: int
) -> None:
    assert detect_generation((), keywords) == generation


def test_what_does_not_decide_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN()
    both = {"channel_mean_value": "0 0 0 1", "quant_img_RGB2BGR": True}
    for args, keywords, text in (
        ((100,), {}, "RKNN(generation=1)"),
        ((), both, "both generations"),
        ((), {"target_platform": ["rk1808", "rk3588"]}, "both generations"),
        ((), {"target_platform": "rk9999"}, "not known"),
    ):
        assert rknn.config(*args, **keywords) == -1
        assert text in capsys.readouterr().err
    with pytest.raises(UsageError):
        RKNN(generation=3)


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ("128 128 128 128", [[128, 128, 128, 128]]),
        ("103.94 116.78 123.68 58.82", [[103.94, 116.78, 123.68, 58.82]]),
        ("0 0 0 255#128 128 128 64", [[0, 0, 0, 255], [128, 128, 128, 64]]),
        ("127 2", [[127, 2]]),
        ("1 2 3 4 5", [[1, 2, 3, 4, 5]]),
        ([128, 128, 128, 128], [[128, 128, 128, 128]]),
        (["0 0 0 1", "1 1 1 2"], [[0, 0, 0, 1], [1, 1, 1, 2]]),
    ],
    ids=str,
)
def test_channel_mean_value(value: object, rows: object) -> None:
    made = configure(1, bind("config", 1, (), {"channel_mean_value": value}))
    assert made.values["channel_mean_value"] == rows
    assert made.values["quantized_dtype"] == "asymmetric_quantized-u8"
    assert made.values["quantized_method"] == "layer"
    assert made.values["target_platform"] == "rk1808"


@pytest.mark.parametrize(
    ("generation", "keywords", "text"),
    [
        (1, {"channel_mean_value": "1 2 x 4"}, "numbers"),
        (1, {"channel_mean_value": "128"}, "the scale"),
        (1, {"channel_mean_value": "0 0 0 0"}, "without 0"),
        (1, {"reorder_channel": "0 0 0"}, "once"),
        (1, {"quantized_dtype": "w8a8"}, "not one of generation 1"),
        (2, {"quantized_dtype": "dynamic_fixed_point-16"}, "not one of generation 2"),
        (1, {"quantized_dtype": "float8"}, "must be one of"),
        (1, {"target_platform": ["rk1808", "rv1109"]}, "do not run the same model"),
        (1, {"target_platform": "rk3588"}, "generation 2"),
        (1, {"quantized_algorithm": "moving_average"}, "not supported"),
        (2, {"target_platform": "rk1808"}, "does not fit generation 2"),
        (2, {"model_pruning": 2}, "yes or no"),
        (2, {"dynamic_input": [[[1, 0, 8, 8]]]}, "sets of shapes"),
        (2, {"quantized_hybrid_level": 1}, "not supported"),
        (2, {"inputs_yuv_fmt": "nv12"}, "not supported"),
        (2, {"float_dtype": "bfloat16"}, "must be one of"),
        (2, {"op_target": {"x": "dsp"}}, "auto, npu, cpu, gpu"),
    ],
    ids=str,
)
def test_what_is_not_there_is_refused_with_the_reason(
    generation: int, keywords: dict[str, object], text: str
) -> None:
    with pytest.raises(EngineError, match=text) as caught:
        configure(generation, bind("config", generation, (), keywords))
    assert caught.value.remedy


def test_a_refused_config_refuses_the_build(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN()
    assert rknn.config(quantized_algorithm="gdq") == -1
    assert "gdq, which is not supported" in capsys.readouterr().err
    assert rknn.load_onnx("arcface.onnx") == 0
    assert rknn.build(dataset="dataset.txt") == -1
    assert "config was refused" in capsys.readouterr().err


def test_arguments_without_effect_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN(generation=2)
    assert rknn.config(remove_weight=True, single_core_mode=True) is None
    told = capsys.readouterr().err
    assert "W config remove_weight has no effect in the simulation;" in told
    assert "W config single_core_mode has no effect in the simulation;" in told


def test_order_of_calls(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN()
    for call, text in (
        (rknn.build, "Call load_onnx or another load method first"),
        (lambda: rknn.export_rknn("x.rknn"), "Call build first"),
        (rknn.init_runtime, "Call build or load_rknn"),
        (lambda: rknn.accuracy_analysis([]), "Call build first"),
    ):
        assert call() == -1
        assert text in capsys.readouterr().err
    assert rknn.inference([]) is None
    assert "Call init_runtime first" in capsys.readouterr().err


def test_bad_files(place: Path, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "text.onnx").write_text("this is no model")
    (place / "cut.rknn").write_bytes(b"RKNN")
    rknn = RKNN()
    assert rknn.load_onnx("text.onnx") == -1
    assert rknn.load_onnx(None) == -1
    assert rknn.load_onnx("arcface.onnx", outputs=["scorse"]) == -1
    assert "scores" in capsys.readouterr().err
    assert rknn.load_rknn("cut.rknn") == -1
    assert rknn.load_rknn("none.rknn") == -1
    vendor = next((shared / "zoo" / "rknn_vendor").rglob("*.rknn"))
    capsys.readouterr()
    assert rknn.load_rknn(str(vendor)) == 0
    assert rknn.init_runtime() == -1
    assert "vendor" in capsys.readouterr().err
    for method in (rknn.eval_perf, rknn.eval_memory):
        assert method() == -1
        assert "needs a board" in capsys.readouterr().err
    assert rknn.get_sdk_version() is None
    assert rknn.load_rknn("x.rknn", load_model_in_npu=True) == 0  # nobody can look there yet
    assert rknn.init_runtime() == -1
    assert "no board is named" in capsys.readouterr().err
    assert rknn.load_onnx("arcface.onnx") == 0
    assert rknn.build(True) == -1
    assert "dataset" in capsys.readouterr().err
    assert rknn.build(True, "missing.txt") == -1
    assert rknn.build(True, "dataset.txt", 0) == -1
    assert rknn.build(True, "dataset.txt") == 0
    assert rknn.export_rknn("no/such/folder/x.rknn") == -1
    assert "does not exist" in capsys.readouterr().err
    with pytest.raises(OutputError):
        RKNN(verbose=True, verbose_file="no/such/folder/log")


def test_inference_is_the_simulator_on_prepared_inputs(dog: np.ndarray) -> None:
    rknn = ready(mean_values=[[120, 121, 122]], std_values=[[60, 61, 62]])
    pixels = (dog.astype(np.float32) - np.float32([120, 121, 122])) / np.float32([60, 61, 62])
    feed = pixels.transpose(2, 0, 1)[None]
    expected = simulated(rknn, feed)
    nchw = dog.transpose(2, 0, 1)[None]
    for inputs, keywords in (
        ([dog], {}),
        ([dog[None]], {}),
        (dog, {}),
        ([nchw], {"data_format": "nchw"}),
        ([nchw], {"data_format": ["nchw"]}),
        ([nchw], {}),  # the shape leaves no doubt
        ([dog.astype(np.float32)], {}),
        ([feed], {"inputs_pass_through": [1]}),
    ):
        outputs = rknn.inference(inputs, **keywords)
        assert outputs is not None
        assert outputs[0].dtype == np.float32
        np.testing.assert_array_equal(outputs[0], expected)


def test_whole_numbers_pass_through_as_the_quantized_input(dog: np.ndarray) -> None:
    rknn = ready(mean_values=[[0, 0, 0]], std_values=[[255, 255, 255]])
    pipeline = rknn._build
    assert pipeline is not None
    params = pipeline.quantized.table["image"]
    pixels = dog.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)
    integers = np.round(pixels / np.float32(params.scale[0])) + params.zero_point[0]
    signed = np.clip(integers, -128, 127).astype(np.int8)
    plain = run(rknn, dog)
    for array in (signed, (signed.astype(np.int16) + 128).astype(np.uint8)):
        output = run(rknn, array, data_format="nchw", inputs_pass_through=[1])
        np.testing.assert_array_equal(output, plain)


def test_inputs_that_do_not_fit(dog: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = ready()
    for inputs, keywords, text in (
        ([dog, dog], {}, "2 arrays"),
        ([dog.tolist()], {}, "not an ndarray"),
        ([dog[:8]], {}, "takes"),
        ([dog], {"data_format": "nhcw"}, "data_format"),
        ([dog], {"data_format": ["nhwc", "nhwc"]}, "data_format"),
        ([dog], {"inputs_pass_through": [1, 0]}, "2 entries"),
        ("dog.jpg", {}, "not a list"),
        ([np.full((16, 16, 3), np.nan, np.float32)], {}, "not finite"),
    ):
        capsys.readouterr()
        assert rknn.inference(inputs, **keywords) is None
        assert text in capsys.readouterr().err


def test_generation_1_data_type(dog: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = ready(1, channel_mean_value="0 0 0 255")
    same = run(rknn, dog.astype(np.float32), data_type="float32")
    np.testing.assert_array_equal(same, run(rknn, dog))
    assert rknn.inference([dog.astype(np.float32) / 255]) is None
    assert "data_type='float32'" in capsys.readouterr().err
    assert rknn.inference([dog], "ing16") is None


def test_generation_1_keeps_the_channel_order_in_the_model(dog: np.ndarray) -> None:
    turned = ready(1, channel_mean_value="1 2 3 200", reorder_channel="2 1 0")
    assert turned.export_rknn("turned.rknn") == 0
    pixels = (dog[..., ::-1].astype(np.float32) - np.float32([1, 2, 3])) / np.float32(200)
    expected = simulated(turned, pixels.transpose(2, 0, 1)[None])
    np.testing.assert_array_equal(run(turned, dog), expected)
    loaded = RKNN(generation=1)
    assert loaded.load_rknn("turned.rknn") == 0
    assert loaded.init_runtime() == 0
    np.testing.assert_array_equal(run(loaded, dog), expected)
    assert not np.array_equal(run(ready(1, channel_mean_value="1 2 3 200"), dog), expected)


def test_generation_1_turns_the_channels_of_arrays_too(place: Path) -> None:
    """The model's order [RKNN-T1 1.3.2, 3.6.3], before mean [RKNN-TS 1.4.0, 1.2]."""
    rng = np.random.default_rng(5)
    pixels = rng.uniform(0, 255, (4, 1, 16, 16, 3)).astype(np.float32)
    for index, one in enumerate(pixels):
        np.save(place / f"plain{index}.npy", one)
        np.save(place / f"turned{index}.npy", one[..., [1, 2, 0]])
    made = {}
    for name, order in (("plain", "1 2 0"), ("turned", "0 1 2")):
        (place / f"{name}.txt").write_text("".join(f"{name}{i}.npy\n" for i in range(4)))
        config = {"channel_mean_value": "10 20 30 100", "reorder_channel": order}
        rknn = built(1, dataset=f"{name}.txt", **config)
        assert rknn._build is not None
        made[name] = rknn._build.quantized.table
    assert made["plain"] == made["turned"]


@pytest.mark.parametrize("float_dtype", ["float16", "float32", None])
def test_without_quantization(
    float_dtype: str | None, dog: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {} if float_dtype is None else {"float_dtype": float_dtype}
    rknn = ready(quantize=False, std_values=[[255, 255, 255]], **asked)
    output = run(rknn, dog)
    feed = (dog.astype(np.float32) / np.float32(255)).transpose(2, 0, 1)[None]
    model = Graph.from_proto(onnx.load("arcface.onnx"))
    expected = Session(model).run({"image": np.ascontiguousarray(feed)})["scores"]
    if float_dtype != "float16":
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)
    else:  # every tensor is half precision: 11 bits
        np.testing.assert_array_equal(output, output.astype(np.float16))
        np.testing.assert_allclose(output, expected, rtol=0, atol=2e-3 * np.ptp(expected))
        assert not np.allclose(output, expected, rtol=1e-5, atol=1e-5)
    assert rknn.accuracy_analysis(["dog_224x224.jpg"]) == -1
    assert "not quantized" in capsys.readouterr().err
    assert rknn.export_rknn("float.rknn") == 0
    assert "runs on no NPU" in capsys.readouterr().err
    assert rknn.load_rknn("float.rknn") == 0
    assert rknn.init_runtime() == 0
    np.testing.assert_array_equal(run(rknn, dog), output)


def test_initial_values_become_constants(place: Path) -> None:
    a, b, c = (tensor(name, 1, 4) for name in "abc")
    onnx.save(finish(nodes_of("c = Add (a, b)"), [a, b], [c]), place / "two.onnx")
    rknn = RKNN(generation=2)
    fixed = np.float32([[1, 2, 3, 4]])
    for values in (fixed, fixed * 2):
        assert rknn.load_onnx("two.onnx", ["a", "b"], None, [None, values], ["c"]) == 0
        assert rknn.build(False) == 0
        assert rknn.init_runtime() == 0
        np.testing.assert_allclose(run(rknn, np.ones((1, 4), np.float32)), values + 1)


def test_init_runtime_says_what_has_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = built()
    assert rknn.init_runtime(perf_debug=True, core_mask=RKNN.NPU_CORE_0_1) == 0
    told = capsys.readouterr().err
    assert "perf_debug has no effect" in told
    assert "core_mask counts in estimates" in told
    assert rknn.accuracy_analysis(["dog_224x224.jpg"], device_id="one") == -1
    assert "needs a target" in capsys.readouterr().err


def test_accuracy_analysis_replaces_only_its_own_parts(place: Path) -> None:
    rknn = built()
    (place / "snapshot").mkdir()
    (place / "snapshot" / "mine.txt").write_text("keep")
    for _ in range(2):
        assert rknn.accuracy_analysis(["dog_224x224.jpg"]) == 0
    assert (place / "snapshot" / "mine.txt").read_text() == "keep"
    assert rknn.accuracy_analysis("dog_224x224.jpg") == -1  # a list is needed
    one = built(1)
    assert one.accuracy_analysis(["dog_224x224.jpg"], "out") == -1
    assert one.accuracy_analysis("dataset.txt", "out") == -1  # more than one line
    assert one.accuracy_analysis("one.txt", "out") == 0


def test_a_mistake_of_ours_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rknn = built()

    def broken(*_args: object, **_keywords: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("engine.api.simulated_model.SimulatedModel.of_build", broken)
    assert rknn.init_runtime() == -1
    told = capsys.readouterr().err
    assert "Internal error; please report it: ZeroDivisionError" in told
    assert "Traceback" not in told
    log = Path(told.split("log file ")[1].split(".log")[0] + ".log")
    assert "ZeroDivisionError" in log.read_text()


@pytest.mark.parametrize("given", [None, 5, "", "a\0b", ["model.onnx"], b"model.onnx"])
def test_arguments_that_are_no_path_are_told(
    given: object, capfd: pytest.CaptureFixture[str]
) -> None:
    rknn = built()
    assert rknn.export_rknn(given) == -1
    assert rknn.accuracy_analysis(given) == -1
    assert rknn.load_rknn(given) == -1
    assert rknn.load_onnx(given) == -1
    rknn.release()
    told = capfd.readouterr().err
    assert "mistake" not in told
    assert told.count("Fix:") >= 4


def test_arguments_of_later_toolkits_of_generation_1(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can be simulated is; the rest is said to have no effect."""
    rknn = built(
        1,
        target_platform="rv1126",
        quantize_input_node=True,
        output_optimize=1,
        model_pruning=True,
        optimization_level=2,
    )
    told = capsys.readouterr().err
    assert "W config quantize_input_node, of later toolkits of generation 1, has no effect" in told
    assert "W config output_optimize, of later toolkits" in told
    assert rknn.init_runtime(rknn2precompile=True) == 0
    assert "rknn2precompile has no effect" in capsys.readouterr().err
    assert rknn.init_runtime(arithmetic="float") == -1
    assert "It has integer and reference" in capsys.readouterr().err
    assert rknn.init_runtime(arithmetic="reference") == 0
    assert RKNN().init_runtime(target="rk1808", rknn2precompile=True) == -1
    assert "There is nothing to run" in capsys.readouterr().err
    kept = built(1, target_platform="rv1126", quantize_input_node=False)
    assert "quantize_input_node" not in capsys.readouterr().err
    kept.release()


def test_mean_and_std_of_the_first_inputs_alone(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model of pictures and texts, whose texts come as they are."""
    nodes = nodes_of(
        "m = GlobalAveragePool (images); f = Flatten (m); f_t = Transpose <perm = [1, 0]> (f);"
        "y = MatMul (texts, f_t)"
    )
    inputs = [tensor("images", 1, 3, 16, 16), tensor("texts", 5, 3)]
    onnx.save(finish(nodes, inputs, [tensor("y", 5, 1)], opset=17, ir_version=8), "two.onnx")
    texts = np.arange(15, dtype=np.float32).reshape(5, 3)
    np.save("texts.npy", texts)
    Path("pairs.txt").write_text("0.png texts.npy\n1.png texts.npy\n")
    picture = np.full((16, 16, 3), 51, np.uint8)
    for quantize in (False, True):
        how = {"mean_values": [[0, 0, 0]], "std_values": [[255, 255, 255]]}
        rknn = built(model="two.onnx", quantize=quantize, dataset="pairs.txt", **how)
        assert "mean_values has 1 of 2 entries: texts is taken as it is" in capsys.readouterr().err
        assert rknn.init_runtime() == 0
        tolerance = {"atol": 0.2} if quantize else {"rtol": 1e-5}
        scores = run(rknn, picture, texts)[:, 0]
        np.testing.assert_allclose(scores, texts.sum(axis=1) * 0.2, **tolerance)
    wrong = RKNN()
    assert wrong.config(mean_values=[[0, 0, 0]] * 3, std_values=[[1, 1, 1]] * 3) is None
    assert wrong.load_onnx("two.onnx") == 0
    assert wrong.build(do_quantization=True, dataset="pairs.txt") == -1
    assert "mean_values has 3 entries and the model 2 inputs" in capsys.readouterr().err
