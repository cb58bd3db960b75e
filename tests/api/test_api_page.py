"""``docs/api.md`` has a row for every method and argument of the manuals, with their defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api import RKNN
from engine.api.signatures import KEYWORDS, NEEDED, POSITIONAL, bind

# The manuals' lists [RKNN-T1 1.3.2, 3.6; RKNN-T2 1.1.0, 3.5; RKNN-T2 2.3.0, 2], with the defaults
# that they state; OPEN: required, or not stated.
OPEN = object()


def stated(*names: str, **defaults: object) -> dict[str, object]:
    """Arguments without a stated default, and those with one."""
    return {**dict.fromkeys(names, OPEN), **defaults}


RUNTIME = stated(target=None, device_id=None, perf_debug=False, eval_mem=False, async_mode=False)
BOTH: dict[str, dict[str, object]] = {
    "RKNN": stated("verbose", "verbose_file"),
    "release": {},
    "load_darknet": stated("model", "weight"),
    "load_pytorch": stated("model", "input_size_list"),
    "export_rknn": stated("export_path"),
    "eval_memory": {"is_print": True},
    "get_sdk_version": {},
    "list_devices": {},
}
GENERATION_1: dict[str, dict[str, object]] = BOTH | {
    "config": stated(
        "channel_mean_value",
        "reorder_channel",
        "target_platform",  # ['rk1808']; None here, which means it
        batch_size=100,
        epochs=-1,
        need_horizontal_merge=False,
        quantized_dtype="asymmetric_quantized-u8",
        optimization_level=3,
    ),
    "load_caffe": stated("model", "proto", "blobs"),
    "load_tensorflow": stated(
        "tf_pb", "inputs", "input_size_list", "outputs", "predef_file", "mean_values", "std_values"
    ),
    "load_tflite": stated("model"),
    "load_onnx": stated("model"),
    "load_mxnet": stated("symbol", "params", "input_size_list"),
    "build": stated("dataset", do_quantization=True, pre_compile=False, rknn_batch_size=1),
    "load_rknn": stated("path", load_model_in_npu=False),
    "init_runtime": RUNTIME,
    "inference": stated("inputs", data_type="uint8", data_format="nhwc", inputs_pass_through=None),
    "eval_perf": stated("inputs", "is_print"),
    "hybrid_quantization_step1": stated("dataset"),
    "hybrid_quantization_step2": stated(
        "model_input", "data_input", "model_quantization_cfg", "dataset", "pre_compile"
    ),
    "accuracy_analysis": stated("inputs", "output_dir", calc_qnt_error=True),
    "export_rknn_sync_model": stated("input_model", "sync_uids", output_model=None),
    "export_rknn_precompile_model": {},
    "register_op": stated("op_path"),
    "list_support_target_platform": stated("rknn_model"),
}
V110: dict[str, dict[str, object]] = {
    "config": stated(
        "mean_values",
        "std_values",
        "custom_string",
        batch_size=100,
        epochs=-1,
        quant_img_RGB2BGR=False,
        quantized_algorithm="normal",
        optimization_level=3,
    ),
    "load_caffe": stated("model", "proto", "blobs", "input_name"),
    "load_tensorflow": stated("predef_file"),
    "load_mxnet": stated("symbol", "params", "input_size_list"),
    "load_rknn": stated("path", load_model_in_npu=False),
    "eval_perf": stated("inputs", "is_print"),
    "accuracy_analysis": stated("inputs", target=None, device_id=None),
}
V230: dict[str, dict[str, object]] = BOTH | {
    "config": stated(
        mean_values=None,
        std_values=None,
        quant_img_RGB2BGR=False,
        quantized_dtype="w8a8",
        quantized_algorithm="normal",
        quantized_method="channel",
        float_dtype="float16",
        optimization_level=3,
        target_platform=None,
        custom_string=None,
        remove_weight=False,
        compress_weight=False,
        single_core_mode=False,
        model_pruning=False,
        op_target=None,
        dynamic_input=None,
        quantize_weight=False,
        remove_reshape=False,
        sparse_infer=False,
        enable_flash_attention=False,
    ),
    "load_caffe": stated("model", "blobs", input_name=None),
    "load_tensorflow": stated("tf_pb", "inputs", "input_size_list", "outputs", input_is_nchw=False),
    "load_tflite": stated("model", input_is_nchw=False),
    "load_onnx": stated(
        "model", inputs=None, input_size_list=None, input_initial_val=None, outputs=None
    ),
    "build": stated("dataset", do_quantization=True, rknn_batch_size=None),
    "load_rknn": stated("path"),
    "init_runtime": RUNTIME | {"core_mask": RKNN.NPU_CORE_AUTO, "fallback_prior_device": "cpu"},
    "inference": stated("inputs", data_format=None, inputs_pass_through=None),
    "eval_perf": stated(is_print=True, fix_freq=True),
    "hybrid_quantization_step1": stated(
        "dataset",
        rknn_batch_size=None,
        proposal=False,
        proposal_dataset_size=1,
        custom_hybrid=None,
    ),
    "hybrid_quantization_step2": stated("model_input", "data_input", "model_quantization_cfg"),
    "accuracy_analysis": stated("inputs", output_dir="./snapshot", target=None, device_id=None),
    "export_encrypted_rknn_model": stated("input_model", output_model=None, crypt_level=1),
    "reg_custom_op": stated("custom_op"),
    "codegen": stated("output_path", "inputs", overwrite=False),
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
