"""What the workbench knows: the open model, the recipe, problems, jobs and the last build.

Screens read the fields and change them only through the methods, which tell everybody with a
message. Holds plain data as the worker sends it, so that nothing heavy is imported here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from textual.message import Message

from rknntui.jobview import JobView
from rknntui.messages import (
    BuildFinished,
    DatasetChecked,
    JobChanged,
    JobEnded,
    ModelOpened,
    ProblemsChanged,
    RecipeChanged,
)

__all__ = ["BUILT", "VENDOR", "Session"]

Values = dict[str, Any]

JOBS_KEPT = 50
UNDO_STEPS = 100

DATASET_DEPENDS = frozenset(
    ("dataset", "dataset_count", "dataset_seed", "model", "mean_values", "std_values")
)
"""Options whose change outdates what is known of the dataset."""

VENDOR = ("rknn_vendor", "rknnop")
BUILT = ("rknn", *VENDOR)
"""Kinds of files that are built already."""


class Session:
    """The state of one run of the workbench.

    Attributes:
        path: what was opened: a model, a recipe or a container; None before that.
        model: the model view of the worker protocol, None while nothing is open.
        recipe: option name -> value as the worker protocol has it; unset options are left out.
        recipe_path: the file that the recipe was read from or saved to.
        problems: option name -> message; the recipe cannot be built while there is one.
        findings: of the last validation, as plain data.
        yaml: the recipe as its file would be, of the last validation.
        dataset: answer of the last ``dataset.check`` of this recipe's dataset; None when outdated.
        summary: summary of the last build; None before one.
        built: the recipe that ``summary`` belongs to.
        jobs: this run's jobs by id, oldest first, and those that were reattached.
    """

    def __init__(self, publish: Callable[[Message], None]) -> None:
        self._publish = publish
        self.path: str | None = None
        self.model: dict[str, Any] | None = None
        self.recipe: Values = {}
        self.recipe_path: str | None = None
        self.problems: dict[str, str] = {}
        self.findings: list[dict[str, Any]] = []
        self.yaml = ""
        self.dataset: dict[str, Any] | None = None
        self.summary: dict[str, Any] | None = None
        self.built: Values | None = None
        self.jobs: dict[str, JobView] = {}
        self._saved: Values = {}
        self._typed: dict[str, str] = {}
        self._undo: list[Values] = []
        self._redo: list[Values] = []

    # -- model and recipe --------------------------------------------------------------------------

    @property
    def container(self) -> str | None:
        """The path of an open file that is built already; None for a model, which can be built."""
        return self.path if self.model is not None and self.model.get("kind") in BUILT else None

    @property
    def vendor(self) -> bool:
        """Whether the open file is the vendor's, which can be looked at only."""
        return self.model is not None and self.model.get("kind") in VENDOR

    @property
    def dirty(self) -> bool:
        """Whether the recipe differs from its file.

        A recipe without file is dirty beyond its model.
        """
        return self.recipe != self._saved

    @property
    def saved(self) -> Values:
        """The recipe as its file has it; of a recipe without file what opening the model gave."""
        return self._saved

    @property
    def stale(self) -> bool:
        """Whether the recipe changed since the last build."""
        return self.built is not None and self.built != self.recipe

    def model_opened(self, view: dict[str, Any], path: str) -> None:
        """Take the view of a model, container or recipe that the worker opened."""
        self.path, self.model = path, view
        self.summary = view.get("summary")
        self.built = None
        recipe: Values | None = view.get("recipe")
        model = str(view.get("path", path))
        if view.get("kind") in BUILT:
            self._replace_recipe(dict(recipe or {}), None)
        elif recipe is not None:
            self._replace_recipe(dict(recipe), path)
        elif self.recipe.get("model") != model:
            self._replace_recipe({"model": model}, None)
        self._publish(ModelOpened())

    def model_seen(self, view: dict[str, Any]) -> None:
        """Take the view of the recipe's model as it is with other options, or once converted.

        The last build stays: whether it is of this recipe is for ``stale`` to say.
        """
        if self.recipe_path is None:
            self.path = str(view["path"])
        self.model = view
        self._publish(ModelOpened())

    def restore_recipe(self, values: Values, path: str | None, saved: Values) -> None:
        """Take the recipe of the last run, before its model is open."""
        self._replace_recipe(values, path)
        self._saved = saved

    def set_recipe(self, values: Values, path: str | None) -> None:
        """Take another recipe, read from ``path`` (None: made here)."""
        self._replace_recipe(dict(values), path)

    def _replace_recipe(self, values: Values, path: str | None) -> None:
        names = frozenset(set(self.recipe) | set(values))
        self.recipe, self.recipe_path, self._saved = values, path, dict(values)
        self.problems, self._typed, self.findings, self.yaml = {}, {}, [], ""
        self.dataset = None
        self._undo, self._redo = [], []
        self._publish(RecipeChanged(names, whole=True))

    def set_value(self, name: str, value: Any) -> None:
        """Change one option; None or its default leaves it out of the recipe."""
        self.set_values({name: value})

    def set_values(self, changes: Mapping[str, Any]) -> None:
        """Change options; those that are None or the default are left out of the recipe.

        :meth:`undo` takes it back.
        """
        from engine import option

        recipe = dict(self.recipe)
        for name, value in changes.items():
            if value is None or (name != "model" and value == option(name).default):
                recipe.pop(name, None)
            else:
                recipe[name] = value
            self._typed.pop(name, None)
        if recipe != self.recipe:
            self._undo = [*self._undo[-UNDO_STEPS:], self.recipe]
            self._redo = []
        self._take(recipe)

    def _take(self, recipe: Values) -> None:
        names = frozenset(n for n in {*recipe, *self.recipe} if recipe.get(n) != self.recipe.get(n))
        if names & DATASET_DEPENDS:
            self.dataset = None
        self.recipe = recipe
        if names:
            self._publish(RecipeChanged(names))
        self._publish(ProblemsChanged())

    @property
    def can_undo(self) -> bool:
        """Whether the recipe was changed since it was opened."""
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        """Whether a change was taken back last."""
        return bool(self._redo)

    def undo(self) -> list[str]:
        """Take the last change of the recipe back, wherever it was made; the options concerned."""
        return self._step(self._undo, self._redo)

    def redo(self) -> list[str]:
        """Make the change again that was taken back last; the options concerned."""
        return self._step(self._redo, self._undo)

    def _step(self, source: list[Values], target: list[Values]) -> list[str]:
        if not source:
            return []
        before, after = self.recipe, source.pop()
        target.append(before)
        self._take(after)
        return sorted(n for n in {*before, *after} if before.get(n) != after.get(n))

    def set_typed_problem(self, name: str, message: str | None) -> None:
        """A form's text for an option is no value (or is one again, None).

        The recipe keeps the last value.
        """
        if message is None:
            self._typed.pop(name, None)
        else:
            self._typed[name] = message
        self._publish(ProblemsChanged())

    @property
    def all_problems(self) -> dict[str, str]:
        """Problems of the recipe and of texts that are no values."""
        return {**self.problems, **self._typed}

    def set_problems(
        self, problems: dict[str, str], findings: list[dict[str, Any]], yaml: str = ""
    ) -> None:
        """Take the answer of ``validate``."""
        self.problems, self.findings, self.yaml = problems, findings, yaml
        self._publish(ProblemsChanged())

    def recipe_saved(self, path: str) -> None:
        """The recipe was written to ``path``."""
        self.recipe_path, self._saved = path, dict(self.recipe)
        self._publish(RecipeChanged(frozenset()))

    def set_dataset(self, facts: dict[str, Any] | None) -> None:
        """Take the answer of ``dataset.check``; None when it is outdated."""
        self.dataset = facts
        self._publish(DatasetChecked())

    # -- jobs --------------------------------------------------------------------------------------

    @property
    def job(self) -> JobView | None:
        """The job that runs (the oldest of them), else the last that ended."""
        running = next((job for job in self.jobs.values() if job.running), None)
        return running or next(reversed(self.jobs.values()), None)

    @property
    def running(self) -> JobView | None:
        """The job that runs, None when idle."""
        job = self.job
        return job if job is not None and job.running else None

    def job_started(self, job: JobView) -> None:
        """A job was accepted by the worker, or reattached."""
        self.jobs[job.id] = job
        for old in [j.id for j in self.jobs.values() if not j.running][:-JOBS_KEPT]:
            del self.jobs[old]
        self._publish(JobChanged(job.id))

    def job_changed(self, job: JobView) -> None:
        """Events of the job were applied."""
        self._publish(JobChanged(job.id))

    def job_ended(self, job: JobView, result: dict[str, Any] | None) -> None:
        """The job is over; ``result`` only when it is done. The summary of a build is kept."""
        self._publish(JobChanged(job.id))
        self._publish(JobEnded(job.id, job.method, job.state, result, job.error))
        if job.method == "build" and job.state == "done" and result is not None:
            recipe = job.params.get("recipe")
            if isinstance(recipe, dict) and recipe.get("model") == self.recipe.get("model"):
                self.summary, self.built = result, dict(recipe)
                self._publish(BuildFinished())

    def build_found(self, summary: dict[str, Any], recipe: Values) -> None:
        """Take the result of an earlier build of this recipe."""
        self.summary, self.built = summary, dict(recipe)
        self._publish(BuildFinished())

    # -- what the next start shows -----------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The part that is kept for the next start."""
        return {
            "path": self.path,
            "recipe": self.recipe,
            "saved": self._saved,
            "recipe_path": self.recipe_path,
            "when": round(time.time()),
        }
