"""What a board said of itself before and after it was measured, and what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.base.text import sanitize
from engine.devices.measure.perf_report import Clocks
from engine.wire.board import HOT, BoardState

_CLOCK_CHANGE = 0.05
_WARMER = 10.0
_BUSY = 5.0


@dataclass(frozen=True)
class Reading:
    """What the board said of itself at one moment; parts that it does not tell are not in it.

    Attributes:
        clocks: part (``NPU``, ``DDR``, ``CPU policy0``) -> Hz.
        celsius: zone -> temperature.
        load: of the NPU's cores, in percent.
        limits: zone -> the board's own trip point; others have the documented limit.
    """

    clocks: Mapping[str, int] = field(default_factory=dict)
    celsius: Mapping[str, float] = field(default_factory=dict)
    load: tuple[float, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, state: BoardState) -> Reading:
        """From what the monitor reads."""
        clocks = {"NPU": state.npu_clock, "DDR": state.ddr_clock}
        zones = state.temperatures or ()
        clocks |= {f"CPU {policy}": hertz for policy, hertz in state.cpu_clocks or ()}
        return cls(
            clocks={part: hertz for part, hertz in clocks.items() if hertz},
            celsius={zone.zone: zone.celsius for zone in zones},
            load=state.npu_load or (),
            limits={zone.zone: zone.throttled for zone in zones if zone.throttled is not None},
        )

    def listed(self) -> tuple[Clocks, ...]:
        """The clocks as ``eval_perf`` lists them: groups of the CPU together, then NPU and DDR;
        a part that does not tell has none.
        """
        cpu = tuple(hertz for part, hertz in self.clocks.items() if part.startswith("CPU"))
        others = (Clocks(part, _known(self.clocks.get(part))) for part in ("NPU", "DDR"))
        return (Clocks("CPU", cpu), *others)


def _known(hertz: int | None) -> tuple[int, ...]:
    return () if hertz is None else (hertz,)


def changes(before: Reading, after: Reading) -> tuple[bool, list[str]]:
    """Whether a clock fell, and what changed on the board.

    A clock counts as changed by more than 5 %; a zone is told where it got warmer by more than 10
    °C or is at its limit, a load before where it is above 5 %.
    """
    fell = False
    notes: list[str] = []
    for part, then in before.clocks.items():
        now = after.clocks.get(part)
        if now is None or not then or abs(now - then) <= _CLOCK_CHANGE * then:
            continue
        fell = fell or now < then
        way = "fell" if now < then else "rose"
        why = "it was throttled, or is not fixed" if now < then else "it is not fixed"
        notes.append(
            f"The clock of {sanitize(part, 40)} {way} from {then / 1e6:.0f} to {now / 1e6:.0f} MHz "
            f"while it ran: {why}."
        )
    for zone, warm in after.celsius.items():
        cool = before.celsius.get(zone)
        if cool is not None and warm - cool > _WARMER:
            notes.append(f"{sanitize(zone, 40)} rose from {cool:.0f} to {warm:.0f} °C.")
        elif warm >= after.limits.get(zone, HOT):
            notes.append(f"{sanitize(zone, 40)} is at {warm:.0f} °C.")
    if before.load and max(before.load) > _BUSY:
        notes.append(f"The NPU was {max(before.load):.0f} % busy before: something else uses it.")
    return fell, notes
