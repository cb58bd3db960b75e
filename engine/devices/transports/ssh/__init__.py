"""Boards over SSH, by asyncssh: programs over exec channels, files by SFTP or, without it, ``cat``.

The user's own ``~/.ssh/config``, keys, agent and known hosts decide, as they do for ``ssh``. Nobody
is asked for a password, and no host is trusted that ``ssh`` does not know. asyncssh is imported
with this package, which takes a quarter of a second: import it where a board is used.
"""

from engine.devices.transports.ssh.transport import SshTransport

__all__ = ["SshTransport"]
