"""A second user of the machine, with a shell and the source, and the emulated board of another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.devices.conftest import Boards
from tests.devices.waiting import until

ATTACK = """
import json, os, socket, struct, sys
port, target, root, tries = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])

def packet(name, first, second, data):
    number = int.from_bytes(name, "little")
    head = (number, first, second, len(data), sum(data), number ^ 0xFFFFFFFF)
    return struct.pack("<6I", *head) + data

hello = packet(b"CNXN", 0x01000001, 1 << 20, b"host::features=shell_v2")
shell = packet(b"OPEN", 7, 0, b"shell:id >> " + target.encode() + bytes(1))
got = []
for number in range(tries):
    with socket.create_connection(("127.0.0.1", port), 1) as link:
        try:
            link.sendall(hello + shell)
            if number % 3 == 0:
                continue  # gone before anybody asks whose it was
            if number % 3 == 1:
                link.shutdown(socket.SHUT_WR)
            while data := link.recv(4096):
                got.append(data.hex())
        except OSError:
            pass
try:
    got += os.listdir(root)
except OSError:
    pass
print(json.dumps(got))
"""


@pytest.mark.long
@pytest.mark.parametrize(("user", "tries"), [("stranger", 90), ("own", 3)])
def test_another_user_gets_nothing_from_an_emulated_board(
    user: str, tries: int, emulated: Boards, stranger: str
) -> None:
    """The same program run by the board's own user has an answer, so that it proves something."""
    public = Path(mkdtemp(dir="/tmp"))
    public.chmod(0o1777)
    try:
        board = emulated("rk3588")
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        words = [python, "-I", "-c", ATTACK, str(board.port), str(public / "told")]
        found = subprocess.run(
            [*words, str(board.root), str(tries)],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
            user=stranger if user == "stranger" else os.getuid(),
            group=stranger if user == "stranger" else os.getgid(),
        )
        got = json.loads(found.stdout)
        if user == "own":
            assert got
            return
        assert got == []
        refused = "refused a program of another user"
        until(lambda: board.events.count(refused) == tries, refused)
        assert not (public / "told").exists()
    finally:
        shutil.rmtree(public)
