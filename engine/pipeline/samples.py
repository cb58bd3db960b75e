"""The calibration samples of a pipeline: the dataset, its digest, and the inputs made of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import RecipeError
from engine.base.events import Reporter
from engine.pipeline.fingerprints import digest_of_dataset
from engine.recipe import Recipe

if TYPE_CHECKING:
    from engine.dataset import Dataset, InputPlan, SampleStream
    from engine.graph.ir import TensorSpec


class RecipeSamples:
    """Where a pipeline has its samples from: those that a recipe names.

    Args:
        recipe: names the dataset, and how its samples are prepared.
        generation: of the vendor's API whose reading of ambiguous npy shapes holds (1 or 2).
        reporter: told of the progress.
    """

    def __init__(self, recipe: Recipe, generation: int, reporter: Reporter) -> None:
        self._recipe, self._generation, self._reporter = recipe, generation, reporter

    @property
    def is_named(self) -> bool:
        """Whether the recipe names a dataset."""
        return bool(self._recipe.dataset.dataset)

    @cached_property
    def dataset(self) -> Dataset:
        """The calibration dataset; RecipeError where the recipe names none."""
        from engine.dataset import read_dataset

        part = self._recipe.dataset
        if not part.dataset:
            raise RecipeError(
                "Quantization needs a calibration dataset, and none is set.",
                remedy="Set dataset to a dataset.txt or a folder of images, "
                "or do_quantization to no.",
            )
        return read_dataset(
            Path(part.dataset),
            count=part.dataset_count,
            seed=part.dataset_seed,
            reporter=self._reporter,
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the samples' contents in order."""
        return digest_of_dataset(self.dataset)

    def feeds(self, inputs: Sequence[TensorSpec], dataset: Dataset | None = None) -> SampleStream:
        """The samples of a dataset (by default the recipe's) for the inputs of a model."""
        from engine.dataset import Preprocess, samples

        preprocess = Preprocess.from_recipe(self._recipe, self._generation)
        return samples(dataset or self.dataset, inputs, preprocess, self._reporter)


def seeded_dataset(plans: Sequence[InputPlan], folder: Path, count: int) -> Dataset:
    """Samples from a fixed seed, for a model without any: npy files, read as those of a user.

    What has a mean or std is pixels, whole numbers from 0 to 255; an 8-bit input that stands for
    real values gets those of its range; other floats are from 0 to 1, so that half precision has no
    trouble with them; whole numbers are 0, an index that every table has.

    Args:
        plans: of the inputs.
        folder: where they are written; it stays as long as they are read.
        count: how many.
    """
    import numpy as np

    from engine.dataset import dataset_from_paths

    source = np.random.default_rng(0)
    files: list[Path] = []
    for at, plan in ((at, plan) for at in range(count) for plan in plans):
        if plan.mean is not None or plan.std is not None:
            array = source.integers(0, 256, plan.shape).astype(np.float32)
        elif plan.quant is not None:
            ends, (scale, zero) = np.iinfo(plan.dtype), plan.quant
            low, high = ((end - zero) * scale for end in (ends.min, ends.max))
            array = source.uniform(low, high, plan.shape).astype(np.float32)
        elif np.dtype(plan.dtype).kind == "f":
            array = source.random(plan.shape, dtype=np.float32).astype(plan.dtype)
        else:
            array = np.zeros(plan.shape, plan.dtype)
        files.append(folder / f"{at}_{len(files)}.npy")
        np.save(files[-1], array)
    return dataset_from_paths(files, len(plans))
