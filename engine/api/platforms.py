"""Chips and boards as the vendor's class lists them: by toolkit, of a compiled model, in reach."""

from __future__ import annotations

from collections.abc import Mapping
from logging import Logger
from pathlib import Path
from typing import Any

from engine.api.log import path_text
from engine.facts import chip, chips
from engine.facts.npu import npu_profile

_STARS = "*" * 50
_TOGETHER = (("rk1808", "rk3399pro"), ("rv1109", "rv1126"))
"""Chips of generation 1 that run the same model [RKNN-T1 1.3.2, 3.6.3]."""


def list_support_target_platform(rknn_model: Any, log: Logger) -> Mapping[str, list[str]] | None:
    """Chips that a model can run on, logged and returned in the form of the manual
    [RKNN-T1 1.3.2, 3.6.17].

    Args:
        rknn_model: path of a compiled model of the vendor or a container of ours; None or empty:
            the chips of each toolkit are logged.
        log: takes the text.

    Returns:
        ``support_target_platform`` and ``filled_target_platform``, names in capitals; None without
        a model.

    Raises:
        ContainerError: the file is no such model.
    """
    if not rknn_model:
        log.warning("%s", "\n".join(_by_toolkit()), extra={"plain": True})
        return None
    filled = _filled(Path(path_text(rknn_model, "rknn_model")))
    supported = list(dict.fromkeys(chip_name for name in filled for chip_name in _runs_with(name)))
    platforms = {
        "support_target_platform": [name.upper() for name in supported],
        "filled_target_platform": [name.upper() for name in filled],
    }
    lines = [
        _STARS,
        f"Target platforms filled in RKNN model:         {platforms['filled_target_platform']}",
        f"Target platforms supported by this RKNN model: {platforms['support_target_platform']}",
        _STARS,
    ]
    log.warning("%s", "\n".join(lines), extra={"plain": True})
    return platforms


def _by_toolkit() -> list[str]:
    lines = [_STARS]
    for toolkit in dict.fromkeys(facts.toolkit for facts in chips()):
        names = [facts.name.upper() for facts in chips() if facts.toolkit == toolkit]
        lines += [f"Target platforms of {toolkit}:", f"    {names}"]
    return [*lines, _STARS]


def _filled(path: Path) -> list[str]:
    from engine.container.vendor import inspect_vendor
    from engine.devices.board.model_file import model_file
    from engine.pipeline.runner import load_packed

    if model_file(path).ours:
        target = load_packed(path).target_platform
        return [] if target is None else [target]
    model = inspect_vendor(path)
    return list(model.chips or model.platforms)


def _runs_with(name: str) -> tuple[str, ...]:
    """Chips that run the same compiled model; the chip itself where nothing is known."""
    known = chip(name)
    chip_name = known.name if known is not None else name
    for together in _TOGETHER:
        if chip_name in together:
            return together
    npu = npu_profile(chip_name)
    return (chip_name,) if npu is None or chip_name not in ("rk3566", "rk3568") else npu.chips


# ``list_devices``: boards in reach, in the form of the manual.

_RULE = "*" * 25
_SECONDS = 3.0


def list_devices(log: Logger) -> tuple[list[str], list[str]]:
    """Serial numbers of the boards by adb and by NTB, logged as the vendor prints them
    [RKNN-T1 1.3.2, 3.6.15; RKNN-T2 2.3.0, 2.14].

    An adb server that is not up is started. What keeps a board from the list is a warning.
    """
    from engine.devices.listing import poll

    state = poll(seconds=_SECONDS, start_server=True)
    for notice in state.notices:
        log.warning("list_devices: %s %s", notice.what, notice.remedy)
    for device in state.devices:
        if not device.usable and device.kind != "ntb":
            log.warning("list_devices: %s %s", device.what, device.remedy)
    adb, ntb = state.names("adb"), state.names("ntb")
    lines = [_RULE]
    for mode, names in (("adb", adb), ("ntb", ntb)):
        if names:
            lines += [f"all device(s) with {mode} mode:", ",".join(names)]
    if not adb and not ntb:
        lines.append("None devices connected.")
    log.warning("\n".join([*lines, _RULE]), extra={"plain": True})
    return adb, ntb
