"""The program opens no port, and nobody's text but its own stands in a command for a board."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.devices.transports.adb.shell import command_of
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import Boards, Equip
from tests.devices.end_to_end.conftest import Stand, recipe_for
from tests.devices.verbs import run, started
from tests.safety import PATIENCE

pytestmark = [pytest.mark.long, pytest.mark.adb, pytest.mark.cc]

LISTENS = "0A"


def family(pid: int) -> Iterator[int]:
    """A process and all that it started."""
    yield pid
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = tasks.read_text().split()
        except OSError:  # it has ended
            continue
        for child in children:
            yield from family(int(child))


def listening() -> dict[str, str]:
    """Sockets of TCP that listen, by number: inode -> address."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS:
                found[fields[9]] = fields[1]
    return found


def doors(pid: int) -> set[str]:
    """Addresses at which a process or one that it started listens."""
    there = listening()
    found = set()
    for each in family(pid):
        try:
            links = [str(link.readlink()) for link in Path(f"/proc/{each}/fd").iterdir()]
        except OSError:
            continue
        for link in links:
            inode = link.removeprefix("socket:[").removesuffix("]")
            if inode in there:
                found.add(there[inode])
    return found


@contextmanager
def watched(*words: str) -> Iterator[tuple[subprocess.Popen[str], set[str]]]:
    """A verb, and every address at which it was seen to listen, looked for all the time."""
    process = started(*words, stderr=subprocess.STDOUT)
    seen: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            seen.update(doors(process.pid))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield process, seen
    finally:
        over.set()
        thread.join()
        process.kill()
        process.communicate()


def test_a_door_is_seen() -> None:
    """Of a program that opens one: else the next test could not fail."""
    code = (
        "import socket, time; kept = socket.create_server(('127.0.0.1', 0)); "
        "print(1, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            assert len(doors(process.pid)) == 1
        finally:
            process.kill()


def test_no_port_is_opened(
    stands: Callable[[str], Stand], found_server: AdbServer, digit_file: Path
) -> None:
    stand = stands("rk3588")
    model, device = str(stand.container), ("--device", stand.device)
    verbs = (
        ("devices", "list"),
        ("doctor", *device),
        ("run", model, *device, "--input", str(digit_file)),
        ("perf", model, *device, "--loops", "3"),
        ("memory", model, *device),
        ("monitor", *device, "--seconds", "4", "--hz", "5"),
    )
    for words in verbs:
        with watched(*words) as (process, seen):
            out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (words, out)
        assert seen == set(), words


EVIL = "$(touch x) `id`; reboot & 'q\" |>*\n"
"""What a shell would do much with."""


def test_no_text_of_others_is_part_of_a_command(
    board: Boards, equip: Equip, tmp_path: Path
) -> None:
    """Names of files, of tensors and of layers, what a board says of itself, what a user types."""
    from rknntui.demo import demo_folder

    model = onnx.load(demo_folder() / "digits_demo.onnx")
    old, new = model.graph.input[0].name, f"in{EVIL}"
    model.graph.input[0].name = new
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
    folder = tmp_path / "a $(touch y) `folder`; 'x"
    folder.mkdir()
    onnx.save(model, folder / "digits_demo.onnx")
    recipe = recipe_for(folder, "rk3588")
    path = str(demo_folder() / "digits_demo.onnx")
    evil = recipe.with_name("the $(touch z) recipe's.yaml")
    evil.write_text(recipe.read_text().replace(path, "digits_demo.onnx"))
    picture = folder / "a digit $(reboot).npy"
    np.save(picture, np.zeros((1, 8, 8, 1), np.uint8))
    made = board("rk3588", serial=f"S{EVIL}", model=f"M{EVIL}", product=f"P{EVIL}")
    equip(made)
    where = ("--device", made.address)
    for words in (
        ("run", str(evil), *where, "--input", str(picture), "--layers"),
        ("perf", str(evil.with_suffix(".rknn")), *where, "--loops", "2"),
        ("doctor", *where),
        ("memory", str(evil), *where),
        ("compare", str(evil), *where, "--input", str(picture)),
    ):
        if words[0] == "perf":
            built = run("export", str(evil), "-o", words[1])
            assert built.returncode == 0, built.stderr
        done = run(*words)
        assert done.returncode in (0, 1), (words[0], done.stderr)
        assert "\x1b" not in done.stdout + done.stderr
    for bad in (f"adb:{EVIL}", "adb:x;reboot", "ssh:-oProxyCommand=reboot", "ssh:a b"):
        done = run("doctor", "--device", bad)
        assert done.returncode == 2, (bad, done.stdout)
    commands, paths = asked_of(made.events)
    assert len(commands) > 20
    assert len(paths) > 10
    for asked in (*commands, *paths):
        assert command_of(asked.split(" ")) == asked  # its words mean only themselves to a shell
        for word in ("$", "`", "reboot", "digit", "recipe", "demo", "stage", "logits"):
            assert word not in asked
    assert not list(made.root.rglob("[xyz]"))
    assert not list(Path.cwd().glob("[xyz]"))


def asked_of(events: list[str]) -> tuple[list[str], list[str]]:
    """What the board was asked to run, and the paths that were sent to it or read, by its log."""
    commands, paths = [], []
    for event in events:
        if (told := re.fullmatch(r"(OPEN|sync \w+) ('.*'|\".*\")", event)) is None:
            continue
        argument = ast.literal_eval(told[2]).rstrip("\0")
        if told[1] != "OPEN":
            paths.append(argument)
        elif argument != "sync:":
            assert argument.startswith("shell,v2,raw:exec "), argument
            commands.append(argument.removeprefix("shell,v2,raw:exec "))
    return commands, paths
