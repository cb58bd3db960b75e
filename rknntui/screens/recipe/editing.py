"""The editing of the recipe in its form: typed, chosen or turned, and checked meanwhile."""

from __future__ import annotations

from functools import partial

from textual import getters, on

from engine import Option
from engine.wire.requests import VALIDATE, Checked, OfRecipe
from rknntui.links import GoTo
from rknntui.screens.base.views import TableWorkspace
from rknntui.screens.dialogs.dialogs import ask_user
from rknntui.screens.dialogs.picker import MODELS, PathPicker
from rknntui.screens.recipe.samples import pick_dataset
from rknntui.screens.recipe.words import ask_usual, choose, turned
from rknntui.session.kept import Values
from rknntui.widgets.form import PER_LAYER, FormRows, OptionForm
from rknntui.widgets.line_list import Rows

_CHECK_SECONDS = 0.25
_NORMALISING = ("mean_values", "std_values")


class FormWorkspace(TableWorkspace):
    """A workspace with the form of the recipe's options."""

    def __init__(self) -> None:
        super().__init__()
        self._typed: tuple[str, str] | None = None
        self._candidate: Values | None = None  # the recipe with what is being typed

    form = getters.query_one(OptionForm)
    """The form."""

    def _draw_help(self) -> None:
        """Show what is known of the option under the cursor."""

    def _edit_text(self, option: Option) -> str:
        value = self.session.recipe.get(option.name)
        return option.render(option.default if value is None else value)

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
            self.set_timer(_CHECK_SECONDS, partial(self._check_typed, self._candidate))
        self.session.set_typed_problem(name, event.problem or None)

    @on(OptionForm.Changed)
    def _on_changed(self, event: OptionForm.Changed) -> None:
        self._change({event.option.name: event.value})

    def _change(self, changes: Values) -> None:
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

    @on(FormRows.Turned)
    def _turned(self, event: FormRows.Turned) -> None:
        option = self.form.rows.option
        if option is None:
            return
        value = self.session.recipe.get(option.name, option.default)
        new = turned(option, value, event.step)
        if new != value:
            self._change({option.name: new})

    @on(FormRows.Reset)
    def _reset(self) -> None:
        option = self.form.rows.option
        if option is not None and option.name != "model":
            self._change({option.name: None})

    @on(Rows.Chosen, "#options")
    def _option_chosen(self) -> None:
        """Edit; list what there is to choose from, and Layers for what has an entry a layer."""
        option = self.form.rows.option
        if option is None:
            return
        if self.unavailable_reason("edit"):
            self.action_edit()
        elif option.kind == "choice":
            choose(self.app, option, self.session.recipe, self._change)
        elif option.name in _NORMALISING:
            shapes = [tensor.shape for tensor in self.session.inputs]
            ask_usual(self.app, self.session.recipe, shapes, self._change, self.form.edit)
        elif option.kind in PER_LAYER and self.session.built is not None:
            self.post_message(GoTo("layers"))
        else:
            self.action_edit()

    def action_edit(self) -> None:
        """Edit in place; a file or folder is chosen in the picker."""
        option = self.form.rows.option
        if self.not_now(self.disabled_reason("edit")):
            return
        if self.view == "Data" or (option is not None and option.name == "dataset"):
            pick_dataset(self)
        elif option is None:
            return
        elif option.kind == "path":
            start = str(self.session.recipe.get(option.name) or "")
            kinds = MODELS if option.name == "model" else ()
            picker = PathPicker(option.help, start, suffixes=kinds)
            ask_user(self.app, picker, lambda path: self._change({option.name: path}))
        elif option.kind == "bool":
            self._turned(FormRows.Turned(1))
        else:
            self.form.edit()

    def _check_typed(self, candidate: Values) -> None:
        if candidate is self._candidate:  # else a newer one is on its way
            asked = OfRecipe(candidate)
            self.ask(VALIDATE, asked, partial(self._checked, candidate), failed=lambda _: None)

    def _checked(self, candidate: Values, answer: Checked) -> None:
        if self._typed is None or candidate is not self._candidate:
            return
        problems = {p.option: p.message for p in answer.problems}
        self._typed = (self._typed[0], problems.get(self._typed[0], ""))
        self._draw_help()

    def change_recipe(self, changes: Values) -> None:
        self._change(changes)


def _with(recipe: Values, option: Option, value: object) -> Values:
    changed = {**recipe, option.name: value}
    if value is None or value == option.default:
        changed.pop(option.name)
    return changed
