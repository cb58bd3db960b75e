"""Calibration datasets."""

from __future__ import annotations

from typing import Annotated

from engine.base.findings import Finding
from engine.base.plain import Values
from engine.options import option
from engine.wire.codec import Omit, Text, Whole
from engine.wire.flags import Argument, Flag, Force, output_flag
from engine.wire.method import Query
from engine.wire.record import record

_COUNT, _SEED = option("dataset_count"), option("dataset_seed")
_SLACK = 1e-3


@record
class ListParams:
    """A recipe with a dataset."""

    recipe: Values | None = None


@record
class CheckParams:
    """A dataset, the recipe's where none is named; ``decode`` reads all of every file."""

    dataset: str | None = None
    recipe: Values | None = None
    decode: bool = False


@record
class PreviewParams:
    """A sample for one input, from 0; columns and rows of its thumbnail."""

    dataset: str | None = None
    recipe: Values | None = None
    index: Annotated[int, Whole(0, 1 << 31)] = 0
    columns: Annotated[int, Whole(1, 400)] = 40
    rows: Annotated[int, Whole(1, 400)] = 20
    input: Annotated[int, Whole(0, 1 << 16)] = 0


@record
class MakeParams:
    """A folder of images, the list to write, how many are chosen with which seed."""

    folder: Annotated[Text, Argument(help="A folder of images.", kind="path")]
    out: Annotated[
        Text, output_flag("The file to write. Default: dataset.txt.", otherwise="dataset.txt")
    ]
    count: Annotated[int, Whole(1, 100_000), Flag(help=_COUNT.help)] = _COUNT.default
    seed: Annotated[int, Whole(0, 1 << 62), Flag(help=_SEED.help)] = _SEED.default
    force: Force = False


@record
class Samples:
    """Samples in their order, not all of very many.

    ``entries``: (line, a path for every input); the line is 0 where the dataset is a folder.
    """

    total: int
    entries: tuple[tuple[int, tuple[str, ...]], ...]


@record
class FileProblem:
    """A file that a build would stop at; ``line`` from 1, 0 for one that was left out."""

    line: int
    file: str
    what: str
    cause: Omit[str] = None
    remedy: Omit[str] = None


@record
class DatasetFacts:
    """What a dataset holds.

    Attributes:
        pictures, arrays: of the files; None without a model, as ``skipped``.
        sizes: (size as text, how many), most frequent first.
        skipped: files of a folder that were left out.
    """

    samples: int
    files: int
    problems: tuple[FileProblem, ...]
    sizes: tuple[tuple[str, int], ...]
    findings: tuple[Finding, ...]
    pictures: Omit[int] = None
    arrays: Omit[int] = None
    skipped: Omit[tuple[FileProblem, ...]] = None


@record
class Channel:
    """Values of a channel as the network gets them; None for what is no number.

    Attributes:
        low, high: between which pixels can be, by mean and std; None of what is no picture.
    """

    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    low: float | None = None
    high: float | None = None

    @property
    def expected(self) -> tuple[float, float] | None:
        """The range of pixels; None where there is none."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def fits(self) -> bool:
        """Whether its values lie in the range of pixels, as far as that is known."""
        if self.low is None or self.high is None:
            return True
        if self.minimum is None or self.maximum is None:
            return False
        slack = _SLACK * max(1.0, self.high - self.low)
        return self.low - slack <= self.minimum and self.maximum <= self.high + slack


@record
class Preview:
    """A sample as the network sees it.

    Attributes:
        thumbnail: rows of ``rrggbb`` joined; none for an input that is no picture.
        channels: none of more than 16.
    """

    file: str
    input: str
    shape: tuple[int, ...]
    samples: int
    thumbnail: tuple[str, ...]
    channels: tuple[Channel, ...]


@record
class LeftOut:
    """A file that was not taken."""

    file: str
    why: str


@record
class Made:
    """A list that was written, of ``samples`` of the ``found`` images."""

    path: str
    samples: int
    found: int
    skipped: tuple[LeftOut, ...]


DATASET_LIST = Query("dataset.list", ListParams, Samples)
DATASET_CHECK = Query("dataset.check", CheckParams, DatasetFacts)
DATASET_PREVIEW = Query("dataset.preview", PreviewParams, Preview)
# fmt: off
DATASET_MAKE = Query("dataset.make", MakeParams, Made, "dataset make", options=False,
    about="Write dataset.txt from the pictures of a folder and its subfolders.")
# fmt: on
