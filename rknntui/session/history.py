"""The open recipe over time: as its file has it, the steps of undo, and drafts of other files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rknntui.session.kept import Draft

if TYPE_CHECKING:
    from rknntui.session.kept import Drafts, Values

UNDO_STEPS = 100
_OF_DATASET = (
    *("dataset", "dataset_count", "dataset_seed", "model", "inputs", "input_size_list"),
    *("mean_values", "std_values", "quant_img_RGB2BGR", "resize_filter", "resize_fit"),
)


class History:
    """What undo, redo and the drafts know; the recipe itself is the session's.

    Args:
        drafts: unsaved recipes of other files.

    Attributes:
        saved: the recipe as its file has it; of a recipe without file what opening the model gave.
        left: the file whose unsaved recipe was left for the one that is open; None where nothing
            was.
        undo, redo: the recipes before the changes of this one, and after those that were taken
            back; the nearest one is last.
    """

    def __init__(self, drafts: Drafts) -> None:
        self.drafts = drafts
        self.saved: Values = {}
        self.left: str | None = None
        self.undo: list[Values] = []
        self.redo: list[Values] = []

    def begin(self, saved: Mapping[str, object], undo: Iterable[Values] = ()) -> None:
        """Another recipe is open, or the same one as its file has it now: undo is where back is."""
        self.saved, self.undo, self.redo = dict(saved), list(undo), []

    def changed(self, before: Values) -> None:
        """The recipe was ``before``, until the user changed it."""
        self.undo, self.redo = [*self.undo[-UNDO_STEPS:], before], []

    def back(self, recipe: Values) -> Values | None:
        """The recipe before the last change of this one; None where there was none."""
        return _step(self.undo, self.redo, recipe)

    def forward(self, recipe: Values) -> Values | None:
        """The recipe after the change that was taken back last; None where none was."""
        return _step(self.redo, self.undo, recipe)

    # -- drafts ------------------------------------------------------------------------------------

    def leave(
        self, file: str | None, recipe: Values, path: str | None, built: Values | None
    ) -> None:
        """Keep an unsaved recipe before another one takes its place.

        Args:
            file: that the recipe belongs to; None for a container's.
            recipe: as it is now.
            path: the recipe's own file, where it has one.
            built: the recipe of the last build, where there was one.
        """
        self.left = None
        if file is not None and recipe.get("model") and recipe != self.saved:
            self.left = file
            steps = tuple(self.undo), tuple(self.redo)
            self.drafts.keep(Draft(file, recipe, self.saved, path, built, *steps))
        elif file is not None:
            self.drafts.forget(file)

    def return_to(self, draft: Draft, file: Values) -> None:
        """Take the steps of a draft: undo goes back to the file, then through the draft's own."""
        steps = list(draft.undo)
        if file != draft.saved or not steps:
            steps.append(file)
        self.undo, self.redo = steps, list(draft.redo)

    def written(self, recipe: Values, *files: str | None) -> None:
        """The recipe was saved: the drafts of these files are over."""
        for file in {*files} - {None}:
            self.drafts.forget(str(file))
        self.saved = dict(recipe)


def of_dataset(recipe: Mapping[str, object]) -> tuple[str, ...]:
    """Values whose change outdates what is known of the dataset."""
    return tuple(str(recipe.get(name)) for name in _OF_DATASET)


def _step(source: list[Values], target: list[Values], recipe: Values) -> Values | None:
    if not source:
        return None
    target.append(recipe)
    return source.pop()
