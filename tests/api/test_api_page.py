"""``docs/api.md`` has a row for every method and argument of the manuals, with their defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api import RKNN
from engine.api.signatures import KEYWORDS, NEEDED, POSITIONAL, bind
from tests.api.test_signatures import DEFAULTS

# The manuals' lists [RKNN-T1 1.3.2, 3.6; RKNN-T2 1.1.0, 3.5; RKNN-T2 2.3.0, 2], with the defaults
# that they state; OPEN: required, or not stated.
OPEN = object()
RUNTIME = {
    "target": None,
    "device_id": None,
    "perf_debug": False,
    "eval_mem": False,
    "async_mode": False,
}
GENERATION_1: dict[str, dict[str, object]] = {
    "RKNN": {"verbose": OPEN, "verbose_file": OPEN},
    "release": {},
    "config": {
        "batch_size": 100,
        "channel_mean_value": OPEN,
        "epochs": -1,
        "reorder_channel": OPEN,
        "need_horizontal_merge": False,
        "quantized_dtype": "asymmetric_quantized-u8",
        "optimization_level": 3,
        "target_platform": OPEN,  # ['rk1808']; None here, which means it
    },
    "load_caffe": {"model": OPEN, "proto": OPEN, "blobs": OPEN},
    "load_tensorflow": {
        "tf_pb": OPEN,
        "inputs": OPEN,
        "input_size_list": OPEN,
        "outputs": OPEN,
        "predef_file": OPEN,
        "mean_values": OPEN,
        "std_values": OPEN,
    },
    "load_tflite": {"model": OPEN},
    "load_onnx": {"model": OPEN},
    "load_darknet": {"model": OPEN, "weight": OPEN},
    "load_pytorch": {"model": OPEN, "input_size_list": OPEN},
    "load_mxnet": {"symbol": OPEN, "params": OPEN, "input_size_list": OPEN},
    "build": {"do_quantization": OPEN, "dataset": OPEN, "pre_compile": OPEN, "rknn_batch_size": 1},
    "export_rknn": {"export_path": OPEN},
    "load_rknn": {"path": OPEN, "load_model_in_npu": False},
    "init_runtime": RUNTIME,
    "inference": {
        "inputs": OPEN,
        "data_type": "uint8",
        "data_format": "nhwc",
        "inputs_pass_through": None,
    },
    "eval_perf": {"inputs": OPEN, "is_print": OPEN},
    "eval_memory": {"is_print": True},
    "get_sdk_version": {},
    "hybrid_quantization_step1": {"dataset": OPEN},
    "hybrid_quantization_step2": {
        "model_input": OPEN,
        "data_input": OPEN,
        "model_quantization_cfg": OPEN,
        "dataset": OPEN,
        "pre_compile": OPEN,
    },
    "accuracy_analysis": {"inputs": OPEN, "output_dir": OPEN, "calc_qnt_error": True},
    "list_devices": {},
    "export_rknn_sync_model": {"input_model": OPEN, "sync_uids": OPEN, "output_model": None},
    "export_rknn_precompile_model": {},
    "register_op": {"op_path": OPEN},
    "list_support_target_platform": {"rknn_model": OPEN},
}
V110: dict[str, dict[str, object]] = {
    "config": {
        "batch_size": 100,
        "mean_values": OPEN,
        "std_values": OPEN,
        "epochs": -1,
        "quant_img_RGB2BGR": False,
        "quantized_algorithm": "normal",
        "optimization_level": 3,
        "custom_string": OPEN,
    },
    "load_caffe": {"model": OPEN, "proto": OPEN, "blobs": OPEN, "input_name": OPEN},
    "load_tensorflow": {"predef_file": OPEN},
    "load_mxnet": {"symbol": OPEN, "params": OPEN, "input_size_list": OPEN},
    "load_rknn": {"path": OPEN, "load_model_in_npu": False},
    "eval_perf": {"inputs": OPEN, "is_print": OPEN},
    "accuracy_analysis": {"inputs": OPEN, "target": None, "device_id": None},
}
V230: dict[str, dict[str, object]] = {
    "RKNN": {"verbose": OPEN, "verbose_file": OPEN},
    "release": {},
    "config": DEFAULTS["config", 2],
    "load_caffe": {"model": OPEN, "blobs": OPEN, "input_name": None},
    "load_tensorflow": {
        "tf_pb": OPEN,
        "inputs": OPEN,
        "input_size_list": OPEN,
        "outputs": OPEN,
        "input_is_nchw": False,
    },
    "load_tflite": {"model": OPEN, "input_is_nchw": False},
    "load_onnx": {
        "model": OPEN,
        "inputs": None,
        "input_size_list": None,
        "input_initial_val": None,
        "outputs": None,
    },
    "load_darknet": {"model": OPEN, "weight": OPEN},
    "load_pytorch": {"model": OPEN, "input_size_list": OPEN},
    "build": {"do_quantization": True, "dataset": OPEN, "rknn_batch_size": None},
    "export_rknn": {"export_path": OPEN},
    "load_rknn": {"path": OPEN},
    "init_runtime": {
        **RUNTIME,
        "core_mask": RKNN.NPU_CORE_AUTO,
        "fallback_prior_device": "cpu",
    },
    "inference": {"inputs": OPEN, "data_format": None, "inputs_pass_through": None},
    "eval_perf": {"is_print": True, "fix_freq": True},
    "eval_memory": {"is_print": True},
    "get_sdk_version": {},
    "hybrid_quantization_step1": {
        "dataset": OPEN,
        "rknn_batch_size": None,
        "proposal": False,
        "proposal_dataset_size": 1,
        "custom_hybrid": None,
    },
    "hybrid_quantization_step2": {
        "model_input": OPEN,
        "data_input": OPEN,
        "model_quantization_cfg": OPEN,
    },
    "accuracy_analysis": {
        "inputs": OPEN,
        "output_dir": "./snapshot",
        "target": None,
        "device_id": None,
    },
    "list_devices": {},
    "export_encrypted_rknn_model": {
        "input_model": OPEN,
        "output_model": None,
        "crypt_level": 1,
    },
    "reg_custom_op": {"custom_op": OPEN},
    "codegen": {"output_path": OPEN, "inputs": OPEN, "overwrite": False},
}
MANUALS = {"V1.3.2": (1, GENERATION_1), "V1.1.0": (2, V110), "V2.3.0": (2, V230)}


@pytest.fixture(scope="module")
def rows(repository: Path) -> dict[tuple[str, str], tuple[str, str, str]]:
    """(method, argument) -> generations, default and what it says, of the page."""
    found = {}
    for line in (repository / "docs/api.md").read_text("utf-8").splitlines():
        cells = [cell.strip(" *`") for cell in line.strip("|").split(" | ")]
        if len(cells) >= 5:
            found[cells[0], cells[1]] = (cells[2], cells[3], " | ".join(cells[4:]))
    return found


@pytest.mark.parametrize("manual", MANUALS)
def test_every_row_of_the_manual_is_on_the_page(
    manual: str, rows: dict[tuple[str, str], tuple[str, str, str]]
) -> None:
    generation, methods = MANUALS[manual]
    for method, arguments in methods.items():
        assert rows[method, ""][2], method
        for name, default in arguments.items():
            of, shown, here = rows[method, name]
            assert str(generation) in of.split(", "), (method, name)
            assert here, (method, name)
            if default is not OPEN and (method, generation) in POSITIONAL:
                code = {**POSITIONAL[method, generation], **KEYWORDS.get((method, generation), {})}
                assert code[name] == default, (method, name)
            assert shown or not arguments


def test_every_argument_of_the_code_is_on_the_page(
    rows: dict[tuple[str, str], tuple[str, str, str]],
) -> None:
    for kind in (POSITIONAL, KEYWORDS):
        for (method, generation), arguments in kind.items():
            for name in arguments:
                assert str(generation) in rows[method, name][0].split(", "), (method, name)
    for name in vars(RKNN):
        if not name.startswith(("_", "NPU_")) and name != "generation":
            assert (name, "") in rows, name


def test_every_method_is_there() -> None:
    rknn = RKNN()
    for _, methods in MANUALS.values():
        for method in methods:
            assert method == "RKNN" or callable(getattr(rknn, method)), method


@pytest.mark.parametrize("manual", MANUALS)
def test_every_argument_is_taken_by_its_name(manual: str) -> None:
    """With its stated default, or any value where it has none."""
    generation, methods = MANUALS[manual]
    for method, arguments in methods.items():
        if (method, generation) not in POSITIONAL:
            continue
        given = {n: "x" if d is OPEN else d for n, d in arguments.items()}
        needed = {n: "x" for n, d in POSITIONAL[method, generation].items() if d is NEEDED}
        bound = bind(method, generation, (), needed | given)
        assert {n: bound[n] for n in given} == given


REFUSED_VALUES: dict[str, object] = {
    "quantized_hybrid_level": 1,
    "inputs_yuv_fmt": "nv12",
    "samples": 5,
    "quantized_hybrid": True,
}
"""Values other than the default, where a text is none."""


def test_what_the_page_calls_refused_is_refused(
    rows: dict[tuple[str, str], tuple[str, str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {
        name: of
        for (method, name), (of, _, here) in rows.items()
        if method == "config" and here.startswith("refused")
    }
    assert {"quantized_hybrid_level", "inputs_yuv_fmt", "mean_file"} <= set(refused)
    for name, of in refused.items():
        rknn = RKNN(generation=int(of.split(", ")[0]))
        assert rknn.config(**{name: REFUSED_VALUES.get(name, "x")}) == -1, name
        assert "E config: " in capsys.readouterr().err
