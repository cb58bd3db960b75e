"""The doctor's steps on a board's software: server, runtime, driver, versions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.base.text import sanitize
from engine.devices.doctor.case import Case, copy_command, home, make_writable, shell_command
from engine.devices.probe.compatibility import match, same_npu
from engine.devices.probe.reading import elf_of, read_text
from engine.devices.probe.versions import SERVER_PATHS, libraries_of, places
from engine.wire.doctor import Check

_ADBD_PORT = 5037
"""Where the vendor's adbd listens on a board with Debian, for rknn_server (its own notes)."""


def check_recipe(case: Case) -> Iterator[Check]:
    """The chip of an open recipe, where no model is held against the board."""
    recipe_chip, chip = case.recipe_chip, case.chip
    if recipe_chip is None or chip is None or case.model is not None or case.unread:
        return
    if same_npu(chip, (recipe_chip,)):
        yield Check("recipe", "ok", f"the open recipe is for {recipe_chip}")
        return
    yield Check(
        "recipe",
        "note",
        f"the open recipe is for {recipe_chip}, and the board has {chip}",
        f"Compiled code fits one kind of NPU: set target_platform to {chip} to build for this "
        "board.",
    )


def check_server(case: Case) -> Iterator[Check]:
    """``rknn_server``, which the vendor's PC toolkit talks to."""
    versions = case.versions
    server, pids = versions.server, versions.server_pids
    only_toolkit = "Only the vendor's PC toolkit needs it."
    if server is None and case.proxy_is_needed:
        yield Check("server", "skipped", "it runs on the NPU's own chip, behind the proxy")
    elif server is None:
        folder = home(case, SERVER_PATHS)
        commands = [copy_command(case.transport, "rknn_server", folder)]
        remedy = f"{only_toolkit} Copy that of the vendor's release for {case.chip or 'the chip'}."
        if case.chip in ("rv1109", "rv1126"):
            remedy += " Images with the mini driver cannot be debugged from a PC."
        yield Check("server", "note", "no rknn_server", remedy, (*make_writable(case), *commands))
    elif pids is None:
        summary = f"{server}; the processes could not be listed"
        yield Check("server", "note", summary, f"Look whether it runs. {only_toolkit}")
    elif not pids:
        start = "/vendor/bin/rknn_server" if case.android else "start_rknn.sh"
        yield Check(
            "server",
            "note",
            f"{server} does not run",
            f"{only_toolkit} This starts it.",
            (*make_writable(case), shell_command(case.transport, [start])),
        )
    else:
        summary = f"{server} runs, process {', '.join(str(pid) for pid in pids[:5])}"
        if _adbd_is_deaf(case):
            remedy = "The vendor's PC toolkit fails with ERROR_PIPE then: give the board the "
            remedy += "vendor's adbd. This program does not need it."
            summary += f"; nothing listens on port {_ADBD_PORT} of the board"
            yield Check("server", "note", summary, remedy)
        else:
            yield Check("server", "ok", summary)


def _adbd_is_deaf(case: Case) -> bool:
    """Whether a Debian or Ubuntu has an adbd that the vendor's server cannot reach."""
    if case.transport.kind != "adb" or not re.match("Debian|Ubuntu", case.identity.system):
        return False
    tables = [read_text(case.transport, f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    listening = re.compile(rf"(?m)^\s*[0-9]+: [0-9A-F]+:{_ADBD_PORT:04X} [0-9A-F:]+ 0A ")
    known = [text for text in tables if text is not None]
    return bool(known) and not any(listening.search(text) for text in known)


def check_runtime(case: Case) -> Iterator[Check]:
    """The library that runs models: there, of the right architecture, of a known version."""
    runtime, identity = case.versions.runtime, case.identity
    names = libraries_of(case.chip, identity.generation)
    if runtime is None:
        main = names[0]
        built_for = f" for {identity.userland}" if identity.userland else ""
        yield Check(
            "runtime",
            "bad",
            f"no {' or '.join(f'{name}.so' for name in names)}",
            f"Copy {main}.so{built_for} of the vendor's release to the board.",
            (
                *make_writable(case),
                copy_command(case.transport, f"{main}.so", home(case, places(main))),
            ),
        )
        return
    build = "" if "emulated" in runtime.build else runtime.build  # its own text says so already
    summary = f"{runtime}{f' ({build})' if build else ''}, {runtime.path}"
    elf = elf_of(case.transport, runtime.path)
    if elf and identity.userland and elf != identity.userland:
        yield Check(
            "runtime",
            "bad",
            f"{summary}, is built for {elf}, and programs here for {identity.userland}",
            f"Copy the library of the vendor's release that is built for {identity.userland}.",
            (
                *make_writable(case),
                copy_command(case.transport, f"{runtime.name}.so", runtime.path),
            ),
        )
    elif runtime.version is None:
        remedy = "It may be damaged, or no library of the vendor's: copy it anew."
        yield Check("runtime", "note", summary, remedy)
    else:
        yield Check("runtime", "ok", summary)


def check_driver(case: Case) -> Iterator[Check]:
    """The kernel's driver of the NPU."""
    driver = case.versions.driver
    if case.versions.mainline:
        yield Check(
            "driver",
            "bad",
            "the kernel's own driver rocket has the NPU",
            "The vendor's runtime needs the vendor's kernel with its driver rknpu.",
        )
    elif driver is not None:
        yield Check("driver", "ok", f"{driver}, {driver.path}")
    else:
        log = shell_command(case.transport, ["dmesg"])
        mount = shell_command(
            case.transport, ["mount", "-t", "debugfs", "none", "/sys/kernel/debug"]
        )
        remedy = "It may be there for root only. Look as root in the kernel's log for rknpu or "
        remedy += "galcore, or mount debugfs."
        yield Check("driver", "note", "its version cannot be read", remedy, (log, mount))


def check_versions(case: Case) -> Iterator[Check]:
    """All versions against each other and the model, and whether it can run there at all."""
    if case.model is not None and case.model.ours and not case.identity.emulated:
        yield Check(
            "versions",
            "bad",
            f"{sanitize(case.model.name, 80)} is a container of this program, which no NPU runs",
            "Compile the model with the vendor's toolkit and give that .rknn.",
        )
        return
    findings = match(case.versions, case.model, case.chip)
    for finding in findings:
        commands: tuple[str, ...] = ()
        runtime = case.versions.runtime
        if finding.code == "runtime-old" and runtime is not None:
            copy = copy_command(case.transport, f"{runtime.name}.so", runtime.path)
            commands = (*make_writable(case), copy)
        elif finding.code == "hidden-copy":
            commands = (shell_command(case.transport, ["ls", "-l", finding.where]),)
        yield Check.of_finding("versions", finding, commands)
    if findings:
        return
    if case.versions.runtime is None:
        yield Check("versions", "skipped", "there is no runtime to compare")
    elif case.model is None:
        why = "no compiled model was given to compare with"
        if case.unread:
            why = "the model cannot be read"
        elif case.recipe_chip is not None:
            why = "the open recipe has no compiled model to compare with"
        yield Check("versions", "ok", f"they fit each other; {why}")
    else:
        toolkit = sanitize(case.model.toolkit, 40)
        built = f", built by toolkit {toolkit}" if toolkit else ""
        yield Check("versions", "ok", f"they fit {sanitize(case.model.name, 80)}{built}")
