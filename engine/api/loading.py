"""The load methods of ``RKNN``, one for each framework."""

from __future__ import annotations

import logging
from typing import Any

from engine.api.answering import answering, path_text
from engine.api.signatures import bind
from engine.base.errors import UsageError
from engine.base.text import printable

__all__ = ["Loading"]


class Loading:
    """Methods that load a source model: 0, or -1 with the reason in the log.

    Arguments and their order are those of the generation that ``config`` or ``generation`` decided.
    """

    _log: logging.Logger

    @property
    def generation(self) -> int:
        """Whose rules hold: 1 or 2."""
        raise NotImplementedError

    def _load(self, values: dict[str, Any], initial: Any = None) -> int:
        """Load by option values; ``initial``: arrays for inputs."""
        raise NotImplementedError

    def _bind(self, method: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        return bind(method, self.generation, args, keywords)

    @answering(-1)
    def load_onnx(self, *args: Any, **keywords: Any) -> int:
        """Load an ONNX file: model, inputs=None, input_size_list=None, input_initial_val=None,
        outputs=None; ``input_initial_val`` holds arrays or None, one per input.
        """
        given = self._bind("load_onnx", args, keywords)
        initial = given.pop("input_initial_val")
        return self._load({**given, "model": path_text(given["model"], "model")}, initial)

    @answering(-1)
    def load_caffe(self, *args: Any, **keywords: Any) -> int:
        """Load a Caffe network.

        Generation 1: model (prototxt), proto='caffe', blobs=None. Generation 2: model, blobs=None,
        input_name=None; V1.1.0's order model, proto, blobs, input_name is taken too. Without blobs
        the weights are random, from a fixed seed.
        """
        given = self._bind("load_caffe", args, keywords)
        values = {
            "model": path_text(given["model"], "model"),
            "proto": given["proto"],
            "input_name": given["input_name"],
        }
        if given["blobs"] is None:
            values["random_weights"] = True
        else:
            values["weights"] = path_text(given["blobs"], "blobs")
        return self._load(values)

    @answering(-1)
    def load_tensorflow(self, *args: Any, **keywords: Any) -> int:
        """Load a frozen graph: tf_pb, inputs, input_size_list, outputs, then in generation 1
        predef_file=None, mean_values=None, std_values=None, in generation 2 input_is_nchw=False.
        """
        given = self._bind("load_tensorflow", args, keywords)
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
        return self._load(values)

    @answering(-1)
    def load_tflite(self, *args: Any, **keywords: Any) -> int:
        """Load a TensorFlow Lite model: model; generation 2 also input_is_nchw=False."""
        given = self._bind("load_tflite", args, keywords)
        return self._load({**given, "model": path_text(given["model"], "model")})

    @answering(-1)
    def load_darknet(self, *args: Any, **keywords: Any) -> int:
        """Load a Darknet network: model (.cfg), weight (.weights).

        Ours: epsilon=1e-5 of batch normalisation, and decode=False: whether the heads become boxes
        and scores.
        """
        given = self._bind("load_darknet", args, keywords)
        return self._load(
            {
                "model": path_text(given["model"], "model"),
                "weights": path_text(given["weight"], "weight"),
                "darknet_epsilon": given["epsilon"],
                "darknet_decode": given["decode"],
            }
        )

    @answering(-1)
    def load_pytorch(self, *args: Any, **keywords: Any) -> int:
        """Load TorchScript: model, input_size_list; ours: route='auto', 'script' or 'export'."""
        given = self._bind("load_pytorch", args, keywords)
        if given.get("convert_engine", "torch") not in ("torch", "torch1.2"):
            engine = printable(repr(given["convert_engine"]), 40)
            raise UsageError(f"There is no convert_engine {engine}.", remedy="Leave it out.")
        values = {name: given[name] for name in ("inputs", "outputs", "input_size_list")}
        model = path_text(given["model"], "model")
        return self._load({**values, "model": model, "pytorch_route": given["route"]})

    @answering(-1)
    def load_mxnet(self, *args: Any, **keywords: Any) -> int:
        """Load an MXNet network: symbol (JSON), params, input_size_list."""
        given = self._bind("load_mxnet", args, keywords)
        return self._load(
            {
                "model": path_text(given["symbol"], "symbol"),
                "weights": path_text(given["params"], "params"),
                "input_size_list": given["input_size_list"],
            }
        )

    @answering(-1)
    def load_keras(self, *_args: Any, **_keywords: Any) -> int:
        """Refused: -1; Keras files are frozen by TensorFlow first."""
        raise UsageError(
            "load_keras is not available: a Keras file holds code beside its weights.",
            remedy="Convert it where Keras is: "
            "tf.lite.TFLiteConverter.from_keras_model(model).convert(), then load_tflite.",
        )


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
            f"{name} is {printable(repr(given), 80)}; it must be one number per input.",
            remedy="Give 127.5, [127.5] or '127.5#127.5'.",
        ) from error
