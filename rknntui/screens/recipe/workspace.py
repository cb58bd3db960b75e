"""Workspace Configure: the recipe as a form generated from the options, checked as it is typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from engine import OPTIONS, SECTIONS, Finding, Option, did_you_mean, sanitize
from engine.wire.requests import RECIPE_LOAD, VALIDATE, AtPath, Checked, LoadedRecipe, OfRecipe
from rknntui.keys.actions import key_text
from rknntui.keys.commandline import command_for
from rknntui.links import GoTo, GoToOption, Link
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.dialogs.dialogs import ask_user, remedies
from rknntui.screens.dialogs.picker import PathPicker
from rknntui.screens.recipe.words import (
    choose,
    diff_lines,
    help_lines,
    issue_lines,
    load_recipe,
    save_recipe,
    turned,
)
from rknntui.session.kept import Values
from rknntui.session.messages import ProblemsChanged, RecipeChanged
from rknntui.widgets.form import PER_LAYER, FormRows, OptionForm, RowState, value_text
from rknntui.widgets.line_list import Rows, SidePane, TextRows

_CHECK_SECONDS = 0.25
_EDITS = ("edit", "build")


class Configure(Workspace):
    """The form, the help of the focused option, problems and findings, and the recipe's changes."""

    NAME = "recipe"
    HELP = (
        "Every option of the recipe. Enter edits or lists the values, left and right choose, "
        "Delete restores the default. "
        "● differs from the recipe's file, ✗ cannot be built, ext is an rknntui extension."
    )
    FIRST_FOCUS = "#options"
    DEFAULT_CSS = """
    Configure {
        & #configure-body { height: 1fr; }
        & #configure-side { width: 2fr; height: 1fr; }
        & OptionForm { width: 3fr; }
        & #configure-side TextRows {
            padding: 0 1; border-top: solid $panel; border-title-color: $text-muted;
        }
        & #option-help { height: 2fr; }
        & #issues { height: 1fr; }
        & #diff { height: 1fr; }
        &.-stacked #configure-body { layout: vertical; }
        &.-stacked #configure-side { width: 1fr; height: 8; }
        &.-stacked OptionForm { width: 1fr; height: 1fr; }
        &.-stacked #issues, &.-stacked #diff { display: none; }
        &.-stacked.-show-diff #diff { display: block; }
        &.-stacked.-show-diff #option-help { display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._typed: tuple[str, str] | None = None
        self._candidate: Values | None = None  # the recipe with what is being typed
        self._disk: Mapping[str, object] | None = None
        self._issue_options: list[str] = []

    def compose(self) -> ComposeResult:
        rows = FormRows(SECTIONS, OPTIONS, self._row_state, id="options")
        with Horizontal(id="configure-body"):
            yield OptionForm(rows, self._edit_text, id="form")
            with Vertical(id="configure-side"):
                for name in ("option-help", "issues", "diff"):
                    yield SidePane(id=name)

    def on_mount(self) -> None:
        for name, title in (
            ("option-help", "Option"),
            ("issues", "Problems and findings"),
            ("diff", "Changes"),
        ):
            pane = self.query_one(f"#{name}", TextRows)
            pane.border_title = title
            pane.SHOW_CURSOR = name == "issues"
        self.query_one("#option-help", TextRows).can_focus = False
        self.form.rows.cursor = 1

    form = getters.query_one(OptionForm)
    """The form."""

    def on_resize(self) -> None:
        """Side by side where there is room for both."""
        self.set_class(self.size.width < 110, "-stacked")
        self.call_after_refresh(self._draw_side)

    # -- what the form shows ---------------------------------------------------------------------

    def _row_state(self, option: Option) -> RowState:
        recipe, saved = self.session.recipe, self.session.saved
        in_recipe = option.name in recipe
        changed = recipe.get(option.name) != saved.get(option.name)
        problem = self.session.all_problems.get(option.name, "")
        return RowState(value_text(option, recipe), in_recipe, changed, problem)

    def _fits(self, option: Option) -> bool:
        """Whether an option concerns the open model; one that is set is shown in any case."""
        model = self.session.model
        concerns = not option.frameworks or (model is not None and model.kind in option.frameworks)
        return concerns or option.name in self.session.recipe

    def _edit_text(self, option: Option) -> str:
        value = self.session.recipe.get(option.name)
        return option.render(option.default if value is None else value)

    def update_view(self) -> None:
        self._disk = None  # the file may have changed meanwhile
        self._check()
        self._read_disk()
        self._draw()

    def _draw(self) -> None:
        self.form.rows.show_options(self._fits)
        self.form.rows.refresh()
        self._draw_side()

    @on(SidePane.Resized)
    @on(Rows.Highlighted, "#options")
    def _draw_side(self) -> None:
        option = self.form.rows.option
        if option is None or not self.is_attached:
            return
        pane = self.query_one("#option-help", TextRows)
        width = max(20, (pane.size.width or self.size.width) - 3)
        problem = self.session.all_problems.get(option.name, "")
        if self._typed is not None and self._typed[0] == option.name:
            problem = self._typed[1]
        if problem and any(
            option.name in finding.changes for finding in remedies(self.listed_findings())
        ):
            problem += f" {key_text('recipe.apply-remedy')} applies it."
        elsewhere = len(set(self.session.all_problems) - {option.name})
        value = self.session.recipe.get(option.name, option.default)
        pane.set_lines(help_lines(option, problem, elsewhere, width, value))
        problems, findings = self.session.all_problems, self.session.findings
        issues = self.query_one("#issues", TextRows)
        issue_rows, self._issue_options = issue_lines(problems, findings, width)
        issues.set_lines(issue_rows, keep_cursor=True)
        where = self.session.recipe_path
        before = self._disk if self._disk is not None else self.session.saved
        lines = diff_lines(OPTIONS, before, self.session.recipe, where, width)
        self.query_one("#diff", TextRows).set_lines(lines)

    # -- the session -----------------------------------------------------------------------------

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """Check what changed; the file's content is read again where another file counts now."""
        if message.whole or not message.names:
            self._disk = None
        if self.shown:
            self._check()
            self._read_disk()
            self._draw()

    def on_problems_changed(self, message: ProblemsChanged) -> None:
        """Mark what cannot be built."""
        if self.shown:
            self._draw()

    def _check(self, recipe: Values | None = None) -> None:
        """Let the worker check the recipe, a moment after the last change."""
        if not self.session.recipe or self.session.container is not None:
            return
        candidate = dict(self.session.recipe if recipe is None else recipe)
        then = self._checked if recipe is None else self._checked_typed
        self.set_timer(_CHECK_SECONDS, partial(self._ask_check, candidate, then))

    def _ask_check(self, candidate: Values, then: Callable[[Values, Checked], None]) -> None:
        if candidate not in (self.session.recipe, self._candidate):
            return  # a newer one is on its way
        check = OfRecipe(candidate)
        self.ask(VALIDATE, check, partial(then, candidate), failed=self._failed)

    def _failed(self, error: Exception) -> None:
        self.session.set_problems({"model": str(getattr(error, "what", error))}, [])

    def _checked(self, recipe: Values, answer: Checked) -> None:
        if recipe == self.session.recipe:
            problems = {p.option: p.message for p in answer.problems}
            self.session.set_problems(problems, answer.findings, answer.yaml)

    def _checked_typed(self, recipe: Values, answer: Checked) -> None:
        if self._typed is None or recipe != self._candidate:
            return
        problems = {p.option: p.message for p in answer.problems}
        self._typed = (self._typed[0], problems.get(self._typed[0], ""))
        self._draw_side()

    def _read_disk(self) -> None:
        path = self.session.recipe_path
        if path is None or self._disk is not None:
            return

        def known(answer: LoadedRecipe) -> None:
            if path == self.session.recipe_path:
                self._disk = answer.recipe
                self._draw_side()

        self.ask(RECIPE_LOAD, AtPath(path), known, failed=lambda _: None)

    # -- editing ---------------------------------------------------------------------------------

    @on(OptionForm.Typed)
    def _on_typed(self, event: OptionForm.Typed) -> None:
        """Tell at once what the text is not, and ask the worker about what it is."""
        name = event.option.name
        if event.text is None:
            self._typed = self._candidate = None
            self.session.set_typed_problem(name, None)
            return
        self._typed = (name, event.problem)
        self._candidate = None
        if not event.problem:
            self._candidate = _with(self.session.recipe, event.option, event.value)
            self._check(self._candidate)
        self.session.set_typed_problem(name, event.problem or None)
        self._draw_side()

    @on(OptionForm.Changed)
    def _on_changed(self, event: OptionForm.Changed) -> None:
        self._change({event.option.name: event.value})

    def _change(self, changes: Values) -> None:
        if reason := self.unavailable_reason("edit"):
            self.notify(f"Not now: {reason}", severity="warning", markup=False)
            return
        before = self.session.recipe
        self.session.set_values(changes)
        if self.session.recipe != before and "custom_ops" in changes:
            self.workbench.do(self._ask_about_code())

    async def _ask_about_code(self) -> None:
        from rknntui.screens.dialogs.prompts import ask_trust

        await ask_trust(self.workbench, self.session.recipe)
        self._check()

    @on(FormRows.Turned)
    def _turned(self, event: FormRows.Turned) -> None:
        option = self.form.rows.option
        if option is None:
            return
        value = self.session.recipe.get(option.name, option.default)
        new = turned(option, value, event.step)
        if new != value:
            self._change({option.name: new})
        self._draw()

    @on(FormRows.Reset)
    def _reset(self) -> None:
        option = self.form.rows.option
        if option is not None and option.name != "model":
            self._change({option.name: None})
            self._draw()

    @on(Rows.Chosen, "#options")
    def _option_chosen(self) -> None:
        """Edit; of a choice show the list, and Hybrid for what has an entry a layer."""
        option = self.form.rows.option
        if option is not None and option.kind == "choice" and not self.unavailable_reason("edit"):
            choose(self.app, option, self.session.recipe, self._change)
        elif option is not None and option.kind in PER_LAYER and self.session.built is not None:
            self.post_message(GoTo("layers"))
        else:
            self.action_edit()

    def action_edit(self) -> None:
        """Edit in place; a file or folder is chosen in the picker."""
        option = self.form.rows.option
        if option is None:
            return
        if reason := self.unavailable_reason("edit"):
            self.notify(f"Not now: {reason}", severity="warning", markup=False)
            return
        if option.kind == "path":
            self._pick(option)
        elif option.kind == "bool":
            self._turned(FormRows.Turned(1))
        else:
            self.form.edit()

    def _pick(self, option: Option) -> None:
        def chosen(path: str) -> None:
            self._change({option.name: path})
            self._draw()

        start = str(self.session.recipe.get(option.name) or "")
        picker = PathPicker(option.help, start, folders=option.name == "dataset")
        ask_user(self.app, picker, chosen)

    # -- actions ---------------------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if self.session.container is not None and method in _EDITS:
            return "a container is already built; open its model to change the recipe."
        if method == "next_problem":
            return "" if self.session.all_problems else "there are no problems."
        if method in ("save", "build", "copy_yaml") and not self.session.recipe:
            return "no model is open ({app.open} opens one)."
        return ""

    def action_load(self) -> None:
        """Choose a recipe file and take its values."""
        load_recipe(self)

    def action_save(self) -> None:
        """Ask where, and before a file is replaced."""
        save_recipe(self)

    def action_next_problem(self) -> None:
        """Put the cursor on the next option with a problem."""
        names = [o.name for o in OPTIONS if o.name in self.session.all_problems]
        here = self.form.rows.option
        if not names:
            return
        order = [o.name for o in OPTIONS]
        at = order.index(here.name) if here is not None else -1
        following = [n for n in names if order.index(n) > at]
        self.focus_option((following or names)[0])

    def arrive(self, link: Link) -> None:
        if isinstance(link, GoToOption):
            self.focus_option(link.option)

    def focus_option(self, name: str) -> None:
        """Focus an option."""
        try:
            self.form.focus_option(name)
        except ValueError:
            near = did_you_mean(name, [o.name for o in OPTIONS])
            self.notify(f"There is no option {sanitize(name, 60)}. {near}", markup=False)

    def action_diff(self) -> None:
        """Show the changes in the place of the help, or give it back."""
        self.toggle_class("-show-diff")
        self.query_one("#diff" if self.has_class("-show-diff") else "#options").focus()

    def listed_findings(self) -> Sequence[Finding]:
        return self.session.findings

    def change_recipe(self, changes: Values) -> None:
        self._change(changes)
        self._draw()

    @on(Rows.Chosen, "#issues")
    def _issue_chosen(self, event: Rows.Chosen) -> None:
        if event.index < len(self._issue_options):
            self.focus_option(self._issue_options[event.index])

    def copy_text(self) -> str:
        option = self.form.rows.option
        focused = self.screen.focused
        if isinstance(focused, TextRows):
            return focused.text()
        if option is None:
            return ""
        return f"{option.name}: {self._edit_text(option)}"

    def action_copy_yaml(self) -> None:
        """Copy the recipe's file."""
        self.workbench.copy(self.session.yaml)

    def command_line(self) -> list[str]:
        return command_for("build", self.session)


def _with(recipe: Values, option: Option, value: object) -> Values:
    changed = {**recipe, option.name: value}
    if value is None or value == option.default:
        changed.pop(option.name)
    return changed
