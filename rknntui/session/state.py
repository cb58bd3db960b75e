"""What the workbench knows: the open model, the recipe, problems, jobs and the last build.

Screens read the fields and change them only through the methods, which tell everybody with a
message. What the worker answered is of :mod:`engine.wire`, imported here for its types alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from textual.message import Message

from engine.wire.names import VENDOR_KINDS
from rknntui.session.boards import Boards
from rknntui.session.history import History, of_dataset
from rknntui.session.job_view_model import Jobs, JobView
from rknntui.session.kept import Draft, Drafts, State, Values
from rknntui.session.layers import KnownLayers
from rknntui.session.messages import (
    Bench,
    BuildFinished,
    JobEnded,
    ModelOpened,
    ProblemsChanged,
    RecipeChanged,
    ResultFound,
    StepsChanged,
    TargetChanged,
)

if TYPE_CHECKING:
    from engine import BuildRow, Finding
    from engine.wire.build import BuildSummary
    from engine.wire.compile import Compiled
    from engine.wire.cost import Estimates
    from engine.wire.dataset import DatasetFacts
    from engine.wire.method import Task
    from engine.wire.model import ModelView, Tensor
    from engine.wire.requests import Checked
    from engine.wire.vendor import ToolkitEnvironment

P = TypeVar("P")
R = TypeVar("R")

RECENT = 12
"""Files that were open which are remembered."""

RESULTS = ("build", "accuracy", "hybrid.propose", "evaluate", "sweep", "compile", "devices.perf")
"""Jobs whose last result stays on the screen, also of an earlier run."""

BUILT = ("rknn", *VENDOR_KINDS)
"""Kinds of files that are built already."""


class Session:
    """The state of one run of the workbench.

    Attributes:
        path: what was opened: a model, a recipe or a container; None before that.
        model: as the worker sees it, None while nothing is open.
        recipe: option name -> value; unset options are left out.
        recipe_path: the file that the recipe was read from or saved to.
        problems: option name -> message; the recipe cannot be built while there is one.
        findings: of the last validation.
        yaml: the recipe as its file would be, of the last validation.
        dataset: answer of the last ``dataset.check`` of this recipe's dataset; None when outdated.
        summary: of the last build; None before one.
        built: the recipe that ``summary`` belongs to.
        last: of the methods in ``RESULTS`` the newest job of the open model that is done, with its
            result.
        jobs: this run's jobs by id, oldest first, and those that were reattached.
        history: of the recipe: as its file has it, the steps of undo, drafts of other files.
        boards: that are known, and the one that is used.
        compiled: path of the compiled ``.rknn`` that boards run; None where there is none.
        compilations: chip -> what became of it when the open model was last compiled for it.
        layers: what is known of the layers, shared by all views.
        bench: what a board measures of the open model; None before it did.
        toolkits: of the vendor, as the last answer told; None before one.
        builds: of the open model that are done, the newest first; None before they were read.
        joins: what the joins of the model show: inputs with unlike ranges.
        recent: files that were open, the newest first.
        estimates: of all chips, without their layers; None before an answer.
        opening: name of the file that is being opened; empty where none is.
        asked: what is asked in the background, by the name of its step: empty text while it is
            under way, else why there is no answer.
    """

    def __init__(self, publish: Callable[[Message], None], drafts: Drafts | None = None) -> None:
        self._publish = publish
        self.history = History(drafts or Drafts())
        self.path: str | None = None
        self.model: ModelView | None = None
        self.recipe: Values = {}
        self.recipe_path: str | None = None
        self.problems: dict[str, str] = {}
        self.findings: Sequence[Finding] = ()
        self.yaml = ""
        self.dataset: DatasetFacts | None = None
        self.summary: BuildSummary | None = None
        self.built: Values | None = None
        self.jobs = Jobs(publish, self.is_ours)
        self.last: dict[str, tuple[JobView, object]] = {}
        self.boards = Boards(publish)
        self.compiled: str | None = None
        self.compilations: dict[str, Compiled] = {}
        self.layers = KnownLayers(publish)
        self.bench: Bench | None = None
        self.toolkits: tuple[ToolkitEnvironment, ...] | None = None
        self.estimates: Estimates | None = None
        self.builds: tuple[BuildRow, ...] | None = None
        self.joins: Sequence[Finding] = ()
        self.recent: tuple[str, ...] = ()
        self.opening = ""
        self.asked: dict[str, str] = {}
        self._typed: dict[str, str] = {}
        self._checked: Values | None = None  # what ``problems`` are of

    # -- model and recipe --------------------------------------------------------------------------

    def now_opening(self, name: str) -> None:
        """A file is being opened, or (empty) is not any more."""
        self.opening = name
        self._publish(StepsChanged())

    def known(self, step: str, why: str | None = None) -> None:
        """What a step asks in the background is under way (empty), over (None), or failed: why."""
        if why is None:
            self.asked.pop(step, None)
        else:
            self.asked[step] = why
        self._publish(StepsChanged())

    def bench_is(self, bench: Bench | None) -> None:
        """What runs on a board has moved on: its tab says so at once, not at the next look."""
        if bench != self.bench:
            self.bench = bench
            self._publish(StepsChanged())

    @property
    def container(self) -> str | None:
        """The path of an open file that is built already; None for a model, which can be built."""
        return self.path if self.model is not None and self.model.kind in BUILT else None

    @property
    def request(self) -> dict[str, Any]:
        """What is open, as a request has it; empty where nothing is."""
        if self.container is not None:
            return {"path": self.container}
        return {"recipe": dict(self.recipe)} if self.recipe.get("model") else {}

    @property
    def vendor(self) -> bool:
        """Whether the open file is the vendor's, which can be looked at only."""
        return self.model is not None and self.model.kind in VENDOR_KINDS

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Those of the open model; none while nothing is open."""
        return () if self.model is None else self.model.inputs

    @property
    def dirty(self) -> bool:
        """Whether the recipe differs from its file; one without file is dirty beyond its model."""
        return self.recipe != self.history.saved

    @property
    def stale(self) -> bool:
        """Whether the recipe changed since the last build."""
        return self.built is not None and self.built != self.recipe

    def model_opened(
        self, view: ModelView, path: str, given: Values | None = None, *, chosen: bool = False
    ) -> Draft | None:
        """Take the view of a model, container or recipe that the worker opened.

        An unsaved recipe of another file is kept as a draft, and the draft of this one comes back.

        Args:
            view: the worker's answer.
            path: what was opened.
            given: options that belong to the model, such as its file of weights.
            chosen: whether the user named this file: a model is not the open recipe of it.

        Returns:
            The draft that came back; None where there is none.
        """
        draft = None
        if view.kind in BUILT:
            self._other_recipe(dict(view.recipe or {}), None, None)
        elif view.recipe is not None:
            draft = self._other_recipe(dict(view.recipe), path, path)
        elif self.recipe.get("model") != view.path or (chosen and self.recipe_path is not None):
            draft = self._other_recipe({"model": view.path, **(given or {})}, None, view.path)
        self.path, self.model = path, view
        self.summary = view.summary
        self.built = None
        self.last, self.asked, self.compilations, self.dataset = {}, {}, {}, None
        self.bench = None
        self.estimates, self.builds, self.joins = None, None, ()
        self.recent = (path, *(other for other in self.recent if other != path))[:RECENT]
        self.choose_compiled(None)
        self.layers.forget()
        self._publish(ModelOpened())
        return draft

    def _other_recipe(self, values: Values, path: str | None, file: str | None) -> Draft | None:
        """Take the recipe of ``file`` (None: a container's); its draft, where that comes back."""
        if file is not None and file == self._file:
            self.read_again(values, path)
            return None
        self.leave()
        self._replace_recipe(values, path)
        draft = self.history.drafts.of(file)
        if draft is None or draft.recipe == values:
            return None
        self.history.return_to(draft, values)
        self.recipe = dict(draft.recipe)
        self._publish(RecipeChanged(frozenset((*values, *draft.recipe)), whole=True))
        return draft

    def read_again(self, values: Values, path: str | None) -> None:
        """Take the recipe as its file has it now; undo brings back what was changed."""
        changed = [self.recipe] if self.recipe != values else []
        self._replace_recipe(values, path, [*self.history.undo, *changed])
        self.history.left = None

    @property
    def _file(self) -> str | None:
        """The file that the recipe belongs to: its own, else the model; None for a container."""
        if self.container is not None:
            return None
        return self.recipe_path or str(self.recipe.get("model") or "") or None

    def claim(self) -> str:
        """Take the open file; who else has it, told once, else empty."""
        return self.history.drafts.claim(self._file)

    def leave(self) -> None:
        """Keep an unsaved recipe before another one takes its place."""
        self.history.leave(self._file, self.recipe, self.recipe_path, self.built)

    def model_seen(self, view: ModelView) -> None:
        """Take the view of the recipe's model as it is with other options, or once converted.

        The last build stays: whether it is of this recipe is for ``stale`` to say.
        """
        if self.recipe_path is None:
            self.path = view.path
        self.model = view
        self._publish(ModelOpened())

    def restore_recipe(self, kept: Draft) -> None:
        """Take the recipe of the last run and the steps back from it, before its model is open."""
        self._replace_recipe(dict(kept.recipe), kept.recipe_path)
        self.history.begin(kept.saved, kept.undo)

    def set_recipe(self, values: Mapping[str, object]) -> None:
        """Take another recipe, which was made here and has no file."""
        self.leave()
        self._replace_recipe(dict(values), None)

    def _replace_recipe(
        self, values: Values, path: str | None, undo: Sequence[Values] = ()
    ) -> None:
        names = frozenset(set(self.recipe) | set(values))
        self.recipe, self.recipe_path = values, path
        self.history.begin(values, undo)
        self.problems, self._typed, self.findings, self.yaml = {}, {}, (), ""
        self.dataset = self._checked = None
        self._publish(RecipeChanged(names, whole=True))

    def set_value(self, name: str, value: object) -> None:
        """Change one option; None or its default leaves it out of the recipe."""
        self.set_values({name: value})

    def set_values(self, changes: Mapping[str, object]) -> None:
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
            self.history.changed(self.recipe)
        self._take(recipe)

    def _take(self, recipe: Values) -> frozenset[str]:
        names = frozenset(n for n in {*recipe, *self.recipe} if recipe.get(n) != self.recipe.get(n))
        if of_dataset(recipe) != of_dataset(self.recipe):
            self.dataset = None
        self.recipe = recipe
        if "target_platform" in names:
            self.layers.fill("estimated", ())
            self._fill_layers("compile")
            self._use_compiled()
        if names:
            self._publish(RecipeChanged(names))
        self._publish(ProblemsChanged())
        return names

    def undo(self) -> list[str]:
        """Take the last change of the recipe back, wherever it was made; the options concerned."""
        before = self.history.back(self.recipe)
        return [] if before is None else sorted(self._take(before))

    def redo(self) -> list[str]:
        """Make the change again that was taken back last; the options concerned."""
        after = self.history.forward(self.recipe)
        return [] if after is None else sorted(self._take(after))

    def set_typed_problem(self, name: str, message: str | None) -> None:
        """What is wrong with the text that a form has for an option: empty where it is a value.

        None: the form has none any more. The recipe keeps the last value.
        """
        if message is None:
            self._typed.pop(name, None)
        else:
            self._typed[name] = message
        self._publish(ProblemsChanged())

    @property
    def all_problems(self) -> dict[str, str]:
        """Problems of the recipe, of its samples and of texts that are no values."""
        bad = self.dataset.problems if self.dataset is not None else ()
        count = f"{len(bad)} samples" if len(bad) > 1 else "A sample"
        first = f"line {bad[0].line}: {bad[0].what}" if bad else ""
        of_data = {"dataset": f"{count} cannot be read; {first}"} if bad else {}
        unchecked = self._unchecked
        known = {n: why for n, why in self.problems.items() if n not in unchecked}
        return {n: why for n, why in {**of_data, **known, **self._typed}.items() if why}

    @property
    def _unchecked(self) -> set[str]:
        """The options whose value is another one than that of the last check."""
        checked = self.recipe if self._checked is None else self._checked
        return {n for n in {*checked, *self.recipe} if checked.get(n) != self.recipe.get(n)}

    @property
    def checking(self) -> set[str]:
        """The options of whose value no check has told yet."""
        reading = self.container is None and self.recipe.get("dataset") and self.dataset is None
        of_data = {"dataset"} if reading and not self.asked.get("dataset") else set()
        return of_data | (set() if self.asked.get("config") else self._unchecked)

    def set_problems(self, answer: Checked) -> None:
        """Take the answer of ``validate``."""
        self.problems = {problem.option: problem.message for problem in answer.problems}
        self._checked = self.recipe
        self.findings, self.yaml = answer.findings, answer.yaml
        self._publish(ProblemsChanged())

    def set_dataset(self, facts: DatasetFacts) -> None:
        """Take the answer of ``dataset.check``."""
        self.dataset = facts
        self._publish(ProblemsChanged())

    def recipe_saved(self, path: str) -> None:
        """The recipe was written to ``path``."""
        self.history.written(self.recipe, self._file, path)
        self.recipe_path = path
        self._publish(RecipeChanged(frozenset()))

    # -- jobs --------------------------------------------------------------------------------------

    @property
    def running(self) -> JobView | None:
        """The job that runs, None when idle."""
        return self.jobs.running

    def job_ended(self, job: JobView, result: object) -> None:
        """The job is over; ``result`` only when it is done, and kept where screens show it."""
        self.jobs.changed(job)
        self._publish(JobEnded(job.id, job.method, job.state, result, job.error))
        if job.state == "done" and result is not None:
            self._take_result(job, result)

    def result_found(self, job: JobView, result: object) -> None:
        """Take the result of a job of the history, which fits the open recipe."""
        if self._take_result(job, result):
            self._publish(ResultFound(job.method))

    def _take_result(self, job: JobView, result: object) -> bool:
        """Keep a result that is of the open model; a build's is the last build."""
        from engine.wire.build import BuildSummary
        from engine.wire.compile import CompiledModels

        if not self.is_ours(job) or job.method not in RESULTS:
            return False
        if job.method == "hybrid.propose" and not job.params.get("gains"):
            return False  # of the layers that the user asked for, not of all
        self.last[job.method] = (job, result)
        if isinstance(result, CompiledModels):
            self.compilations |= {row.chip: row for row in result.chips}
            self._use_compiled()
        if isinstance(result, BuildSummary):
            if self.built != job.recipe:
                self.layers.forget(build_only=True)
            self.summary, self.built = result, job.recipe
            for method in RESULTS:
                self._fill_layers(method)
            self._publish(BuildFinished())
        else:
            self._fill_layers(job.method)
        return True

    def _fill_layers(self, method: str) -> None:
        """Let the layers know the last result of a method, where it is of the last build.

        A compilation may be for another chip than the build was made for.
        """
        job, result = self.last.get(method, (None, None))
        if job is not None and (method == "compile" or job.recipe == self.built):
            self.layers.take(method, result, chip=self.chip)

    def last_of(self, task: Task[P, R]) -> tuple[JobView, R] | None:
        """The newest job of that task that is done, with its result."""
        job, result = self.last.get(task.name, (None, None))
        return (job, result) if job is not None and isinstance(result, task.result) else None

    def is_ours(self, job: JobView) -> bool:
        """Whether a job is about the open model."""
        return job.recipe is not None and job.recipe.get("model") == self.recipe.get("model")

    # -- target ------------------------------------------------------------------------------------

    def answered(self, answer: object) -> None:
        """The worker answered: take what it tells of boards and toolkits."""
        # by its field: the type would be imported at the first answer of all
        environments = getattr(answer, "environments", None)
        if environments is None:
            self.boards.answered(answer)
            return
        sizes = {row.folder: row.size for row in self.toolkits or ()}  # few questions ask for them
        found = tuple(replace(r, size=r.size or sizes.get(r.folder, 0)) for r in environments)
        if found != self.toolkits:
            self.toolkits = found
            self._publish(TargetChanged())

    @property
    def stem(self) -> str:
        """What the names of files begin with: the model's own."""
        return Path(str(self.recipe.get("model") or self.path or "model")).stem

    def value(self, name: str) -> str:
        """An option as the recipe has it, else its default."""
        from engine import option

        return str(self.recipe.get(name) or option(name).default or "")

    @property
    def chip(self) -> str:
        """The chip that the recipe is for."""
        return self.value("target_platform")

    def choose_compiled(self, path: str | None) -> None:
        """Take the compiled file that boards run; None for none."""
        if path != self.compiled:
            self.compiled = path
            self._publish(TargetChanged())

    def _use_compiled(self) -> None:
        """Boards run what was compiled for the target, without one what was compiled last."""
        made = {name: row.path for name, row in self.compilations.items() if row.path}
        path = made.get(self.chip or next(reversed(made), ""))
        if path is not None or self.compiled in made.values():
            self.choose_compiled(path)

    def restore(self, state: State) -> None:
        """Take what is no file's: the boards of the last run, and the files that were open."""
        self.boards.restore(state)
        self.recent = state.recent[:RECENT]

    def to_state(self, **interface: Any) -> State:
        """What is kept for the next start, with what the interface adds."""
        return State(
            self.path,
            self.recipe,
            self.history.saved,
            self.recipe_path,
            self.built,
            tuple(self.history.undo),
            recent=self.recent,
            **self.boards.to_state(),
            **interface,
        )
