"""What Recipe says of a dataset and a sample, and how a dataset is chosen or made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine import option, sanitize
from engine.wire.dataset import DATASET_MAKE, Made, MakeParams
from engine.wire.formats import FIGURE
from rknntui.keys.actions import key_text
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker, ask_overwrite, is_taken
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.one_line import Fact

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.wire.dataset import Channel, DatasetFacts
    from rknntui.screens.base.workspace import Workspace
    from rknntui.widgets.strips import Line


MAKE_FORM = Form(
    "Write a dataset.txt", (MakeParams,), {"force": "asked for where the file is there"}
)


def checked_folder(params: MakeParams) -> MakeParams:
    """The same; ValueError where there is no folder."""
    if not Path(params.folder).is_dir():
        raise ValueError("This is not a folder.")
    return params


class DatasetFiles:
    """Asks for a list or a folder of samples, and sets the recipe's dataset to it.

    Args:
        workspace: shows the dialogs, asks the worker, has the session.
        written: called when a list was written, which may be the one that is shown.
    """

    def __init__(self, workspace: Workspace, written: Callable[[], None]) -> None:
        self._workspace = workspace
        self._written = written

    def _whole(self, name: str) -> int:
        value = self._workspace.session.recipe.get(name)
        return value if isinstance(value, int) else int(option(name).default)

    def pick(self) -> None:
        """Choose a list or a folder; of a folder a list can be written."""
        recipe = self._workspace.session.recipe
        start = str(recipe.get("dataset") or recipe.get("model") or "")
        start = str(Path(start).parent) + "/" if start else ""
        picker = PathPicker(
            "Choose a dataset.txt or a folder", start, folders=True, suffixes=(".txt",)
        )
        ask_user(self._workspace.app, picker, self._picked)

    def _picked(self, path: str) -> None:
        self._workspace.session.set_value("dataset", path)
        if Path(path).is_dir():
            makes = f"{key_text('recipe.make')} writes a list of them, to edit and share."
            text = f"Every build selects the same images of that folder. {makes}"
            self._workspace.notify(text, markup=False)

    def make(self) -> None:
        """Ask for the folder, the list and how many are chosen; then write it."""
        app, ask = self._workspace.app, self._workspace.ask

        def write(params: MakeParams) -> None:
            taken = [params.out] * is_taken(Path(params.out))

            def start(force: bool) -> None:
                ask(DATASET_MAKE, replace(params, force=force), self._made)

            ask_overwrite(app, taken, start)

        folder = str(self._workspace.session.recipe.get("dataset") or "")
        folder = folder if Path(folder).is_dir() else str(Path(folder).parent) if folder else ""
        out = str(Path.cwd() / "dataset.txt")
        now = MakeParams(folder, out, self._whole("dataset_count"), self._whole("dataset_seed"))
        MAKE_FORM.ask(app, now, then=write, check=checked_folder)

    def _made(self, dataset: Made) -> None:
        skipped = dataset.skipped
        left = f"; skipped {len(skipped)}, the first: {skipped[0].why}" if skipped else ""
        text = f"{dataset.path}: {dataset.samples} of {dataset.found} images{left}."
        self._workspace.notify(text, title="Dataset written", markup=False)
        self._workspace.session.set_value("dataset", dataset.path)
        self._written()


# What Recipe says about a dataset and about the channels of one sample: lines of text.

_SLACK = 1e-3


def facts_text(path: str, facts: DatasetFacts | None) -> tuple[Fact, ...]:
    """One line: how much, which sizes, whether a build would stop, where."""
    if not path:
        return (Fact("no dataset"),)
    where = Fact(sanitize(path, 300), (sanitize(path.rpartition("/")[2], 80),), 2)
    if facts is None:
        return (where,)
    files = [f"{facts.files} files"] if facts.files != facts.samples else []
    sizes = [f"{size} ×{count}" for size, count in facts.sizes[:3]]
    more = [f"{len(facts.sizes) - 3} more sizes"] if len(facts.sizes) > 3 else []
    bad = len(facts.problems)
    return (
        Fact(f"{facts.samples} samples"),
        *(Fact(text, rank=1) for text in (*files, *sizes, *more)),
        Fact(f"✗ {bad} problems" if bad else "✓ no problems"),
        where,
    )


def channel_lines(
    channels: Sequence[Channel],
    expected: Sequence[tuple[float | None, float | None]],
    width: int,
) -> list[Line]:
    """A line a channel: what reaches the network, and the expected range (from mean and std)."""
    if not channels:
        return [[("more than 16 channels: no statistics", "dim")]]
    wide = width >= 54
    head = f"{'ch':>2} {'min':>7} {'max':>7}" + (f" {'mean':>7} {'std':>7}" if wide else "")
    lines: list[Line] = [[(head + "  expected", "head")]]
    for index, channel in enumerate(channels):
        least, most = _number(channel.minimum), _number(channel.maximum)
        text = f"{index:>2} {least:>7.3g} {most:>7.3g}"
        if wide:
            text += f" {_number(channel.mean):>7.3g} {_number(channel.std):>7.3g}"
        line: Line = [(text, "")]
        if index < len(expected):
            low, high = map(_number, expected[index])
            slack = _SLACK * max(1.0, high - low)
            inside = low - slack <= least and most <= high + slack
            sign = ("  ✓ ", "good") if inside else ("  ✗ ", "bad")
            line += [sign, (f"{FIGURE.text(low)}..{FIGURE.text(high)}", "")]
        lines.append(line)
    return lines


def _number(value: float | None) -> float:
    """What is no number has no place in JSON, and comes as None."""
    return math.nan if value is None else value
