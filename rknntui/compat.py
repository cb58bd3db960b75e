"""What touches things that Textual 8.2.8 does not promise: this module and ``sent``, none else.

Its version is pinned exactly.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from textual import events
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.screen import Screen

from rknntui.palette import XtermPalette
from rknntui.sent import Sent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import Binding
    from textual.filter import LineFilter
    from textual.message_pump import MessagePump
    from textual.widget import Widget


class QuietCrashApp(App[None]):
    """Keeps the exception that ended it instead of printing a traceback on the terminal.

    Sends to the terminal only the cells that it does not show already. A key is sent to where the
    focus is once the key before it is done: Textual runs the bindings of a widget in the workbench,
    behind the letters that were typed after them.
    """

    crash: BaseException | None = None

    def __init__(self) -> None:
        super().__init__()
        self.sent = Sent()
        self._palette = XtermPalette()
        self._typed: deque[events.Event] = deque()
        self._sent: tuple[events.Event, Screen[Any], Widget] | None = None
        self._following = self._bound = False

    @property
    def colours(self) -> str:
        """What the terminal has: ``truecolor``, ``256`` or ``standard`` (16)."""
        return str(self.console.color_system)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, and the palette of a terminal with 256 colours."""
        filters = super().get_line_filters()
        return [*filters, self._palette] if self.colours == "256" else filters

    def send(self, text: str) -> None:
        """Write to the terminal what is no part of the screen, such as its title."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(text)

    def get_default_screen(self) -> Screen[None]:
        return ScreenOfSize(id="_default")

    def on_resize(self, event: events.Resize) -> None:
        """A terminal may have moved or cleared its text, also where it has its old size again."""
        self.sent.forget()
        if event.size == self.size:  # else it is laid out, and all of it painted, in the new size
            self.screen.refresh()

    async def on_event(self, event: events.Event) -> None:
        """Take a key or a paste once what was typed before it is done."""
        typed = isinstance(event, events.Key | events.Paste) and bool(self.screen_stack)
        if typed and not event.is_forwarded:
            self._typed.append(event)
        else:
            await super().on_event(event)
            if self._sent is None or event is not self._sent[0]:
                return
            self._bound = True  # it came back, and its bindings were run
            if not self._typed:
                self._sent = None
        await self._take_typed()

    async def _take_typed(self) -> None:
        """Send what was typed until something is on its way, and follow that where more waits."""
        while self._typed and self._sent is None:
            event, target = self._typed.popleft(), self.focused or self.screen
            self._sent, self._bound = (event, self.screen, target), False
            await super().on_event(event)
            if not event.is_forwarded:
                self._sent = None
        if self._typed and self._sent and not (self._following and self._sent[2].is_running):
            self._following = True
            self._go_behind(self._sent[2], again=True)

    def _go_behind(self, node: MessagePump, *, again: bool) -> None:
        """Go up behind a key that was sent to a node; ``again`` behind what its bindings told."""
        if not node.call_later(self._done_in, node, again) and node is not self:
            self.call_later(self._done_in, self, again)

    async def _done_in(self, node: MessagePump, again: bool) -> None:
        if node is not self:
            self._go_behind(node._parent or self, again=again)
        elif again and self._bound and self._sent is not None:
            self._go_behind(self._sent[2], again=False)
        else:
            self._sent, self._following = None, False
            await self._take_typed()

    def typed_ahead(self, key: events.Key) -> bool:
        """Whether a key that nothing took was typed before the dialog was there that a key before
        it opens; it is taken once more then.
        """
        if self._sent is None or not self.screen_stack:
            return False
        _, screen, target = self._sent
        again = self.screen is not screen or (target is screen and self.focused is not None)
        if again:
            self._typed.appendleft(key.copy())
        return again

    def _display(self, screen: Screen, renderable: Any) -> None:
        writes = self._running and not self._closed and not self._batch_count
        if writes and isinstance(renderable, CompositorUpdate):
            renderable = self.sent.changes(renderable, self.size)
        super()._display(screen, renderable)

    def _fatal_error(self) -> None:
        self.crash = self._exception
        self._close_messages_no_wait()


class ScreenOfSize(Screen[None]):
    """Has the classes of its size before it is laid out in it.

    Textual sets them behind that: it would lay out and paint once more for each size, and of one
    that was too small before, nothing at first.
    """

    def on_resize(self, event: events.Resize) -> None:
        classes: dict[str, bool] = {}
        for length, points in (
            (event.size.width, self.app.HORIZONTAL_BREAKPOINTS or []),
            (event.size.height, self.app.VERTICAL_BREAKPOINTS or []),
        ):
            own = self._get_breakpoint_classes(length, points)
            classes |= {name: name in own for _, name in points}
        self.update_classes(classes, animate=False)


def bindings_in_reach(screen: Screen) -> list[tuple[str, list[Binding]]]:
    """The bindings from the focused widget outwards: (css name of the widget, its bindings)."""
    return [
        (node.css_identifier, [binding for _, binding in bindings])
        for node, bindings in screen._modal_binding_chain
    ]


def lay_out(screen: Screen) -> None:
    """Give each widget its size now, behind no paint: what is drawn next fits at once."""
    with screen.app.batch_update():
        screen._refresh_layout()
