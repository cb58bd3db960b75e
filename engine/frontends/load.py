"""One door to the seven front ends: a model is found by its files, looked at, and loaded.

Each front end is imported when a model of its framework comes.
"""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from engine.base.errors import SeveralFilesError, SourceModelError
from engine.base.events import NullReporter, Reporter
from engine.base.text import sanitize, some_of
from engine.frontends.facts import facts
from engine.frontends.sniff import Recognised, sniff
from engine.frontends.source import FRAMEWORKS, LoadOptions, SourceModel

if TYPE_CHECKING:
    from engine.frontends.loaded import Loaded
    from engine.frontends.source import SourceSummary

_BY_ONNX = frozenset({"onnx", "tensorflow", "pytorch"})
"""Frameworks whose models are loaded by way of ONNX, which checks them."""


def load_source(source: SourceModel, reporter: Reporter | None = None) -> Loaded:
    """The graph of a source model, numerically its framework's, or an error that says why not.

    Args:
        source: from :func:`engine.frontends.load.find_source`.
        reporter: told of progress where a conversion takes long, asked whether to stop.

    Raises:
        SourceModelError: damaged, incomplete, or with options that do not fit it.
        UnsupportedOperatorError: names the operator and the layer.
        WorkerError: the framework's process died (TensorFlow, PyTorch).
    """
    from engine.frontends.loaded import check_loaded  # not for a look

    module = import_module(f"engine.frontends.{source.framework}")
    loaded = cast("Loaded", module.load(source, reporter or NullReporter()))
    if source.framework not in _BY_ONNX:
        check_loaded(loaded.graph, source.model.name)
    return loaded


def inspect_source(source: SourceModel) -> SourceSummary:
    """What a source model holds, without converting it.

    Raises:
        SourceModelError: it cannot be read, or is damaged.
    """
    module = import_module(f"engine.frontends.{source.framework}")
    return cast("SourceSummary", module.inspect(source))


# Finding a source model: its files are recognised by their content, and paired.

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
    file = Path(path)
    seen = sniff(file)
    if seen.kind in _MAIN and weights is None:
        main = _partner(file, _MAIN[seen.kind], seen)
        if main is None:
            raise SourceModelError(
                f"{sanitize(str(file))} is {seen.named}, one half of a model.",
                cause=f"Its {_WORDS[_MAIN[seen.kind]]}, which describes the layers, is not beside "
                "it.",
                remedy=f"Give the {_WORDS[_MAIN[seen.kind]]} and name this file as its weights.",
            )
        file, weights, seen = main, file, sniff(main)
    if seen.kind not in FRAMEWORKS:
        raise refusal(file, seen)
    other: Path | None = None
    partner_kind = _PARTNERS.get(seen.kind)
    if partner_kind is not None and not (options is not None and options.random_weights):
        other = Path(weights) if weights is not None else _partner(file, partner_kind, seen)
    if weights is not None and partner_kind is None:
        raise SourceModelError(
            f"{sanitize(str(file))} is {seen.named}, which holds its own weights.",
            remedy="Leave the file of weights out.",
        )
    return SourceModel(seen.kind, file, other, seen, options or LoadOptions())


def find_pairs(path: str | os.PathLike[str]) -> tuple[tuple[Path, Path], ...]:
    """The models that a file may be one half of, as (main file, weights).

    One pair where it is clear which files belong together; none for a file that is whole.

    Raises:
        SourceModelError: missing or unreadable.
    """
    file = Path(path)
    seen = sniff(file)
    if seen.kind in _MAIN:
        return tuple((main, file) for main in _fitting(file, _MAIN[seen.kind]))
    if seen.kind in _PARTNERS:
        return tuple((file, weights) for weights in _fitting(file, _PARTNERS[seen.kind]))
    return ()


def _partner(file: Path, kind: str, seen: Recognised) -> Path | None:
    """The file beside ``file`` that is of ``kind``; None where there is none."""
    fitting = _fitting(file, kind)
    if len(fitting) > 1:
        names_found = some_of([sanitize(place.name, 80) for place in fitting], 5)
        what = f"which {_WORDS[kind]} belongs to it is not clear: {names_found}."
        remedy = "Name it with the option weights (--weights FILE)."
        if kind in FRAMEWORKS:
            remedy = f"Give the {_WORDS[kind]}, and this file as its weights (--weights FILE)."
        raise SeveralFilesError(f"{sanitize(str(file))} is {seen.named}, and {what}", remedy=remedy)
    return fitting[0] if fitting else None


def _fitting(file: Path, kind: str) -> list[Path]:
    """The files of ``kind`` beside ``file`` that may belong to it, the likeliest first."""
    folder = file.parent
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return []
    stem = _stem(file.name)
    partners: list[Path] = []
    for name in sorted(names[:_MAX_NEIGHBOURS], key=lambda n: _stem(n) != stem):
        if name == file.name:
            continue
        if _stem(name) != stem and partners and _stem(partners[0].name) == stem:
            break  # the file of the same name is the partner, whatever else lies there
        with contextlib.suppress(SourceModelError):
            if sniff(folder / name).kind == kind:
                partners.append(folder / name)
    if not partners or _stem(partners[0].name) == stem:
        return partners[:1]
    stems = {place: _stem(place.name) for place in partners}
    related = [p for p, other in stems.items() if other.startswith(stem) or stem.startswith(other)]
    others = [place for place in partners if place not in related]
    return related if len(related) == 1 else [*related, *others]


def _stem(name: str) -> str:
    """A file name without suffixes and without MXNet's ``-symbol`` and ``-0001``."""
    stem = name.rsplit(".", 1)[0] if "." in name[1:] else name
    if stem.endswith("-symbol"):
        return stem.removesuffix("-symbol")
    head, _, tail = stem.rpartition("-")
    return head if head and len(tail) == 4 and tail.isdigit() else stem


def refusal(path: Path, seen: Recognised) -> SourceModelError:
    """The error for a file that is no source model: what it is, why, and what to do."""
    if seen.kind.startswith("pytorch_"):
        from engine.frontends.pytorch.error_messages import explain_file

        return explain_file(path)
    remedies = facts(__package__, "remedies.toml")
    remedy = remedies.get(seen.format) or remedies.get(seen.kind) or remedies["other"]
    if path.suffix.lower() in (".yaml", ".yml"):
        remedy += (
            " If it is meant as a recipe: that has the line `version: 1`, and `source:` with "
            "`model:` below it; `rknntui recipe check FILE` says what is wrong."
        )
    return SourceModelError(
        f"{sanitize(str(path))} is not a model that can be loaded: it is {seen.named} "
        f"({seen.why}).",
        cause=seen.cause,
        remedy=remedy,
    )
