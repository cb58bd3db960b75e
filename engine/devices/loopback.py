"""Whose the sockets of loopback are, as the kernel tells.

It tells by netlink (``sock_diag(7)``), which looks one up or walks those that listen alone, or by
``/proc/net/tcp``, which walks all there are.

A socket that its program has closed has no owner any more (no inode), and is listed as of user 0,
which is not root.
"""

from __future__ import annotations

import contextlib
import ipaddress
import pwd
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ADDRESS, _PEER, _STATE, _USER, _INODE = 1, 2, 3, 7, 9
"""Columns of ``/proc/net/tcp``."""
_OPEN, _LISTENING = 1, 10
"""States of ``tcp_states.h``."""
_SOCK_DIAG, _BY_FAMILY = 4, 20
"""``NETLINK_SOCK_DIAG`` and ``SOCK_DIAG_BY_FAMILY``."""
_REQUEST, _DUMP = 0x1, 0x300
"""Flags of a request, and of one for a list."""
_ERROR, _DONE = 2, 3
"""Kinds of an answer that is no socket."""
_HEAD = struct.Struct("=IHHII")
_WANTED = struct.Struct("=BBBxI")
_ID = struct.Struct("!HH16s16s12s")
_MESSAGE = struct.Struct("=BBxx48s12xII")
"""``nlmsghdr``; ``inet_diag_req_v2`` and ``inet_diag_msg`` with ``inet_diag_sockid`` between."""
_NO_COOKIE = bytes(4) + b"\xff" * 8
"""No interface, and whichever socket it is."""


@dataclass(frozen=True)
class Entry:
    """A socket as the kernel lists it.

    Attributes:
        address, peer: addresses of 4 or 16 bytes, each with its port.
        owner: the user's number; 0 where it has none.
        inode: 0 where no program holds it.
    """

    address: tuple[bytes, int]
    peer: tuple[bytes, int]
    state: int
    owner: int
    inode: int


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own: also ``127.1``, and ``0.0.0.0``, which is
    127.0.0.1 to who connects.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(host))
        except OSError:
            return host == "localhost" or host.endswith(".localhost")
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or address.is_unspecified


def listeners(host: str, port: int) -> frozenset[Entry]:
    """The sockets that listen at a port of loopback, or at that of every address.

    Args:
        host: an address of loopback; a name stands for 127.0.0.1 and ::1.
        port: its port.
    """
    one, six = socket.inet_aton("127.0.0.1"), ipaddress.IPv6Address(1).packed
    with contextlib.suppress(OSError):  # a name, or IPv6
        one = socket.inet_aton(host)
    if one == bytes(4):
        one = socket.inet_aton("127.0.0.1")
    addresses = {one, _mapped(one), six, bytes(4), bytes(16)}
    try:
        entries = [e for family in _FAMILIES for e in _asked(family, listening=port)]
    except OSError:
        entries = list(_tables())
    return frozenset(
        entry
        for entry in entries
        if entry.state == _LISTENING
        and entry.inode
        and entry.address[1] == port
        and entry.address[0] in addresses
    )


def opened(at: int, peer: int) -> Entry | None:
    """The open socket of 127.0.0.1 at a port, connected to another of 127.0.0.1; None without one,
    or where no program holds it any more.
    """
    host = socket.inet_aton("127.0.0.1")
    try:
        entries = list(_asked(socket.AF_INET, pair=((host, at), (host, peer))))
    except OSError:
        entries = list(_tables())
    for entry in entries:
        ends = entry.address, entry.peer
        if ends in (
            ((host, at), (host, peer)),
            ((_mapped(host), at), (_mapped(host), peer)),
        ):
            return entry if entry.state == _OPEN and entry.inode else None
    return None


def user(number: int) -> str:
    """``name (user 1000)``, or the number alone where nobody is called so."""
    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


_FAMILIES = {socket.AF_INET: 4, socket.AF_INET6: 16}
"""With the bytes of an address."""


def _mapped(address: bytes) -> bytes:
    return bytes(10) + b"\xff\xff" + address


def _asked(
    family: int,
    *,
    listening: int = 0,
    pair: tuple[tuple[bytes, int], tuple[bytes, int]] = ((b"", 0), (b"", 0)),
) -> Iterator[Entry]:
    """What the kernel answers by netlink: all that listen at a port, or one socket by its ends.

    Raises:
        OSError: it was built without, or does not let this program ask.
    """
    (source, at), (target, to) = pair
    state = _LISTENING if listening else _OPEN
    asked = _WANTED.pack(family, socket.IPPROTO_TCP, 0, 1 << state) + _ID.pack(
        listening or at, to, source.ljust(16, b"\0"), target.ljust(16, b"\0"), _NO_COOKIE
    )
    flags = _REQUEST | (_DUMP if listening else 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(5.0)
        kernel.send(_HEAD.pack(_HEAD.size + len(asked), _BY_FAMILY, flags, 1, 0) + asked)
        while True:
            data = kernel.recv(1 << 16)
            while len(data) >= _HEAD.size:
                size, kind, *_ = _HEAD.unpack_from(data)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    (code,) = struct.unpack_from("=i", data, _HEAD.size)
                    if code == -2:  # ENOENT: no such socket
                        return
                    raise OSError(-code, "sock_diag")
                yield _entry(data[_HEAD.size : size])
                data = data[(size + 3) & ~3 :]
            if not listening:
                return


def _entry(message: bytes) -> Entry:
    family, state, identity, owner, inode = _MESSAGE.unpack_from(message)
    port, to, source, target, _ = _ID.unpack(identity)
    size = _FAMILIES[family]
    return Entry((source[:size], port), (target[:size], to), state, owner, inode)


def _tables() -> Iterator[Entry]:
    """All sockets of TCP; none where the kernel does not tell."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            yield Entry(
                _end(columns[_ADDRESS]),
                _end(columns[_PEER]),
                int(columns[_STATE], 16),
                int(columns[_USER]),
                int(columns[_INODE]),
            )


def _end(text: str) -> tuple[bytes, int]:
    """``0100007F:13AD``: words of 32 bits in the byte order of the machine (little-endian, as all
    that this program runs on).
    """
    address, _, port = text.partition(":")
    data = bytes.fromhex(address)
    words = (data[place : place + 4][::-1] for place in range(0, len(data), 4))
    return b"".join(words), int(port, 16)
