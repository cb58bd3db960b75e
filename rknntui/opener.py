"""Opens what the user names, at start or later, and reads again what changed on disk."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rknntui.keys.actions import key_text
from rknntui.session.kept import Draft, told

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping
    from typing import Any

    from rknntui.session.file_watcher import FileWatcher
    from rknntui.session.messages import SourceChanged
    from rknntui.shell import Shell


class Opener:
    """Opens models, recipes and containers, with what has to be asked before.

    Its coroutines are awaited inside a worker of Textual, as dialogs wait for their answer there.

    Args:
        app: asks, tells, and has the session.
    """

    def __init__(self, app: Shell) -> None:
        self._app = app
        self._changed: set[str] = set()
        self._watch: FileWatcher | None = None

    async def open(self, path: str, given: Mapping[str, object] | None = None) -> None:
        """Open a file.

        Args:
            path: of a model, recipe or container.
            given: options of the source model that are said beside it.

        Raises:
            EngineError: it cannot be read.
        """
        from rknntui.screens.dialogs.prompts import with_key

        with self._shown(path):
            await with_key(self._app, lambda: self._open(path, given))

    async def _open(self, path: str, options: Mapping[str, object] | None) -> None:
        from pathlib import Path

        from engine import SeveralFilesError
        from rknntui.screens.dialogs.prompts import ask_for_partner, ask_trust, recipe_at
        from rknntui.session.open_flow import open_path

        app, session = self._app, self._app.session
        absolute = str(Path(path).expanduser().absolute())
        kept = session.history.drafts.of(absolute)
        recipe = kept.recipe if kept else await recipe_at(app, absolute)
        await ask_trust(app, recipe)
        before = session.recipe
        try:
            draft = await open_path(session, app.bridge, path, options)
        except SeveralFilesError:
            model = str(recipe.get("model") or absolute)
            pair = await ask_for_partner(app, model)
            if pair is not None:
                named = pair.model if model == absolute else path  # else a recipe's file
                await self.open(named, {**(options or {}), "weights": pair.weights})
            return
        if session.recipe is not before:
            for text in told(session.history.left, draft):
                app.notify(text, title="Unsaved changes", timeout=8, markup=False)

    def choose(self) -> None:
        """Let the user choose a file, and open it."""
        from pathlib import Path

        from rknntui.screens.dialogs.picker import MODELS, RECIPES, PathPicker
        from rknntui.workspaces import FIRST

        app, path = self._app, self._app.session.path

        def opened(chosen: str | None) -> None:
            if chosen:
                app.open_path(chosen)
                app.do(app.show(FIRST))

        start = f"{Path(path).parent}/" if path else ""
        picker = PathPicker("Open a model, recipe or .rknn", start, suffixes=(*RECIPES, *MODELS))
        app.push_screen(picker, opened)

    async def open_demo(self) -> None:
        """Open the demo model with its samples; it is built where it was not yet.

        Raises:
            EngineError: it cannot be made.
        """
        from rknntui.demo import CHIP, demo_recipe

        await self.open_first(None, demo_recipe(CHIP), None, Draft())
        if self._app.session.summary is None:
            self._app.build()

    async def open_first(
        self,
        path: str | None,
        recipe: Mapping[str, object] | None,
        given: Mapping[str, object] | None,
        state: Draft,
    ) -> None:
        """Open what the start names: a recipe, else a path, else what the last run had open.

        Raises:
            EngineError: it cannot be read.
        """
        from rknntui.screens.dialogs.prompts import ask_trust, with_key
        from rknntui.session import open_flow

        session, bridge = self._app.session, self._app.bridge
        if recipe is not None or path:
            session.history.drafts.keep_last(state)
        if recipe is not None:
            with self._shown(str(recipe.get("model") or "")):
                await open_flow.open_recipe(session, bridge, recipe)
        elif path:
            await self.open(path, given)
        else:
            await ask_trust(self._app, state.recipe)
            with self._shown(state.model):
                await with_key(self._app, lambda: open_flow.restore(session, bridge, state))

    @contextmanager
    def _shown(self, path: str) -> Iterator[None]:
        """Say in the line on top that a file is being opened, which takes seconds on a board."""
        session = self._app.session
        session.now_opening(path.rsplit("/", 1)[-1])
        try:
            yield
        finally:
            session.now_opening("")
            self._app.ask_in_background()

    def changed_on_disk(self, message: SourceChanged) -> None:
        """Offer to read it again; nothing happens to the user's work before they say so."""
        if message.gone:
            text = "is not on the disk any more. What is open stays; a build needs the file."
        else:
            self._changed.add(message.role)
            rebuild = " and rebuilds" if self._app.session.summary else ""
            text = f"changed on disk. {key_text('app.reload')} reloads it{rebuild}."
        self._app.notify(
            f"The {message.role} {text}",
            title=message.path,
            severity="warning",
            timeout=15,
            markup=False,
        )

    def opened(self) -> None:
        """Another model is open: what changed of the last one does not count any more."""
        self._changed.clear()
        if other := self._app.session.claim():
            text = f"It is also open in another workbench ({other}). Each keeps a draft of its own."
            self._app.notify(f"{text} Who saves last wins.", title="Open twice", markup=False)

    def undo(self) -> None:
        """Take back the last change of the recipe, and say which.

        Where nothing was changed since another file was opened, go back to the unsaved one.
        """
        history = self._app.session.history
        if not history.undo and history.left is not None:
            self._app.clear_notifications()
            self._app.open_path(history.left)
        else:
            self._told("Undone", self._app.session.undo())

    def redo(self) -> None:
        """Make the change again that was taken back last, and say which."""
        self._told("Redone", self._app.session.redo())

    def _told(self, what: str, names: list[str]) -> None:
        text = f"{what}: {', '.join(names)}." if names else "Nothing to undo or redo."
        self._app.notify(text, timeout=3, markup=False)

    def follow(self) -> None:
        """Watch the files of the recipe as it is now."""
        from rknntui.session.file_watcher import FileWatcher

        if self._watch is None:
            self._watch = FileWatcher(self._app.post_message)
        self._watch.follow(self._app.session)

    async def guarded(self, work: Coroutine[Any, Any, object]) -> None:
        """Await what asks the engine; its errors become a dialog."""
        from engine import EngineError, JobCancelledError

        try:
            await work
        except JobCancelledError:
            pass  # the user's own doing, told where they did it
        except EngineError as error:
            self._app.show_error(error)

    def tell_error(self, error: Exception) -> None:
        """Tell an error in a dialog, once; where it is about a key, ask for that."""
        from rknntui.screens.dialogs.dialogs import ErrorDialog, error_dialog

        shown = self._app.screen
        if self._lacks_key(error):
            self._app.do(self._ask_again(error))
        elif not (isinstance(shown, ErrorDialog) and str(shown.error) == str(error)):
            self._app.push_screen(error_dialog(error))

    def _lacks_key(self, error: Exception) -> bool:
        """Whether an error is about the key of the open container: the worker that had it ended,
        or was given the one of another container since.
        """
        container = self._app.session.container
        if container is None or getattr(error, "kind", "") not in ("key needed", "wrong key"):
            return False
        return container.rpartition("/")[2] in str(error)

    async def _ask_again(self, error: Exception) -> None:
        """A job lacked the key of the open container: ask for it, for the next time.

        Raises:
            EngineError: there is no worker to give it to.
        """
        from rknntui.screens.dialogs.prompts import ask_key

        if await ask_key(self._app, error):
            self._app.notify("The worker has the key again: start the job again.")

    def stop(self) -> None:
        """Watch nothing any more."""
        if self._watch is not None:
            self._watch.stop()

    async def reload(self) -> None:
        """Read again what changed on disk; build again where there was a build.

        Raises:
            EngineError: a file is gone or broken now.
        """
        from rknntui.screens.dialogs.prompts import ask_trust, recipe_at, with_key
        from rknntui.session.open_flow import reload_changed

        app, session = self._app, self._app.session
        changed, self._changed = self._changed or {"model"}, set()
        built = session.summary is not None
        again = session.recipe_path if "recipe" in changed else None
        await ask_trust(app, await recipe_at(app, again) if again else session.recipe)
        if not await with_key(app, lambda: reload_changed(session, app.bridge, changed)):
            return
        if built and session.container is None and not session.all_problems:
            from engine.wire.build import BUILD, BuildParams

            app.start_job(BUILD, BuildParams(recipe=dict(session.recipe)), "Build again")
