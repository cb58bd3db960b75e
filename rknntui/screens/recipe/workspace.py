"""Workspace Recipe: the options as a form, checked as they are typed, beside the data they get."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual import getters, on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from engine import NORMALISATIONS, OPTIONS, Finding, Option, did_you_mean, sanitize
from engine.wire.requests import RECIPE_SAVE, VALIDATE, OfRecipe, Saved, SaveParams
from rknntui.keys.actions import key_text
from rknntui.keys.commandline import command_for
from rknntui.links import GoTo, GoToOption, Link
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.lists import ChoiceDialog
from rknntui.screens.dialogs.picker import MODELS, PathPicker, ask_new_file
from rknntui.screens.recipe.data import SampleList, SamplePreview
from rknntui.screens.recipe.form import PER_LAYER, OptionForm, as_typed
from rknntui.screens.recipe.words import (
    NORMALISING,
    UNSET,
    diff_lines,
    facts_text,
    help_lines,
    issue_lines,
    values_about,
)
from rknntui.session.kept import Values
from rknntui.session.messages import ProblemsChanged, RecipeChanged
from rknntui.session.target import generation_of
from rknntui.widgets.divider import Divider
from rknntui.widgets.line_list import Rows, SidePane, TextRows
from rknntui.widgets.one_line import SearchLine, ViewBar, fit_facts

_OF_DATA = ("run", "step_sample")
_NARROW = 110
"""Cells below which the form and the data are views of their own."""


class Recipe(TableWorkspace):
    """The form, the help of the option under the cursor, the samples, problems and changes."""

    NAME = "recipe"
    HELP = (
        "The options and the calibration data. Enter edits or lists the values, left and right "
        "choose, Delete restores the default; {recipe.filter} finds an option by its name or help. "
        "The picture is a sample as the network sees it; below it stand the values that reach the "
        "network, and expected is the range that mean and std give for pixels 0..255.\n"
        "● differs from the recipe's file, ✗ cannot be built, ext is an rknntui extension."
    )
    FIRST_FOCUS = "#options"
    PANES = {"Options": "form", "Data": "sample-list", "Changes": "diff"}
    DEFAULT_CSS = """
    Recipe {
        & #recipe-side { width: 2fr; }
        & OptionForm { width: 3fr; max-width: 90; }
        & SampleList, & #diff { width: 3fr; display: none; }
        &.-stacked SampleList, &.-stacked #recipe-side { width: 1fr; }
        & #option-help {
            height: auto; max-height: 60%; padding: 0 1; border-bottom: solid $panel;
        }
        & #issues { height: auto; max-height: 30%; padding: 0 1; border-top: solid $panel; }
        &.-stacked #issues { max-height: 5; }
        &.-stacked.-options #recipe-body { layout: vertical; }
        &.-stacked.-options #recipe-side { height: 7; }
        &.-stacked.-options OptionForm { width: 1fr; height: 1fr; max-width: 100%; }
        &.-stacked.-options #option-help { height: 1fr; max-height: 100%; border-bottom: none; }
        &.-stacked.-detail #recipe-side, &.-detail #option-help { height: 1fr; max-height: 100%; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._targets: list[str | int] = []
        self._words = ""
        self._also: set[str] = set()

    def compose(self) -> ComposeResult:
        yield ViewBar(tuple(self.PANES))
        with Horizontal(id="recipe-body"):
            yield OptionForm(id="form")
            yield SampleList(id="sample-list")
            yield SidePane(id="diff")
            yield Divider("recipe-divider")
            with Vertical(id="recipe-side"):
                yield SidePane(id="option-help")
                yield SamplePreview(id="preview")
        yield SidePane(id="issues")
        yield SearchLine("search options: Enter keeps, Esc shows all", id="search")

    form = getters.query_one(OptionForm)
    """The form."""
    samples = getters.query_one(SampleList)
    """The list of samples."""
    preview = getters.query_one(SamplePreview)
    """The sample under the cursor."""
    help_pane = getters.query_one("#option-help", SidePane)
    """What is known of the option under the cursor."""
    _diff = getters.query_one("#diff", SidePane)
    _issues = getters.query_one("#issues", SidePane)

    def on_mount(self) -> None:
        self.help_pane.SHOW_CURSOR = self.help_pane.can_focus = self._diff.SHOW_CURSOR = False
        self._arrange()

    def on_resize(self) -> None:
        """Side by side where there is room for both."""
        self._arrange()
        self.call_after_refresh(self._draw)

    def pane_shown(self, view: str) -> None:
        self._arrange()
        focus = {"Data": self.samples.table, "Changes": self._diff}
        focus.get(view, self.form.rows).focus()
        self.call_after_refresh(self.samples.table.reveal, self.samples.table.cursor)
        self.call_after_refresh(self._moved)

    def _arrange(self) -> None:
        """Show what the view has room for."""
        options, stacked = self.view == "Options", self.size.width < _NARROW
        detail = options and self.has_class("-detail")
        beside = options and not stacked and not detail
        for name, holds in (("stacked", stacked), ("options", options), ("detail", detail)):
            self.set_class(holds, f"-{name}")
        self.form.display, self.help_pane.display = options and not detail, options
        self.preview.display = beside or self.view == "Data"
        self.preview.set_class(beside, "-beside")
        self.query_one("#recipe-side").display = self.view != "Changes"
        self._issues.display = not (options and stacked)

    # -- what the form shows ---------------------------------------------------------------------

    def _fits(self, option: Option) -> bool:
        """Whether an option is shown: it has the words that are searched, or concerns the model."""
        if self._words:
            return option.mentions(self._words)
        session = self.session
        framework = session.model.kind if session.model is not None else ""
        known = option.name in session.recipe or option.name in self._also
        return known or option.concerns(framework, generation_of(session.chip))

    def update_view(self) -> None:
        self._draw()
        self.samples.read()
        self.samples.draw()

    @on(RecipeChanged)
    @on(ProblemsChanged)
    def _changed(self) -> None:
        """Values, samples, problems or what becomes of them are others now."""
        if self.shown:
            self.update_view()

    def on_model_opened(self) -> None:
        """Another model, or files that changed on disk were read again."""
        self.samples.forget()
        self._changed()

    def _draw(self) -> None:
        self.form.rows.show_options(self._fits)
        self.form.rows.refresh()
        path, facts = str(self.session.recipe.get("dataset") or ""), self.session.dataset
        room = max(20, self.size.width - 30)
        note = f"with “{self._words}” · Esc shows all" if self._words else ""
        self.bar.set_note(note or fit_facts(facts_text(path, facts), room))
        self._draw_side()

    @on(Rows.Highlighted, "#samples")
    def _moved(self) -> None:
        self.preview.follow(self.samples.table.record)

    @on(Rows.Highlighted, "#options")
    def _draw_help(self) -> None:
        problems, option = self.session.all_problems, self.form.rows.option
        if option is not None:
            problem = problems.pop(option.name, "")
            fixes = [finding.changes for finding in self.listed_findings()]
            if problem and any(option.name in changes for changes in fixes):
                problem += f" {key_text('recipe.apply-remedy')} applies the fix."
            pane, recipe = self.help_pane, self.session.recipe
            pane.set_lines(help_lines(option, problem, len(problems), pane.text_width, recipe))

    @on(SidePane.Resized)
    def _draw_side(self) -> None:
        if not self.is_attached or not self.shown:
            return  # hidden it has no width: its text would have other lines when it is shown
        self._draw_help()
        session = self.session
        lines, self._targets = issue_lines(
            session.all_problems, self.listed_findings(), session.dataset, self._issues.text_width
        )
        if session.checking or "" in map(session.asked.get, ("config", "dataset")):
            lines.append([("… checking", "dim")])
        lines = lines or [[("✓ no problems, no findings", "good")]]
        self._issues.set_lines(lines, keep_cursor=True)
        self._diff.set_lines(diff_lines(session, self._diff.text_width))

    # -- the session -----------------------------------------------------------------------------

    def on_steps_changed(self) -> None:
        """Something is asked, or is known now."""
        if self.shown:
            self._draw_side()

    # -- changing the recipe ---------------------------------------------------------------------

    def change_recipe(self, changes: Values) -> None:
        if self.not_now(self.disabled_reason("edit")):
            return
        before = self.session.recipe
        self.session.set_values(changes)
        if self.session.recipe != before and "custom_ops" in changes:
            self.workbench.do(self._ask_about_code())

    async def _ask_about_code(self) -> None:
        from rknntui.screens.dialogs.prompts import ask_trust

        await ask_trust(self.workbench, self.session.recipe)
        self.session.set_problems(await self.bridge.call(VALIDATE, OfRecipe(self.session.recipe)))

    @on(Rows.Chosen, "#options")
    def _option_chosen(self) -> None:
        """Edit; list what there is to choose from, and Layers for what has an entry a layer."""
        option = self.form.rows.option
        if option is None or self.unavailable_reason("edit"):
            self.action_edit()
        elif option.kind == "choice":
            self._list_values(option)
        elif option.name in NORMALISING:
            self._list_usual()
        elif option.kind in PER_LAYER and self.session.built is not None:
            self.post_message(GoTo("layers"))
        else:
            self.action_edit()

    def _list_values(self, option: Option) -> None:
        name, about = option.name, values_about(option, self.session.recipe)
        now = str(self.session.recipe.get(name) or option.default or UNSET)

        def take(choice: str) -> None:
            self.change_recipe({name: None if choice == UNSET else choice})

        ask_user(self.app, ChoiceDialog(name, tuple(about), now, about), take)

    def _list_usual(self) -> None:
        """List the usual means and stds; both are set, with the order of the channels."""
        shapes = [tensor.shape for tensor in self.session.inputs]
        known = {usual: usual.changes(shapes) for usual in NORMALISATIONS}
        found = {usual.name: dict(changes) for usual, changes in known.items() if changes}
        about = {u.name: f"{u.text}; {u.about}" for u, changes in known.items() if changes}
        both = {name: self.session.recipe.get(name) for name in NORMALISING}
        now = next((n for n, changes in found.items() if changes.items() >= both.items()), "")

        def take(choice: str) -> None:
            if choice in found:
                self.change_recipe(found[choice])
            else:
                self.form.edit()

        if found:
            about["other values"] = "Type them, a value per channel."
            ask_user(
                self.app, ChoiceDialog(" and ".join(NORMALISING), tuple(about), now, about), take
            )
        else:
            self.form.edit()

    def action_edit(self) -> None:
        """Edit in place; a file or folder is chosen in the picker."""
        option = self.form.rows.option
        if self.not_now(self.disabled_reason("edit")):
            return
        if self.view == "Data" or (option is not None and option.name == "dataset"):
            self.samples.pick()
        elif option is not None and option.kind == "path":
            name = option.name
            start = str(self.session.recipe.get(name) or "")
            picker = PathPicker(option.help, start, suffixes=MODELS if name == "model" else ())
            ask_user(self.app, picker, lambda path: self.change_recipe({name: path}))
        elif option is not None and option.kind == "bool":
            self.form.rows.action_turn(1)
        else:
            self.form.edit()

    # -- actions ---------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        recipe, container = self.session.recipe, self.session.container is not None
        if container and method in ("edit", "make"):
            return "a container is already built; open its model to change the recipe."
        if container and method in _OF_DATA:
            return "a container has no samples."
        if method in ("save", "edit", "make") and not recipe:
            return "no model is open ({app.open} opens one)."
        if method in _OF_DATA and not recipe.get("dataset"):
            return "no dataset is chosen ({recipe.next-view} shows Data, {recipe.edit} chooses it)."
        if method == "step_problem":
            bad = self.session.all_problems or (self.is_attached and self.samples.bad_rows())
            return "" if bad else "there are no problems."
        if method == "next_input":
            return "" if len(self.session.inputs) > 1 else "the model has only one input."
        if method in ("filter", "copy_table") and self.view != "Data":
            return ""
        return super().unavailable_reason(method)

    def action_save(self) -> None:
        """Ask where, and before a file is replaced."""
        session = self.session

        def saved(answer: Saved) -> None:
            session.recipe_saved(answer.path)
            self.notify(f"Wrote {answer.path}.", markup=False)

        def save(path: str, force: bool) -> None:
            self.ask(RECIPE_SAVE, SaveParams(session.recipe, path, force), saved)

        start = session.recipe_path or Path.cwd() / f"{session.stem}.yaml"
        ask_new_file(self.app, "Save the recipe", Path(start), save)

    def action_make(self) -> None:
        """Choose the folder, then the list."""
        self.samples.make()

    def action_run(self) -> None:
        """Decode every file of the dataset, which a build would do too."""
        self.samples.check()

    def action_step_sample(self, by: int) -> None:
        """Go to another sample, round the end."""
        if count := self.samples.table.row_count:
            self.samples.table.cursor = (self.samples.table.cursor + by) % count

    def action_next_input(self) -> None:
        """Preview the next input."""
        self.preview.follow(self.samples.table.record, step=1)

    def action_step_problem(self, step: int) -> None:
        """Put the cursor on the next option or sample with a problem, or on the one before."""
        self._search("")
        rows = [row if isinstance(row, str) else row.name for row in self.form.rows.rows]
        known = sorted((rows.index(n), n) for n in self.session.all_problems if n in rows)
        bad = [(len(rows) + at, line) for at, line in self.samples.bad_rows()]
        places: list[tuple[int, str | int]] = [*known, *bad]
        if not places:
            return
        in_data = self.view == "Data"
        here = len(rows) + self.samples.table.cursor if in_data else self.form.rows.cursor
        further = [target for at, target in places[::step] if (at - here) * step > 0]
        self._go_to(further[0] if further else places[::step][0][1])

    def _go_to(self, target: str | int) -> None:
        """Show an option by its name, or a sample by its line."""
        if isinstance(target, str):
            self.focus_option(target)
        else:
            self._choose_view("Data")
            self.samples.go_to(target)

    def _choose_view(self, name: str) -> None:
        if self.view != name:
            self.bar.choose(name)

    def action_filter(self) -> None:
        """Search the options, or filter the samples."""
        if self.view == "Data":
            super().action_filter()
        else:
            self._choose_view("Options")
            self.query_one("#search", SearchLine).open()

    @on(SearchLine.Typed, "#search")
    def _search_typed(self, event: SearchLine.Typed) -> None:
        event.stop()
        self._search(event.text.strip())
        if event.done:
            self.form.rows.focus()

    def _search(self, words: str) -> None:
        if words != self._words:
            self._words = words
            said = f"No option has “{sanitize(words, 40)}”; Esc shows all."
            self.form.rows.empty = [[(f"  {said}", "dim")]]
            self._draw()

    def action_detail(self) -> None:
        """Show all that is known of the option in the place of the form, or give it back."""
        self.toggle_class("-detail")
        detail = self.help_pane.can_focus = self.has_class("-detail")
        self._arrange()
        (self.help_pane if detail else self.form.rows).focus()

    def action_back(self) -> None:
        """Give the form its place back, show all options again, or stop a question."""
        if self.has_class("-detail"):
            self.action_detail()
        elif self._words:
            self._search("")
        elif self.view != "Options":
            self._choose_view("Options")
        else:
            raise SkipAction  # the workbench's Esc

    def arrive(self, link: Link) -> None:
        if isinstance(link, GoToOption):
            self.focus_option(link.option)

    def focus_option(self, name: str) -> None:
        """Show the form with the cursor on an option."""
        if name not in [option.name for option in OPTIONS]:
            near = did_you_mean(name, [o.name for o in OPTIONS])
            self.notify(f"There is no option {sanitize(name, 60)}. {near}", markup=False)
            return
        self._also.add(name)
        self._search("")
        self.form.rows.show_options(self._fits)
        self._choose_view("Options")
        self.form.focus_option(name)

    def listed_findings(self) -> Sequence[Finding]:
        facts = self.session.dataset
        return (*self.session.findings, *(facts.findings if facts is not None else ()))

    @on(Rows.Chosen, "#issues")
    def _issue_chosen(self, event: Rows.Chosen) -> None:
        if event.index < len(self._targets):
            self._go_to(self._targets[event.index])

    def copy_text(self) -> str:
        option, sample = self.form.rows.option, self.samples.table.record
        if isinstance(self.screen.focused, TextRows):
            return super().copy_text()
        if self.view == "Data":
            return "" if sample is None else " ".join(sample.files)
        return f"{option.name}: {as_typed(option, self.session.recipe)}" if option else ""

    def action_copy_table(self) -> None:
        """Copy the shown samples, or the recipe's file."""
        if self.view == "Data":
            super().action_copy_table()
        else:
            self.workbench.output.copy(self.session.yaml)

    def command_line(self) -> list[str]:
        recipe = self.session.recipe
        if self.view != "Data" or not recipe.get("dataset"):
            return command_for("build", self.session)
        words = ["rknntui", "dataset", "check", str(recipe["dataset"])]
        return [*words, "--model", str(recipe["model"])] if recipe.get("model") else words
