"""Warnings of the vendor's toolkit as findings. Lines as toolkit 2.3.2 printed them."""

from __future__ import annotations

from engine.toolkit.compile.notices import notice_findings

FLOAT16 = "need parameter qtype, type is set to float16 by default!"
QAT = "The QAT model is loaded, but the config.optimization_level = 3, and some"
LAYOUT = "LayoutMatchManager: recursion_depth=3, Logic is Dangerous, Will Force layout to native."
HARMLESS = f"""\
I rknn-toolkit2 version: 2.3.2
\x1b[1;33mW\x1b[0m \x1b[1;33mload_onnx: {QAT}
                              If you need more consistent accuracy\x1b[0m
W load_onnx: The config.mean_values is None, zeros will be set for input 0!
W RKNN: [03:20:54.176] {LAYOUT}
W RKNN: [03:20:54.555] Warning: Tensor boxes/float-rs_i1 {FLOAT16}
W RKNN: [03:20:54.555] Warning: Tensor empty_placeholder_0 {FLOAT16}
W RKNN: [03:20:54.555] Model initializer tensor data is empty, name: empty_placeholder_0
E RKNN: [03:20:54.565] Unkown op target: 0
E RKNN: [03:20:54.566] Unkown op target: 0
W build: ===================== WARN(3) =====================
D RKNN: [03:20:54.566] a line of another level
"""


def test_harmless_lines_are_no_findings() -> None:
    assert notice_findings(HARMLESS) == ()


def test_types_at_the_ends_are_one_finding() -> None:
    log = HARMLESS + (
        "W build: The default input dtype of 'x' is changed from 'float32' to 'int8' in rknn model "
        "for performance!\n"
        "W build: The default output dtype of 'y' is changed from 'float32' to 'float16' in rknn "
        "model for performance!\n"
    )
    (found,) = notice_findings(log)
    assert (found.code, found.severity) == ("compiled-port-dtype", "info")
    assert "x (int8), y (float16)" in found.what


def test_tensors_left_in_float16_are_named_once() -> None:
    line = f"W RKNN: [03:20:54.555] Warning: Tensor scores {FLOAT16}\n"
    (found,) = notice_findings(line * 3)
    assert found.code == "compiled-in-float16"
    assert found.what.count("scores") == 1


def test_whole_numbers_are_not_called_float16() -> None:
    log = "".join(
        f"W RKNN: [03:20:54.555] Warning: Tensor {name} {FLOAT16}\n" for name in ("c7", "scores")
    )
    (found,) = notice_findings(log, {"c7": "shape", "scores": "scores"}.__getitem__, {"shape"})
    assert found.what == "Tensors without quantization parameters are float16: scores."


def test_registers_that_overflow_are_told_as_what_they_mean() -> None:
    line = (
        "E RKNN: [23:40:01.021] REGTASK: The bit width of field value exceeds the limit, target: "
        "lite, offset: 0x4038, shift = 0, limit: 0x1fff, value: 0x57e3\n"
    )
    (found,) = notice_findings(line * 1000)
    assert (found.code, found.severity) == ("registers-overflow", "warning")


def test_what_is_not_known_is_told_as_printed() -> None:
    log = (
        "E RKNN: [03:07:49.592] Meet unsupported conv, input tensor name: x input type: 3\n"
        "E RKNN: [03:07:49.593] Meet unsupported conv, input tensor name: x input type: 4\n"
        "W RKNN: [03:07:49.593] Pad: mode constant unsupport pads[1] = 2\n"
    )
    error, warning = notice_findings(log)
    assert error.code == "compiler-error"
    assert error.what == (
        "The compiler said: Meet unsupported conv, input tensor name: x input type: 3 (2 times)"
    )
    assert warning.code == "compiler-notice"
    assert "mode constant" in warning.what


def test_a_hostile_log_is_bounded() -> None:
    many = "".join(
        f"E RKNN: [03:07:49.592] {chr(97 + i % 26) * (1 + i // 26)} went\n" for i in range(999)
    )
    long = "E RKNN: [03:07:49.592] " + "\x1b[31m" + "y" * 100_000 + "\n"
    found = notice_findings(many + long)
    assert len(found) <= 60
    assert all(len(each.what) < 400 for each in found)
    assert not any("\x1b" in each.what for each in found)
