"""What a board does now: load of its NPU, clocks, temperatures, power, memory.

Which files to read is asked here (:func:`watch_paths`, :func:`once_paths`), and what they held is
given to :func:`parse`; who reads them is the agent, many times a second, or :class:`StateReader`.

Formats: the driver rknpu (``rknpu_debugger.c``), devfreq, cpufreq, thermal, hwmon and power_supply
of the kernel's own documentation, proc_meminfo(5). Never read: the ``freq`` files of rknpu, which
wake the NPU, and ``load`` of its devfreq node, which says 100 at all times under the governor
rknpu_ondemand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from engine.base.errors import DeviceStorageError
from engine.base.text import sanitize
from engine.devices.probe.clocks import chip_clocks
from engine.devices.probe.reading import ATTRIBUTE_LIMIT, first_line, ran, read_together
from engine.devices.probe.versions import MINI_CHIPS
from engine.devices.transport import UNREACHABLE, Transport
from engine.facts import chip as chip_facts
from engine.wire.board import NPU_ZONES, BoardState, Power, SystemMemory, Temperature

_DEBUG = "/sys/kernel/debug"
_LOADS = (f"{_DEBUG}/rknpu/load", "/proc/rknpu/load")
_DEVFREQ = "/sys/class/devfreq"
_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_THERMAL = "/sys/class/thermal"
_TRIPS = tuple(f"{_THERMAL}/thermal_zone*/trip_point_*_{name}" for name in ("type", "temp"))
_HWMON = "/sys/class/hwmon"
_SUPPLY = tuple(f"/sys/class/power_supply/battery/{name}_now" for name in ("voltage", "current"))
_MEMINFO = "/proc/meminfo"
_MOUNTS = "/proc/mounts"
_STATUS = "/proc/self/status"
_CLOCKS = f"{_DEBUG}/clk/clk_summary"
_DDR = f"{_DEVFREQ}/dmc/cur_freq"
_GENERAL = f"{_DEVFREQ}/devfreq0"

_NO_DEVFREQ = {
    "aclk_npu_root": f"{_DEBUG}/clk/aclk_npu_root/clk_rate",
    "scmi_clk_npu": f"{_DEBUG}/clk/scmi_clk_npu/clk_rate",
}
"""Clocks of the NPU where it has no devfreq node: RV1103 and RV1106, some kernels of RK3588."""

_DDR_CLOCKS = {"pll_dpll": 2, "clk_core_ddrc_src": 2, "scmi_clk_ddr": 1}
"""Clocks of the memory in clk_summary, and what they are multiplied by (the vendor's script)."""

CORES = 8
ZONES = 64
TRIPS = 4
SENSORS = 16
"""Bounds of what is believed; no chip has as many."""

_MIN_CELSIUS, _MAX_CELSIUS = -60.0, 200.0


def watch_paths(chip: str | None) -> tuple[str, ...]:
    """What changes, for each look; ``*`` stands for any name."""
    paths = [_MEMINFO, f"{_CPUFREQ}/policy*/scaling_cur_freq", f"{_DEVFREQ}/*npu*/cur_freq"]
    paths += [f"{_DEVFREQ}/*npu*/governor", _DDR, f"{_THERMAL}/thermal_zone*/temp"]
    paths += [f"{_HWMON}/hwmon*/power1_input", *_SUPPLY]
    if _generation(chip) != 1:
        paths += _LOADS
    if chip in MINI_CHIPS:
        paths.append(_NO_DEVFREQ["aclk_npu_root"])
    elif chip in (None, "rk3588"):
        paths += [f"{_GENERAL}/cur_freq", f"{_GENERAL}/governor", _NO_DEVFREQ["scmi_clk_npu"]]
    return tuple(paths)


def once_paths(chip: str | None) -> tuple[str, ...]:
    """What stays as it is: names and limits of zones, names of sensors, what tells why something is
    missing, and the memory's clock where only a long list of all clocks has it.
    """
    paths = [_MOUNTS, _STATUS, f"{_THERMAL}/thermal_zone*/type", *_TRIPS, f"{_HWMON}/hwmon*/name"]
    if chip in (None, "rk3588"):
        paths.append(f"{_GENERAL}/device/uevent")
    if not any(row.ddr_adjustable for row in chip_clocks(chip or "")):
        paths.append(_CLOCKS)
    return tuple(paths)


def _generation(chip: str | None) -> int | None:
    facts = chip_facts(chip) if chip else None
    return facts.generation if facts else None


def parse(
    values: Mapping[str, str | None],
    chip: str | None = None,
    reasons: Mapping[str, str] | None = None,
) -> BoardState:
    """The state that some files tell.

    Args:
        values: path -> text, None where it could not be read; files that change and those that do
            not, together. Texts come from the board: nothing of them is believed.
        chip: of the board, by its name in :mod:`engine.facts`.
        reasons: path -> what the system said where a file could not be read.
    """
    seen = _Seen(values, reasons or {})
    node = f"{_DEVFREQ}/*npu*"
    told: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, value, paths in (
        ("npu_load", _load(seen), _LOADS),
        ("npu_clock", _npu_clock(seen), (f"{node}/cur_freq", *_NO_DEVFREQ.values())),
        ("npu_governor", _npu_text(seen, "governor"), (f"{node}/governor",)),
        (
            "ddr_clock",
            _number(values.get(_DDR), 1) or _summary_clock(values.get(_CLOCKS)),
            (_DDR, _CLOCKS),
        ),
        (
            "cpu_clocks",
            tuple(_cpu_clocks(values)) or None,
            (f"{_CPUFREQ}/policy*/scaling_cur_freq",),
        ),
        ("temperatures", tuple(_temperatures(values)) or None, (f"{_THERMAL}/thermal_zone*/temp",)),
        ("memory", _memory(values.get(_MEMINFO)), (_MEMINFO,)),
        ("powers", tuple(_powers(values)) or None, (f"{_HWMON}/hwmon*/power1_input",)),
    ):
        told[name] = value
        if value is None:
            missing[name] = _never(name, chip) or seen.why(paths)
    return BoardState(**told, missing=tuple(missing.items()))


def _never(name: str, chip: str | None) -> str:
    """Why no board of a chip tells something; empty where it may."""
    if name == "npu_load" and _generation(chip) == 1:
        return "the driver of this chip tells no load"
    if name in ("npu_clock", "npu_governor") and chip == "rk3399pro":
        return "the NPU is a chip of its own"
    return ""


class _Seen:
    """What was read, and why the rest was not."""

    def __init__(self, values: Mapping[str, str | None], reasons: Mapping[str, str]) -> None:
        self.values = values
        self._denied = {path for path, text in reasons.items() if "denied" in text}
        mounts = values.get(_MOUNTS)
        lines = [line.split() for line in (mounts or "").splitlines()]
        mounted = any(line[1:3] == [_DEBUG, "debugfs"] for line in lines)
        mounted = mounted or any(p.startswith(_DEBUG) for p, v in values.items() if v is not None)
        self._unmounted = mounts is not None and not mounted
        uid = re.search(r"(?m)^Uid:\s+[0-9]+\s+([0-9]+)", values.get(_STATUS) or "")
        self._user = uid is not None and int(uid[1]) != 0

    def matching(self, pattern: str) -> list[str]:
        """Paths of a pattern that were read, in their order."""
        if "*" not in pattern:
            return [pattern] if self.values.get(pattern) is not None else []
        form = re.compile(re.escape(pattern).replace(r"\*", "[^/]*"))
        return sorted(p for p, v in self.values.items() if v is not None and form.fullmatch(p))

    def why(self, patterns: Iterable[str]) -> str:
        """Why none of these gave a value."""
        # a file that nobody asked for says nothing; a pattern may have matched none
        paths = tuple(path for path in patterns if "*" in path or path in self.values)
        for path in (path for pattern in paths for path in self.matching(pattern)):
            said = sanitize(first_line(self.values[path]), 60)
            return f"{path} says {said!r}" if said else f"{path} is empty"
        if any(path in self._denied for path in paths):
            return "root only"
        if any(path.startswith(_DEBUG) for path in paths):
            if self._unmounted:
                return "debugfs is not mounted"
            if self._user:
                return "root only"
        return "this kernel has no such node"


def _number(text: str | None, factor: int) -> int | None:
    """The number that a file begins with, times ``factor``; None for nonsense."""
    match = re.match(r"\s*([0-9]{1,12})\b", (text or "")[:100])
    return int(match[1]) * factor if match else None


def _load(seen: _Seen) -> tuple[float, ...] | None:
    """``NPU load:  63%``, or ``NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,``.

    Old drivers say more than 100: what they mean by that is not known, and no load is shown.
    """
    for path in _LOADS:
        text = (seen.values.get(path) or "")[:500]
        if "NPU load" not in text:
            continue
        cores = {
            int(number): float(percent)
            for number, percent in re.findall(r"Core([0-9]):\s*([0-9]{1,6})%", text)
        }
        single = re.search(r"NPU load:\s*([0-9]{1,6})%", text)
        if cores and max(cores) < CORES:
            loads = [cores.get(number, 0.0) for number in range(max(cores) + 1)]
        elif single and not cores:
            loads = [float(single[1])]
        else:
            continue
        return tuple(loads) if max(loads) <= 100 else None
    return None


def _npu_nodes(seen: _Seen, name: str) -> Iterator[str]:
    yield from seen.matching(f"{_DEVFREQ}/*npu*/{name}")
    if "npu" in (seen.values.get(f"{_GENERAL}/device/uevent") or ""):
        yield from seen.matching(f"{_GENERAL}/{name}")


def _npu_clock(seen: _Seen) -> int | None:
    paths = [*_npu_nodes(seen, "cur_freq"), *_NO_DEVFREQ.values()]
    clocks = (_number(seen.values.get(path), 1) for path in paths)
    return next((clock for clock in clocks if clock), None)


def _npu_text(seen: _Seen, name: str) -> str | None:
    texts = (sanitize(first_line(seen.values[path]), 40) for path in _npu_nodes(seen, name))
    return next((text for text in texts if text), None)


def _summary_clock(text: str | None) -> int | None:
    """The memory's clock in ``clk_summary``; which column is the rate depends on the kernel."""
    column = None
    for line in (text or "")[:ATTRIBUTE_LIMIT].splitlines():
        fields = line.split()
        if fields[:1] == ["clock"] and "rate" in fields:
            column = fields.index("rate")
        elif fields and fields[0] in _DDR_CLOCKS and column is not None and column < len(fields):
            rate = _number(fields[column], _DDR_CLOCKS[fields[0]])
            if rate:
                return rate
    return None


def _cpu_clocks(values: Mapping[str, str | None]) -> Iterator[tuple[str, int]]:
    for path, text in sorted(values.items()):
        policy = re.fullmatch(rf"{_CPUFREQ}/(policy[0-9]{{1,2}})/scaling_cur_freq", path)
        hertz = _number(text, 1000)
        if policy and hertz:
            yield policy[1], hertz


def _temperatures(values: Mapping[str, str | None]) -> Iterator[Temperature]:
    for number in range(ZONES):
        zone = f"{_THERMAL}/thermal_zone{number}"
        kind = sanitize(first_line(values.get(f"{zone}/type")), 40)
        match = re.match(r"\s*(-?[0-9]{1,7})\b", (values.get(f"{zone}/temp") or "")[:100])
        celsius = int(match[1]) / 1000 if match else None
        if celsius is not None and _MIN_CELSIUS <= celsius <= _MAX_CELSIUS:
            yield Temperature(kind or f"zone {number}", celsius, _throttled(values, zone))


def _throttled(values: Mapping[str, str | None], zone: str) -> float | None:
    """The highest passive trip point: what the kernel throttles for, ``target`` of device trees."""
    trips = [f"{zone}/trip_point_{number}" for number in range(TRIPS)]
    passive = (trip for trip in trips if first_line(values.get(f"{trip}_type")) == "passive")
    limits = (_number(values.get(f"{trip}_temp"), 1) for trip in passive)
    known = [limit / 1000 for limit in limits if limit and limit <= _MAX_CELSIUS * 1000]
    return max(known, default=None)


def _powers(values: Mapping[str, str | None]) -> Iterator[Power]:
    """Of sensors of hwmon in µW, and of a battery in µV and µA, which are negative in some."""
    for number in range(SENSORS):
        node = f"{_HWMON}/hwmon{number}"
        micro = _number(values.get(f"{node}/power1_input"), 1)
        if micro is not None:
            name = sanitize(first_line(values.get(f"{node}/name")), 40)
            yield Power(name or f"hwmon{number}", micro / 1e6)
    volts, amps = (_number((values.get(path) or "").lstrip("-"), 1) for path in _SUPPLY)
    if volts is not None and amps is not None:
        yield Power("battery", volts * amps / 1e12)


def _memory(text: str | None) -> SystemMemory | None:
    lines = re.findall(r"(?m)^(\w{1,40}):\s+([0-9]{1,11}) kB", (text or "")[:ATTRIBUTE_LIMIT])
    sizes = {name: int(size) * 1024 for name, size in lines}
    if "MemTotal" not in sizes:
        return None
    available = sizes.get("MemAvailable")
    if available is None and "MemFree" in sizes:
        available = sizes["MemFree"] + sizes.get("Cached", 0)
    return SystemMemory(
        total=sizes["MemTotal"],
        available=available,
        cma_total=sizes.get("CmaTotal"),
        cma_free=sizes.get("CmaFree"),
        swap_total=sizes.get("SwapTotal"),
        swap_free=sizes.get("SwapFree"),
    )


def read_state(transport: Transport, chip: str | None) -> BoardState:
    """One look at a board, without an agent on it.

    Raises:
        DeviceLostError: the board has gone.
        DeviceTimeoutError: it does not answer.
    """
    return StateReader(transport, chip).look()


class StateReader:
    """Looks at a board over its transport, without an agent on it.

    Args:
        transport: the board.
        chip: by its name in :mod:`engine.facts`; None where it is not known.
        check: called before each file; what it raises ends the look.
        together: have a program of the board read the files of a look, where it has one: faster,
            but what it says of a file that may not be read is not always clear.

    Raises:
        DeviceLostError: the board has gone.
        DeviceTimeoutError: it does not answer.
    """

    def __init__(
        self,
        transport: Transport,
        chip: str | None,
        check: Callable[[], object] = lambda: None,
        *,
        together: bool = False,
    ) -> None:
        self._transport, self._chip, self._check = transport, chip, check
        self._together = together
        names = _names(transport)
        self._paths = [p for pattern in watch_paths(chip) for p in _expanded(pattern, names)]
        self._values: dict[str, str | None] = {}
        self._reasons: dict[str, str] = {}
        once = [path for pattern in once_paths(chip) for path in _expanded(pattern, names)]
        self._read(path for path in once if "*" not in path)
        trips = (path for path in once if "*" in path and self._npu_zone(path.rpartition("/")[0]))
        self._read([trip.replace("*", str(n)) for trip in trips for n in range(TRIPS)])

    def _npu_zone(self, zone: str) -> bool:
        """Whether a zone's limits are worth a file each over the transport."""
        return first_line(self._values.get(f"{zone}/type")).replace("_", "-") in NPU_ZONES

    def look(self) -> BoardState:
        """What the board does now.

        Raises:
            DeviceLostError: the board has gone.
            DeviceTimeoutError: it does not answer.
        """
        self._check()
        read = read_together(self._transport, self._paths) if self._together else None
        if read is None:
            self._together = False
            self._read(self._paths)
        else:
            self._values |= read[0]
            self._reasons = {
                path: why for path, why in self._reasons.items() if path not in read[0]
            } | read[1]
        return parse(self._values, self._chip, self._reasons)

    def _read(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._check()
            self._reasons.pop(path, None)
            try:
                content = self._transport.read(path, limit=ATTRIBUTE_LIMIT)
            except UNREACHABLE:
                raise
            except DeviceStorageError as error:
                self._reasons[path] = str(error)
                content = None
            self._values[path] = None if content is None else content.decode("latin-1")


def _names(transport: Transport) -> frozenset[str]:
    """Zones, policies and NPU nodes that the board has, spelt by us and not by the board."""
    done = ran(transport, ["ls", _THERMAL, _CPUFREQ, _DEVFREQ, _HWMON])
    listed = done.text.split()[:1000] if done else []
    known = {f"thermal_zone{number}" for number in range(ZONES)}
    known |= {f"policy{number}" for number in range(CORES)}
    known |= {f"hwmon{number}" for number in range(SENSORS)}
    known |= {row.npu_node for row in chip_clocks() if not row.npu_node.startswith("/")}
    present = known.intersection(listed)
    # a board that lists nothing may still give them
    return frozenset(present or known - {f"thermal_zone{number}" for number in range(8, ZONES)})


def _expanded(pattern: str, names: frozenset[str]) -> list[str]:
    """The paths that a pattern stands for."""
    if "*" not in pattern:
        return [pattern]
    folder, _, rest = pattern.partition("*")
    parent, _, prefix = folder.rpartition("/")
    tail = rest[rest.index("/") :]
    kind = prefix or ".npu"
    return [f"{parent}/{name}{tail}" for name in sorted(names) if kind in name]
