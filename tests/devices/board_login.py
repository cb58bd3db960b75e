"""What an SSH server runs for whoever logs in to an emulated board, as its ``ForceCommand``.

The command that was asked for runs in the board's folder with the board's programs, as one does
that comes over adb. There is no SFTP: its paths would be those of this machine. Its one argument
is a file that :meth:`tests.devices.faulty_board.FaultyBoard.login` wrote.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

NO_SFTP = 127


def log_in(facts_file: str, command: str) -> None:
    """Become the shell of the board, with a command or to talk to.

    Raises:
        SystemExit: the command is the SFTP server.
    """
    facts = json.loads(Path(facts_file).read_text())
    if command.partition(" ")[0].endswith(("sftp-server", "internal-sftp")):
        sys.exit(NO_SFTP)
    root = facts["root"]
    os.chdir(root)
    words = ["-c", re.sub(facts["paths"], lambda found: root + found[0], command)]
    shell = facts["environment"]["PATH"] + "/sh"
    os.execve(shell, ["sh", *(words if command else [])], facts["environment"])  # noqa: S606


if __name__ == "__main__":
    log_in(sys.argv[1], os.environ.get("SSH_ORIGINAL_COMMAND", ""))
