"""The ``sh`` of an emulated board whose agent is for another processor than this machine."""

from __future__ import annotations

import shlex
from pathlib import Path

__all__ = ["qemu_shell"]

_SHELL = """\
#!/bin/sh
# What a kernel with binfmt_misc does: the agent is built for the board, so it runs under qemu-user.
# A transport starts it as: sh -c '...exec "$@"' sh AGENT
if [ "$1" = -c ] && [ "$#" -ge 4 ]; then
  case "$4 $2" in
    */rknntui/agent-*'exec "$@"')
      script=$2 agent=$4
      shift 4
      # the library opens files of the board by their names there
      export QEMU_LD_PREFIX={root}
      exec {shell} -c "$script" sh {run} "$agent" "$@";;
  esac
fi
exec {shell} "$@"
"""


def qemu_shell(usual: Path, run: str, root: Path) -> str:
    """The script.

    Args:
        usual: the board's own ``sh``, under another name.
        run: the program of ``.ci/boards`` that runs one of the board's.
        root: the folder that is ``/`` for them.
    """
    words = {"shell": str(usual), "run": run, "root": str(root)}
    return _SHELL.format(**{name: shlex.quote(word) for name, word in words.items()})
