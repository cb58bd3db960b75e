"""The programs of the emulated board: those of this machine that a board has too, and stand-ins.

A stand-in is a shell script that answers for the board where this machine would answer for itself
(``uname``, ``ps``, ``df``).
"""

from __future__ import annotations

import functools
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from rknntui_emulator.boards import Board

LOADERS = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-linux-armhf.so.3",
)
"""What starts programs that are linked against glibc: those of this machine that a Linux board has,
too. An Android board has none, as a real one."""

_TOOLS = [
    "[", "awk", "base64", "basename", "cat", "chgrp", "chmod", "chown", "cmp", "cp", "cut",
    "date", "dd", "dirname", "du", "echo", "env", "expr", "false", "find", "grep", "gunzip",
    "gzip", "head", "hexdump", "kill", "ln", "ls", "md5sum", "mkdir", "mkfifo", "mktemp",
    "mv", "nice", "nohup", "od", "printf", "pwd", "readlink", "realpath", "rm", "rmdir",
    "sed", "seq", "setsid", "sh", "sha256sum", "sleep", "sort", "stat", "stty", "sync",
    "tail", "tar", "tee", "test", "timeout", "touch", "tr", "true", "tty", "uniq", "wc",
    "which", "xargs", "yes",
]  # fmt: skip

_DF = """\
#!/bin/sh
total=TOTAL
free=$((total / 2))
echo 'Filesystem     1024-blocks     Used Available Capacity Mounted on'
for word in "$@"; do
  case "$word" in
    -*) continue;;
    "$BOARD_ROOT"/*) shown=${word#"$BOARD_ROOT"};;
    *) shown=/;;
  esac
  if [ ! -e "$BOARD_ROOT$shown" ]; then
    echo "df: $shown: No such file or directory" >&2; exit 1
  fi
  case "$shown" in
    /tmp|/tmp/*) name=tmpfs; on=/tmp;;
    /userdata|/userdata/*) name=/dev/mmcblk0p8; on=/userdata;;
    /data|/data/*) name=/dev/mmcblk0p9; on=/data;;
    *) name=/dev/root; on=/;;
  esac
  echo "$name $total $((total - free)) $free $((100 - free * 100 / total))% $on"
done
"""


@functools.cache
def links() -> dict[str, Path]:
    """Programs of this machine that the board has under the same name; not to be changed."""
    paths = {}
    for name in _TOOLS:
        if path := shutil.which(name, path="/usr/bin:/bin"):
            paths[name] = Path(path)
    return paths


def stand_ins(board: Board, properties: Mapping[str, str] | None, *, user: str) -> dict[str, str]:
    """The scripts of a board, by name.

    Args:
        board: what they say.
        properties: what ``getprop`` knows, on Android.
        user: ``root`` or ``shell``.
    """
    scripts = {
        "df": _DF.replace("TOTAL", str(board.flash << 10)),
        "uname": _uname(board),
    }
    number = 0 if user == "root" else 2000
    scripts["id"] = _says(f"uid={number}({user}) gid={number}({user})", {"-u": str(number)})
    scripts["whoami"] = _says(user, {})
    scripts["dmesg"] = _says(f"[    5.100000] {board.kernel_line}", {})
    server = board.server.rpartition("/")[2]
    scripts["ps"] = _says(f"  PID USER     COMMAND\n  321 root     {server}", {})
    if properties is not None:
        scripts["getprop"] = _says("", dict(properties))
    return scripts


def _uname(board: Board) -> str:
    whole = f"Linux {board.chip} {board.kernel} #1 SMP PREEMPT emulated {board.machine} GNU/Linux"
    short = {"-m": board.machine, "-r": board.kernel, "-n": board.chip, "-a": whole, "-s": "Linux"}
    return _says("Linux", short)


def _says(text: str, by_flag: Mapping[str, str]) -> str:
    """A script that prints ``text``, or what belongs to its first argument."""
    cases = "".join(
        f"  {shlex.quote(flag)}) printf '%s\\n' {shlex.quote(said)};;\n"
        for flag, said in by_flag.items()
    )
    return f"#!/bin/sh\ncase \"$1\" in\n{cases}  *) printf '%s\\n' {shlex.quote(text)};;\nesac\n"
