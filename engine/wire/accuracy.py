"""How accurate a build is: rounding sensitivity, and scores over labelled samples."""

from __future__ import annotations

from typing import Annotated

from engine.base.plain import Values
from engine.wire.codec import Key, Text, Whole
from engine.wire.flags import Flag
from engine.wire.method import Task
from engine.wire.record import record


@record
class RoundedOutput:
    """An output; figures in dB are None where nothing moved.

    Attributes:
        rounding_db: the least over the runs: power of the values over that of their movement.
        quantization_db: SQNR of the quantization itself, against float.
        arithmetic_db: of the run in the other arithmetic alone.
        relative: movement over values, as a share: ``10 ** (-rounding_db / 20)``.
        moved: share of the values that change in the run in which most do.
        steps: the greatest change in steps; None where the output is not quantized.
        kept_top: how many of the runs on all samples keep the place of the largest value; None
            where the output is no vector.
    """

    name: str
    rounding_db: float | None
    quantization_db: float | None
    arithmetic_db: float | None
    relative: float
    moved: float
    steps: float | None = None
    kept_top: int | None = None


@record
class RoundedLayer:
    """A layer's tensor, as stored.

    Attributes:
        id: of the layer.
        rounding_db: as of an output.
        moved: share of the integers that change in the run in which most do.
        steps: the greatest change in steps; None in half precision.
        amplified_db: how much lower ``rounding_db`` is than that of the tensor that the layer reads
            and that moves most; None where none of them moves, and of the first layers.
    """

    id: Annotated[str, Key("name")]
    tensor: str
    rounding_db: float | None
    moved: float
    steps: float | None = None
    amplified_db: float | None = None


@record
class RoundingSensitivity:
    """How far the outputs of a quantized graph move when roundings at an edge go the other way.

    Attributes:
        runs: the ways to round that were compared with the reference arithmetic: ``integer``,
            ``halves up``, ``edge 1`` and so on.
        samples: that they ran over.
        edge: how near to an edge a value is shaken over it, in steps.
        seconds: measured.
    """

    outputs: tuple[RoundedOutput, ...]
    layers: tuple[RoundedLayer, ...]
    runs: tuple[str, ...]
    samples: int
    edge: float
    seconds: float
    label: str = "simulated"


# Float against simulated over labelled samples.

Interval = tuple[float | None, float | None]
"""95 % confidence."""


@record
class EvaluateParams:
    """A recipe and labelled samples.

    Attributes:
        labels: see :mod:`engine.accuracy.labelled`.
        score: in the place of top-k.
    """

    recipe: Values
    labels: Annotated[
        Text,
        Flag(
            name="-l --labels",
            help="Labelled samples: a folder with a subfolder for each class; a text file with the "
            "paths of a sample and its label on each line; or an npz with samples "
            "(N, H, W[, C]) uint8 and labels (N,).",
            metavar="FOLDER|LIST.txt|FILE.npz",
            kind="path",
        ),
    ]
    top: Annotated[
        int,
        Whole(1, 1_000_000),
        Flag(help="Also report top-K for this K; top-1 is always reported."),
    ] = 5
    output: Annotated[
        Text | None, Flag(help="The output with the classes, where the model has several.")
    ] = None
    label_offset: Annotated[
        int,
        Whole(-1_000_000, 1_000_000),
        Flag(help="Added to labels: 1 where class 0 is the background."),
    ] = 0
    score: Annotated[
        Text | None,
        Flag(
            help="Your own scoring function. It is Python code: naming it allows it to run.",
            metavar="FILE.py:Name",
            kind="code",
        ),
    ] = None
    rounding: Annotated[
        bool,
        Flag(help="Score the reference arithmetic too: what other roundings do to the answers."),
    ] = False


@record
class Score:
    """A figure of both models, and simulated less float; no intervals for one of the whole set.

    The samples are the same, so the interval of the difference is narrower than the others.
    """

    name: str
    simulated: float | None
    simulated_interval: Interval | None
    difference: float | None
    difference_interval: Interval | None
    golden: Annotated[float | None, Key("float")]
    golden_interval: Annotated[Interval | None, Key("float_interval")]


@record
class RoundedScore:
    """A figure of the quantized model in both arithmetics; the interval is of the difference."""

    name: str
    integer: float | None
    reference: float | None
    difference: float | None
    difference_interval: Interval | None


@record
class Evaluated:
    """The figures over a dataset.

    Attributes:
        agreement: share of the samples with the same first answer; None for a function.
        rounding: of the reference arithmetic; none where it was not asked for.
        rounding_agreement: share of the samples with the same first answer in both arithmetics;
            None for a function.
        note: what the intervals mean.
        seconds: measured.
    """

    samples: int
    scores: tuple[Score, ...]
    agreement: float | None
    note: str
    label: str
    classes: tuple[str, ...]
    seconds: float
    rounding: tuple[RoundedScore, ...] = ()
    rounding_agreement: float | None = None


# fmt: off
EVALUATE = Task("evaluate", EvaluateParams, Evaluated, "evaluate", after="accuracy",
    about="Score labelled samples, float against simulated: top-k or a custom score.",
    example="FILE.py:Name is a function (outputs, label, sample) -> number or dict of "
    "numbers, averaged over the samples, or a class with update(outputs, label, "
    "sample) and result().")
# fmt: on
