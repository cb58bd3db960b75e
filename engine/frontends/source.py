"""A source model: the files of one framework and what the user said of them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.errors import SeveralFilesError, SourceModelError
from engine.base.text import printable
from engine.frontends.sniff import Recognised, sniff

if TYPE_CHECKING:
    from engine.graph.ir.custom import CustomOperators

__all__ = ["FRAMEWORKS", "LoadOptions", "SourceModel", "find_pairs", "find_source"]

FRAMEWORKS = ("onnx", "caffe", "tensorflow", "tflite", "darknet", "pytorch", "mxnet")
"""Kinds of :func:`engine.frontends.sniff.sniff` that are the main file of a source model."""

_PARTNERS = {"caffe": "caffe_weights", "darknet": "darknet_weights", "mxnet": "mxnet_weights"}
_MAIN = {weights: main for main, weights in _PARTNERS.items()}
_WORDS = {
    "caffe": "prototxt",
    "caffe_weights": "caffemodel",
    "darknet": ".cfg file",
    "darknet_weights": ".weights file",
    "mxnet": "symbol file (JSON)",
    "mxnet_weights": ".params file",
}
_MAX_NEIGHBOURS = 2000


@dataclass(frozen=True)
class LoadOptions:
    """What a user may say of a source model; names and defaults as ``engine.options`` declares.

    Attributes:
        inputs, input_size_list, input_initial_val, outputs: as of ``load_onnx``; sizes may lack the
            batch of 1.
        proto: Caffe: ``caffe`` or ``lstm_caffe``, whose LSTM layer has other blobs.
        input_name: Caffe: the names of the input layers, in the order wanted; None for the net's.
        random_weights: Caffe: fill weights from a fixed seed, as ``blobs=None`` asks.
        input_is_nchw: TensorFlow and TFLite: inputs are NCHW in the graph, not the model's NHWC.
        predef_file: TensorFlow: an npz with constants for inputs, by name.
        darknet_epsilon: Darknet: the epsilon of batch normalisation.
        darknet_decode: Darknet: whether the heads are decoded to boxes and scores.
        pytorch_route: ``auto``, ``script`` (the exporter of script modules) or ``export``.
        operators: the custom operators that are registered.
    """

    inputs: tuple[str, ...] | None = None
    input_size_list: tuple[tuple[int, ...], ...] | None = None
    input_initial_val: tuple[Any, ...] | None = None
    outputs: tuple[str, ...] | None = None
    proto: str = "caffe"
    input_name: tuple[str, ...] | None = None
    random_weights: bool = False
    input_is_nchw: bool = False
    predef_file: Path | None = None
    darknet_epsilon: float = 1e-5
    darknet_decode: bool = False
    pytorch_route: str = "auto"
    operators: CustomOperators | None = None


@dataclass(frozen=True)
class SourceModel:
    """The files of one source model.

    Attributes:
        framework: one of ``FRAMEWORKS``.
        model: the main file: graph, or graph and weights.
        weights: the file of weights of Caffe, Darknet and MXNet; None where there is none.
        recognised: what the main file was recognised as, and why.
        options: what the user said.
    """

    framework: str
    model: Path
    weights: Path | None
    recognised: Recognised
    options: LoadOptions = field(default_factory=LoadOptions)


def find_source(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    options: LoadOptions | None = None,
) -> SourceModel:
    """Recognise a source model by its content; of a pair of files either one may be given.

    Where the other file of a pair is not named, it is looked for in the same folder: the one of the
    same name without suffix, else the only one whose name begins with the other's
    (``net.cfg`` and ``net_final.weights``), else the only one of its kind.

    Raises:
        SourceModelError: missing, unreadable, no model of the seven frameworks (with what it is
            instead and what to do).
        SeveralFilesError: several files could be its partner (see :func:`find_pairs`).
    """
    given = Path(path)
    seen = sniff(given)
    if seen.kind in _MAIN and weights is None:
        main = _partner(given, _MAIN[seen.kind], seen)
        if main is None:
            raise SourceModelError(
                f"{printable(str(given))} is {_article(seen.format)}, one half of a model.",
                cause=f"Its {_WORDS[_MAIN[seen.kind]]}, which describes the layers, is not beside "
                "it.",
                remedy=f"Give the {_WORDS[_MAIN[seen.kind]]} and name this file as its weights.",
            )
        given, weights, seen = main, given, sniff(main)
    if seen.kind not in FRAMEWORKS:
        raise refusal(given, seen)
    other: Path | None = None
    wanted = _PARTNERS.get(seen.kind)
    if wanted is not None and not (options is not None and options.random_weights):
        other = Path(weights) if weights is not None else _partner(given, wanted, seen)
    if weights is not None and wanted is None:
        raise SourceModelError(
            f"{printable(str(given))} is {_article(seen.format)}, which holds its own weights.",
            remedy="Leave the file of weights out.",
        )
    return SourceModel(seen.kind, given, other, seen, options or LoadOptions())


def find_pairs(path: str | os.PathLike[str]) -> tuple[tuple[Path, Path], ...]:
    """The models that a file may be one half of, as (main file, weights).

    One pair where it is clear which files belong together; none for a file that is whole.

    Raises:
        SourceModelError: missing or unreadable.
    """
    given = Path(path)
    seen = sniff(given)
    if seen.kind in _MAIN:
        return tuple((main, given) for main in _fitting(given, _MAIN[seen.kind]))
    if seen.kind in _PARTNERS:
        return tuple((given, weights) for weights in _fitting(given, _PARTNERS[seen.kind]))
    return ()


def _partner(given: Path, kind: str, seen: Recognised) -> Path | None:
    """The file beside ``given`` that is of ``kind``; None where there is none."""
    fitting = _fitting(given, kind)
    if len(fitting) > 1:
        names_found = ", ".join(printable(place.name, 80) for place in fitting[:5])
        more = f" and {len(fitting) - 5} more" if len(fitting) > 5 else ""
        what = f"which {_WORDS[kind]} belongs to it is not clear: {names_found}{more}."
        remedy = "Name it with the option weights (--weights FILE)."
        if kind in FRAMEWORKS:
            remedy = f"Give the {_WORDS[kind]}, and this file as its weights (--weights FILE)."
        raise SeveralFilesError(
            f"{printable(str(given))} is {_article(seen.format)}, and {what}", remedy=remedy
        )
    return fitting[0] if fitting else None


def _fitting(given: Path, kind: str) -> list[Path]:
    """The files of ``kind`` beside ``given`` that may belong to it, the likeliest first."""
    folder = given.parent
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return []
    stem = _stem(given.name)
    found: list[Path] = []
    for name in sorted(names[:_MAX_NEIGHBOURS], key=lambda n: _stem(n) != stem):
        if name == given.name:
            continue
        if _stem(name) != stem and found and _stem(found[0].name) == stem:
            return found[:1]  # the file of the same name is the partner, whatever else lies there
        with contextlib.suppress(SourceModelError):
            if sniff(folder / name).kind == kind:
                found.append(folder / name)
    if not found or _stem(found[0].name) == stem:
        return found[:1]
    related = [place for place in found if _related(_stem(place.name), stem)]
    others = [place for place in found if place not in related]
    return related if len(related) == 1 else [*related, *others]


def _related(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _stem(name: str) -> str:
    """A file name without suffixes and without MXNet's ``-symbol`` and ``-0001``."""
    stem = name.rsplit(".", 1)[0] if "." in name[1:] else name
    if stem.endswith("-symbol"):
        return stem.removesuffix("-symbol")
    head, _, tail = stem.rpartition("-")
    return head if head and len(tail) == 4 and tail.isdigit() else stem


def _article(words: str) -> str:
    return f"{'an' if words[:1].lower() in 'aeiou' else 'a'} {words}"


_CAUSES = {
    "Git LFS pointer, not the file itself": "The repository was cloned without git-lfs.",
    "web page (HTML)": "A download link gave a page instead of the file.",
    "empty file": "A download or an export was interrupted.",
}

_FREEZE = (
    "    from tensorflow.python.framework import convert_to_constants as c\n"
    "    g = c.convert_variables_to_constants_v2(f, lower_control_flow=False).graph\n"
    "    tf.io.write_graph(g, '.', 'model.pb', as_text=False)"
)
_KERAS = (
    "Freeze it to one .pb file where TensorFlow is:\n"
    "    m = tf.keras.models.load_model(PATH)\n"
    "    f = tf.function(lambda x: m(x, training=False)).get_concrete_function(\n"
    "        tf.TensorSpec([1, 224, 224, 3]))\n" + _FREEZE
)

# by kind, or by format where one kind has several remedies
_REMEDIES = {
    "saved_model": "Freeze it to one .pb file where TensorFlow is:\n"
    "    m = tf.saved_model.load(FOLDER)\n"
    "    f = m.signatures['serving_default']\n" + _FREEZE,
    "HDF5 file (Keras .h5)": _KERAS,
    "Keras model (.keras)": _KERAS,
    "checkpoint": "Freeze it to one .pb file where TensorFlow is:\n"
    "    v1 = tf.compat.v1; v1.disable_eager_execution(); s = v1.Session()\n"
    "    v1.train.import_meta_graph('model.ckpt.meta').restore(s, 'model.ckpt')\n"
    "    g = v1.graph_util.convert_variables_to_constants(s, s.graph_def, ['OUTPUT_NODE'])\n"
    "    tf.io.write_graph(g, '.', 'model.pb', as_text=False)",
    "TensorFlow graph as text (.pbtxt)": "Write it as a .pb file where TensorFlow is (it has to be "
    "frozen: a text often lacks the weights):\n"
    "    g = google.protobuf.text_format.Parse(open(PATH).read(), tf.compat.v1.GraphDef())\n"
    "    tf.io.write_graph(g, '.', 'model.pb', as_text=False)",
    "folder": "Give the model file inside it.",
    "rknn": "It is a build already: simulate or inspect it, or open its source model.",
    "rknn_vendor": "It is compiled for one NPU: `rknntui inspect` shows what is in it; load its "
    "source model to build again.",
}


def refusal(path: Path, seen: Recognised) -> SourceModelError:
    """The error for a file that is no source model: what it is, why, and what to do."""
    if seen.kind.startswith("pytorch_"):
        from engine.frontends.pytorch.explain import explain

        return explain(path)
    return SourceModelError(
        f"{printable(str(path))} is no model that can be loaded: it is {_article(seen.format)} "
        f"({seen.why}).",
        cause=_CAUSES.get(seen.format, ""),
        remedy=_REMEDIES.get(
            seen.format if seen.format in _REMEDIES else seen.kind,
            "Give a model of ONNX, Caffe, TensorFlow, TFLite, Darknet, PyTorch (TorchScript) or "
            "MXNet.",
        ),
    )
