"""What can be said of a dataset before a build: everything wrong with it at once, and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import DatasetError
from engine.base.findings import Finding
from engine.base.text import shape_text
from engine.dataset.dataset_list import Dataset
from engine.dataset.decode import file_kind, open_image, orientation
from engine.dataset.inspect import inspect_samples
from engine.dataset.preprocess import InputPlan, Preprocess
from engine.dataset.samples import (
    ReadingStats,
    input_count_error,
    load_file,
    note_image,
    place_array,
    require_image_input,
)
from engine.dataset.sanity import sanity_findings
from engine.wire.dataset import DatasetFacts, FileProblem

if TYPE_CHECKING:
    from engine.graph.ir import TensorSpec


class _Checker:
    def __init__(self, plans: tuple[InputPlan, ...], decode: bool) -> None:
        self.plans = plans
        self.decode = decode
        self.tally = ReadingStats()
        self.sizes: Counter[str] = Counter()
        self.arrays = 0
        self.turned = 0

    def file(self, path: Path, plan: InputPlan) -> None:
        """Check one file; DatasetError when a build would stop at it."""
        scratch = ReadingStats()  # of the two looks at a file only one counts
        is_array = file_kind(path) == "npy"
        if is_array:
            placed = place_array(path, plan, scratch if self.decode else self.tally)
            self.arrays += 1
            self.sizes[shape_text(placed.shape)] += 1
        else:
            require_image_input(path, plan)
            with open_image(path) as image:
                self.sizes[f"{image.size[0]}x{image.size[1]}"] += 1
                self.turned += orientation(image) != 1
                note_image(image.size, plan, self.tally)
        if self.decode:
            load_file(path, plan, self.tally if is_array else scratch)

    def findings(self, dataset: Dataset) -> Iterator[Finding]:
        """What was noticed, in files that are no error."""
        yield from self.tally.findings(self.plans)
        plans = [plan for plan in self.plans if plan.takes_images and self.tally.pictures]
        for plan in plans:
            # right for some models, forgotten for most
            if plan.mean is None and plan.std is None and plan.dtype != "uint8":
                yield Finding(
                    "mean-std-unset",
                    "warning",
                    "mean_values",
                    f"Input {plan.name} gets pixels as they are, 0..255.",
                    cause="mean_values and std_values are unset.",
                    remedy="Set them as the model was trained, unless it normalises by itself.",
                )
        if self.turned:
            yield Finding(
                "orientation-ignored",
                "info",
                "dataset",
                f"{self.turned} images say that they are turned (EXIF); they are read as stored.",
                cause="Cameras store the turn beside the pixels; it is not applied.",
                remedy="Save them upright if the network should see them so.",
            )
        repeated = len(dataset.entries) - len(set(dataset.entries))
        if repeated:
            yield Finding(
                "samples-repeated",
                "info",
                "dataset",
                f"{repeated} of {len(dataset)} samples are listed more than once.",
                remedy="Remove the repeats; they cost time and add nothing to minimum and maximum.",
            )
        for plan in plans:
            if plan.shape[0] > 1:
                yield Finding(
                    "batch-repeated",
                    "info",
                    plan.name,
                    f"Input {plan.name} takes {plan.shape[0]} images at once; each sample is "
                    "repeated.",
                    cause="The model has a fixed batch above 1.",
                    remedy="Set input_size_list with a batch of 1, where the model allows it.",
                )


def check(
    dataset: Dataset,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess,
    *,
    decode: bool = False,
) -> DatasetFacts:
    """Look at every file: its head only (0.2 ms a picture), or with ``decode`` all of it.

    Some samples are decoded in any case, for what makes a dataset doubtful
    (:mod:`engine.dataset.sanity`).

    Raises:
        RecipeError: mean, std or swap do not fit the inputs. What is wrong with the files is no
            error here, it is among the problems of the facts.
    """
    checker = _Checker(preprocess.plans(inputs), decode)
    problems: list[FileProblem] = []
    files = 0
    for index, entry in enumerate(dataset.entries):
        line = dataset.lines[index] if dataset.lines else index + 1
        files += len(entry)
        if len(entry) != len(checker.plans):
            problems.append(_problem(line, "", input_count_error(dataset, index, checker.plans)))
            continue
        for path, plan in zip(entry, checker.plans, strict=True):
            try:
                checker.file(path, plan)
            except DatasetError as error:
                problems.append(_problem(line, str(path), error))
    doubts = sanity_findings(
        dataset,
        checker.plans,
        inspect_samples(dataset, checker.plans),
        one_option=preprocess.names[0] == "channel_mean_value",
    )
    return DatasetFacts(
        samples=len(dataset),
        files=files,
        problems=tuple(problems),
        sizes=tuple(checker.sizes.most_common()),
        findings=(*checker.findings(dataset), *doubts),
        pictures=checker.tally.pictures,
        arrays=checker.arrays,
        skipped=tuple(
            FileProblem(0, str(path), f"was left out: {why}", "", "")
            for path, why in dataset.skipped
        ),
    )


def _problem(line: int, file: str, error: DatasetError) -> FileProblem:
    return FileProblem(line, file, error.what, error.cause, error.remedy)
