"""The load methods of ``RKNN``: what each says of the source model, as values of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.api.signatures import Parameters
from engine.api.status import path_text
from engine.base.errors import UsageError
from engine.base.plain import Value, Values
from engine.base.text import sanitize


def source_values(method: str, given: Parameters) -> Values:
    """The options of a source model.

    Args:
        method: of ``RKNN``, such as ``load_onnx``.
        given: its arguments by name, as the generation has them.

    Raises:
        UsageError: an argument is none of its values, or the method is refused.
    """
    return _VALUES[method](given)


def _single(given: Parameters) -> Values:
    return {**given, "model": path_text(given["model"], "model")}


def _caffe(given: Parameters) -> Values:
    values: dict[str, Value] = {
        "model": path_text(given["model"], "model"),
        "proto": given["proto"],
        "input_name": given["input_name"],
    }
    if given["blobs"] is None:
        values["random_weights"] = True
    else:
        values["weights"] = path_text(given["blobs"], "blobs")
    return values


def _tensorflow(given: Parameters) -> Values:
    values = {name: given[name] for name in ("inputs", "input_size_list", "outputs")}
    values |= {
        "model": path_text(given["tf_pb"], "tf_pb"),
        "input_is_nchw": given["input_is_nchw"],
    }
    if given.get("predef_file") is not None:
        values["predef_file"] = path_text(given["predef_file"], "predef_file")
    for name in ("mean_values", "std_values"):
        if given.get(name) is not None:
            values[name] = _per_input(given[name], name)
    return values


def _darknet(given: Parameters) -> Values:
    return {
        "model": path_text(given["model"], "model"),
        "weights": path_text(given["weight"], "weight"),
        "darknet_epsilon": given["epsilon"],
        "darknet_decode": given["decode"],
    }


def _pytorch(given: Parameters) -> Values:
    if given.get("convert_engine", "torch") not in ("torch", "torch1.2"):
        engine = sanitize(repr(given["convert_engine"]), 40)
        raise UsageError(f"There is no convert_engine {engine}.", remedy="Leave it out.")
    values = {name: given[name] for name in ("inputs", "outputs", "input_size_list")}
    model = path_text(given["model"], "model")
    return {**values, "model": model, "pytorch_route": given["route"]}


def _mxnet(given: Parameters) -> Values:
    return {
        "model": path_text(given["symbol"], "symbol"),
        "weights": path_text(given["params"], "params"),
        "input_size_list": given["input_size_list"],
    }


_VALUES: dict[str, Callable[[Parameters], Values]] = {
    "load_onnx": _single,
    "load_caffe": _caffe,
    "load_tensorflow": _tensorflow,
    "load_tflite": _single,
    "load_darknet": _darknet,
    "load_pytorch": _pytorch,
    "load_mxnet": _mxnet,
}


def _per_input(given: Any, name: str) -> list[list[float]]:
    """Generation 1's mean or std of ``load_tensorflow``: a number or a text per input.

    Raises:
        UsageError: it is none of these.
    """
    items = given.split("#") if isinstance(given, str) else given
    items = list(items) if isinstance(items, list | tuple) else [items]
    try:
        return [[float(v) for v in (i if isinstance(i, list | tuple) else [i])] for i in items]
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{name} is {sanitize(repr(given), 80)}; it must be one number per input.",
            remedy="Give 127.5, [127.5] or '127.5#127.5'.",
        ) from error
