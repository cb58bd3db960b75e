"""The load methods of ``RKNN``: what each says of the source model, as values of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.api.log import path_text
from engine.api.signatures import Parameters
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


def _single(arguments: Parameters) -> Values:
    return {**arguments, "model": path_text(arguments["model"], "model")}


def _caffe(arguments: Parameters) -> Values:
    values: dict[str, Value] = {
        "model": path_text(arguments["model"], "model"),
        "proto": arguments["proto"],
        "input_name": arguments["input_name"],
    }
    if arguments["blobs"] is None:
        values["random_weights"] = True
    else:
        values["weights"] = path_text(arguments["blobs"], "blobs")
    return values


def _tensorflow(arguments: Parameters) -> Values:
    values = {name: arguments[name] for name in ("inputs", "input_size_list", "outputs")}
    values |= {
        "model": path_text(arguments["tf_pb"], "tf_pb"),
        "input_is_nchw": arguments["input_is_nchw"],
    }
    if arguments.get("predef_file") is not None:
        values["predef_file"] = path_text(arguments["predef_file"], "predef_file")
    for name in ("mean_values", "std_values"):
        if arguments.get(name) is not None:
            values[name] = _per_input(arguments[name], name)
    return values


def _darknet(arguments: Parameters) -> Values:
    return {
        "model": path_text(arguments["model"], "model"),
        "weights": path_text(arguments["weight"], "weight"),
        "darknet_epsilon": arguments["epsilon"],
        "darknet_decode": arguments["decode"],
    }


def _pytorch(arguments: Parameters) -> Values:
    if arguments.get("convert_engine", "torch") not in ("torch", "torch1.2"):
        engine = sanitize(repr(arguments["convert_engine"]), 40)
        raise UsageError(f"There is no convert_engine {engine}.", remedy="Leave it out.")
    values = {name: arguments[name] for name in ("inputs", "outputs", "input_size_list")}
    model = path_text(arguments["model"], "model")
    return {**values, "model": model, "pytorch_route": arguments["route"]}


def _mxnet(arguments: Parameters) -> Values:
    return {
        "model": path_text(arguments["symbol"], "symbol"),
        "weights": path_text(arguments["params"], "params"),
        "input_size_list": arguments["input_size_list"],
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


def _per_input(option: Any, name: str) -> list[list[float]]:
    """Generation 1's mean or std of ``load_tensorflow``: a number or a text per input.

    Raises:
        UsageError: it is none of these.
    """
    items = option.split("#") if isinstance(option, str) else option
    items = list(items) if isinstance(items, list | tuple) else [items]
    try:
        return [[float(v) for v in (i if isinstance(i, list | tuple) else [i])] for i in items]
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{name} is {sanitize(repr(option), 80)}; it must be one number per input.",
            remedy="Give 127.5, [127.5] or '127.5#127.5'.",
        ) from error
