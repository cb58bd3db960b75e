"""Compiling: the chips that it is for, how it is done, and the views of what came of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.build_tables import AGREEMENT
from engine.wire.build_tables import COMPILED as COMPILED_CHIPS
from engine.wire.compile import COMPILE, Compiled, CompiledModels, CompileParams
from engine.wire.formats import ABSENT, PROGRESS
from engine.wire.layers import COMPILED, LayerFigures, layer_rows
from rknntui.keys.commandline import command_with
from rknntui.screens.deploy.code import stem_of
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import PathPicker, ask_overwrite
from rknntui.screens.dialogs.request import Form
from rknntui.widgets.job_pane import WithJob
from rknntui.widgets.layer_table import LayerTable, LayerView
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from engine.wire.codec import Values
    from engine.wire.cost import ChipFacts
    from engine.wire.vendor import ToolkitEnvironment
    from rknntui.screens.base.workspace import Workspace
    from rknntui.screens.deploy.panes import KnownToolkits
    from rknntui.session.job_view_model import JobView, StageView
    from rknntui.session.state import Session


def chip_states(job: JobView, chips: Iterable[str]) -> dict[str, str]:
    """What a compilation that runs does for each chip; stages name theirs.

    Args:
        job: of the compilation.
        chips: that it is for, in their order.
    """
    stages_by_chip = {chip: _stages_of(job, chip) for chip in chips}
    return {chip: _state(stages) for chip, stages in stages_by_chip.items()}


def _stages_of(job: JobView, chip: str) -> list[StageView]:
    def names(stage: StageView) -> bool:
        words = f"{stage.name} {stage.title}".replace(":", " ").replace("-", " ").split()
        return chip in words

    return [stage for stage in job.stages.values() if names(stage)]


def _state(stages: list[StageView]) -> str:
    if not stages:
        return "waiting"
    running = next((stage for stage in stages if stage.seconds is None), None)
    if running is None:
        return "✓ compiled"
    return f"▶ {PROGRESS.text(running.fraction)}" if running.total else "▶ compiles"


SETTINGS = Form(
    "How it is compiled",
    (CompileParams,),
    {
        "chips": "marked in the table",
        "path": "asked for at the start",
        "force": "asked for where a file is there",
        "refresh": "a key of its own",
    },
)
_AUTO = "automatic"


def settings_words(now: CompileParams) -> tuple[str, str, str, str]:
    """Quantizer, second opinion, whether a difference is accepted, and toolkit: for the line on
    top, empty where it would tell the default.
    """
    count = now.samples
    if isinstance(count, int):
        opinion = f"second opinion: {count} sample{'' if count == 1 else 's'}" if count else ""
    else:
        opinion = f"second opinion on {sanitize(Path(count).name, 40)}"
    return (
        f"quantizer {now.quantizer or _AUTO}",
        opinion or "no second opinion",
        "differences accepted" if now.accept_difference else "",
        f"toolkit {sanitize(now.toolkit, 40)}" if now.toolkit else "",
    )


def compile_command(session: Session, request: CompileParams, path: str) -> list[str]:
    """The command that compiles so; empty where no model is open."""
    if session.container is not None:
        return []
    return command_with("compile", session, replace(request, path=path))


def file_name(workspace: Workspace, chips: Sequence[str]) -> str:
    """The name that is proposed; ``{chip}`` stands for the chip where there are several."""
    chip = chips[0] if len(chips) == 1 else "{chip}"
    return f"{stem_of(workspace)}-{chip}.rknn"


def ask_start(workspace: Workspace, request: CompileParams, *, refresh: bool = False) -> None:
    """Ask where the compiled models go, and before one is replaced; then start the job."""
    recipe = dict(workspace.session.recipe)
    title = f"compile {sanitize(stem_of(workspace), 60)} for {', '.join(request.chips)}"

    def start(path: str, *, force: bool) -> None:
        params = replace(request, recipe=recipe, path=path, refresh=refresh, force=force)
        workspace.start_job(COMPILE, params, title)

    def chosen(path: str) -> None:
        there = [file for file in _files(path, request.chips) if os.path.lexists(file)]
        ask_overwrite(workspace.app, there, lambda force: start(path, force=force))

    proposed = str(Path.cwd() / file_name(workspace, request.chips))
    heading = "Compile to" + (" ({chip}: the chip)" if len(request.chips) > 1 else "")
    ask_user(workspace.app, PathPicker(heading, proposed, folders=True, new=True), chosen)


def _files(path: str, chips: Sequence[str]) -> list[str]:
    """The files that would be written; a folder's own names are for the engine to look at."""
    if "{chip}" in path:
        return [path.replace("{chip}", chip) for chip in chips]
    return [path] if len(chips) == 1 and not Path(path).is_dir() else []


def ask_settings(
    workspace: Workspace,
    known: Sequence[ToolkitEnvironment],
    now: CompileParams,
    then: Callable[[CompileParams], None],
) -> None:
    """Ask how it is compiled; ``known``: toolkits that there are."""
    choices = {"toolkit": [sanitize(row.name, 40) for row in known]}
    SETTINGS.ask(workspace.app, now, then=then, choices=choices)


# The chips of Deploy: which are compiled for, how, and what came of it.


class Targets:
    """What is known of the chips for the open model.

    Args:
        session: has the model, the recipe and the jobs.

    Attributes:
        generations: chip -> generation, of all chips in their order; empty before an answer.
        marked: those that are compiled for.
        settings: quantizer, samples and toolkit.
        found: chip -> what became of it.
        looked_at: the chip whose result is shown; empty for none.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.generations: dict[str, int] = {}
        self.marked: dict[str, None] = {}
        self.settings = CompileParams(recipe={}, path="")
        self.found: dict[str, Compiled] = {}
        self.looked_at = ""
        self._recipe: Values | None = None

    # -- chips -----------------------------------------------------------------------------------

    def know(self, chips: Iterable[ChipFacts]) -> None:
        """Take what the engine knows of the chips."""
        self.generations = {row.name: row.generation for row in chips}

    @property
    def names(self) -> tuple[str, ...]:
        """All chips."""
        return tuple(self.generations)

    @property
    def target(self) -> str:
        """The chip of the recipe; empty where it names none."""
        name = str(self._session.recipe.get("target_platform") or "").lower()
        return name if name in self.generations else ""

    @property
    def chip(self) -> str:
        """The chip that is looked at, else one that was compiled, else the recipe's."""
        return self.looked_at or next(iter(self.found), "") or self.target

    @property
    def result(self) -> Compiled | None:
        """What became of the chip that is looked at."""
        return self.found.get(self.chip)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The chips that would be compiled for: those marked, else the one that is looked at."""
        marked = tuple(name for name in self.names if name in self.marked)
        return marked or ((self.chip,) if self.chip else ())

    @property
    def request(self) -> CompileParams:
        """What would be compiled, and how."""
        return replace(self.settings, chips=self.wanted)

    def mark(self, name: str) -> None:
        """Compile for a chip, or no longer."""
        if name in self.marked:
            del self.marked[name]
        else:
            self.marked[name] = None

    def mark_all(self, names: Iterable[str]) -> None:
        """Mark chips; where all of them are, none."""
        names = list(names)
        every = all(name in self.marked for name in names)
        for name in names:
            if every:
                del self.marked[name]
            else:
                self.marked[name] = None

    def step(self, by: int) -> None:
        """Look at the chip that many places further, of those that were compiled."""
        names = list(self.found)
        if names:
            at = names.index(self.chip) if self.chip in names else 0
            self.looked_at = names[(at + by) % len(names)]

    # -- results ---------------------------------------------------------------------------------

    def forget(self) -> None:
        """Another model is open; what an earlier run made of it comes back."""
        self.found, self.looked_at, self._recipe = {}, "", None
        self.restore()

    def restore(self) -> None:
        """Take the last compilation of the open model, also of an earlier run."""
        last = self._session.last_of(COMPILE)
        if last is not None:
            self.take(*last)

    def take(self, job: JobView, result: CompiledModels) -> None:
        """Take what was made; of other chips the results stay."""
        self.found |= {row.chip: row for row in result.chips}
        self._recipe = job.recipe

    @property
    def outdated(self) -> bool:
        """Whether the recipe changed since the last compilation."""
        return self._recipe is not None and self._recipe != self._session.recipe

    @property
    def job(self) -> JobView | None:
        """The compilation of the open model that runs, else the last one of this run."""
        return self._session.newest(COMPILE.name, ours=True)

    @property
    def states(self) -> dict[str, str]:
        """Chip -> what a running compilation does for it."""
        job = self.job
        if job is None or not job.running:
            return {}
        asked = job.params.get("chips")
        names = [str(name) for name in asked] if isinstance(asked, list | tuple) else []
        return chip_states(job, names)


# The views of what was compiled: the chips, the layers of one, and the second opinion.


class CompilePane(WithJob):
    """A row for each chip; while a job compiles, its stages and log below."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        self.table = RecordTable(COMPILED_CHIPS, id="compile-chips", what="compiled")
        super().__init__(RecordView("Chips", self.table), id=id)

    def take(self, targets: Targets, toolkits: KnownToolkits) -> None:
        """Show the chips, and what would compile for each."""
        states, named = targets.states, targets.settings.toolkit
        records = [
            COMPILED_CHIPS.record(
                targets.found.get(name) or Compiled(chip=name),
                mark="●" if name in targets.marked else " ",
                toolkit=toolkits.text_for(generation, named),
                state=states.get(name) or _ended(targets.found.get(name)),
            )
            for name, generation in targets.generations.items()
        ]
        self.table.set_records(records, keep="chip")

    @property
    def chip(self) -> str:
        """The chip under the cursor; empty for none."""
        record = self.table.record
        return "" if record is None else str(record["chip"])


def _ended(compiled: Compiled | None) -> str:
    if compiled is None:
        return ABSENT
    if compiled.problem:
        return "✗ failed"
    return "✓ cached" if compiled.cached else "✓ compiled"


class LayersPane(LayerView):
    """The layers of a compiled model as the compiler printed them, beside our estimate."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = LayerTable(COMPILED, id="compiled-layers", what="compiled-layers")
        super().__init__("Layers (printed and estimated)", table, id=id)

    def take(self, found: Compiled | None) -> None:
        """Show the layers of a chip."""
        where = f" of {found.chip}" if found is not None else ""
        self.set_title(f"Layers{where} (printed by the compiler, estimated by us)")
        rows = layer_rows(found) if found is not None else ()
        often = Counter(row.id for row in rows)

        def name(row: LayerFigures) -> dict[str, str]:
            """Steps of one layer are told apart by the compiler's names."""
            return {"name": row.name if often[row.id] == 1 else row.printed or row.name}

        self.layer_table.show_layers(sorted(rows, key=disagreement_rank), more=name)


class AgreementPane(RecordView):
    """The outputs of the vendor's simulator beside those of ours."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        table = RecordTable(AGREEMENT, id="agreement", what="agreement")
        super().__init__("Second opinion of the vendor's simulator (simulated)", table, id=id)

    def take(self, found: Sequence[Compiled]) -> None:
        """Show the outputs of chips."""
        self.table.set_records(
            [AGREEMENT.record(row, chip=one.chip) for one in found for row in one.outputs]
        )


def disagreement_rank(row: LayerFigures) -> tuple[int, float, int]:
    """The order of layers: another place, then the cycles that differ most, then as compiled."""
    values = COMPILED.record(row)
    apart = (values["npu_difference"], values["difference"])
    most = max((abs(value) for value in apart if value is not None), default=0.0)
    rank = {"✗": 0, "≠": 1}.get(values["sign"], 2)
    return rank, -most if rank < 2 else 0.0, row.number
