"""Which board: one text that says how it is reached and which one it is.

========================== =====================================================================
``adb:SERIAL``             as ``adb devices`` lists it; of a board on the network ``HOST:PORT``; of
                           boards that share a serial number ``usb:PORT``, or ``SERIAL#NUMBER``
                           with the adb server's number
``ssh:[USER@]HOST[:PORT]`` also an alias of ``~/.ssh/config``; an IPv6 address in brackets
``local``                  the program runs on the board itself
``ntb:SERIAL``             as ``npu_transfer_proxy devices`` lists it
``SERIAL``                 the same as ``adb:SERIAL``: the ``device_id`` of the manual
========================== =====================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import cast

from engine.base.errors import UsageError
from engine.base.text import did_you_mean, sanitize
from engine.devices.transport import TransportKind

FORMS = "adb:SERIAL, ssh:[USER@]HOST[:PORT], ntb:SERIAL, local, or a serial number"
"""How an address may be written."""

_SERIAL = re.compile(r"[A-Za-z0-9._:\[\]%-]{1,64}(#[0-9]{1,9})?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
# a first hyphen would make an option of it, wherever a name stands in a command
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]{1,15})?")
_PORT = re.compile(r"[0-9]{1,5}")
_SHOWN = 80


@dataclass(frozen=True)
class Address:
    """How a board is reached, and which one it is.

    Attributes:
        kind: the transport.
        name: its serial number (adb, ntb) or host (ssh; an IPv6 address without brackets); empty
            where local.
        user: who logs in, over ssh; empty where ``~/.ssh/config`` or the own name decides.
        port: where its ssh server listens; 0 where ``~/.ssh/config`` or the standard decides.

    Raises:
        UsageError: a part of it is not of its form.
    """

    kind: TransportKind
    name: str = ""
    user: str = ""
    port: int = 0

    def __post_init__(self) -> None:
        if fault := self._fault():
            raise _refused(str(self), fault)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address as a user gives it.

        Raises:
            UsageError: it has none of the forms.
        """
        if text == "local":
            return cls("local")
        kind, colon, rest = text.partition(":")
        if colon and kind == "ssh":
            return _parse_ssh(text, rest)
        if colon and kind in ("adb", "ntb"):
            return cls(cast("TransportKind", kind), rest)
        if not _SERIAL.fullmatch(text):
            raise _refused(text, _why_no_serial(text))
        return cls("adb", text)

    def __str__(self) -> str:
        """The one text of this address: :meth:`parse` gives the same again."""
        if self.kind == "local":
            return "local"
        if self.kind != "ssh":
            return f"{self.kind}:{self.name}"
        host = f"[{self.name}]" if ":" in self.name else self.name
        user = f"{self.user}@" if self.user else ""
        return f"ssh:{user}{host}" + (f":{self.port}" if self.port else "")

    def _fault(self) -> str:
        """What is wrong with its parts; empty where nothing is."""
        if self.kind != "ssh" and (self.user or self.port):
            return "Only an ssh address has a user and a port."
        if self.kind == "local":
            return "The board that the program runs on has no name." if self.name else ""
        if self.kind == "ssh":
            return self._ssh_fault()
        return "" if _SERIAL.fullmatch(self.name) else _why_no_serial(self.name)

    def _ssh_fault(self) -> str:
        if self.user and not _USER.fullmatch(self.user):
            return f"{_quoted(self.user)} is not the name of a user."
        if not self.name:
            return "There is no host in it."
        if not (_is_ipv6 if ":" in self.name else _HOST.fullmatch)(self.name):
            return f"{_quoted(self.name)} is not the name of a host."
        return "" if 0 <= self.port <= 65535 else f"There is no port {self.port}."


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return _IPV6.fullmatch(text) is not None


def _parse_ssh(text: str, rest: str) -> Address:
    user, at, place = rest.rpartition("@")
    if at and not user:
        raise _refused(text, "There is no user before the @.")
    if place.startswith("["):
        host, closed, tail = place[1:].partition("]")
        if not closed or ":" not in host or (tail and not tail.startswith(":")):
            raise _refused(text, "Brackets are for an IPv6 address: [fe80::1%eth0]:22.")
        colon, port = tail[:1], tail[1:]
    else:
        host, colon, port = place.partition(":")
        if ":" in port:
            raise _refused(text, "An IPv6 address stands in brackets: [fe80::1%eth0]:22.")
    if colon and not (_PORT.fullmatch(port) and 0 < int(port) <= 65535):
        raise _refused(text, f"{_quoted(port)} is not the number of a port.")
    return Address("ssh", host, user, int(port) if colon else 0)


def _why_no_serial(text: str) -> str:
    if not text:
        return "There is no serial number in it."
    if len(text) > 64:
        return "A serial number has at most 64 characters."
    return "A serial number has letters, digits and . _ : - [ ] % only."


def _refused(text: str, cause: str) -> UsageError:
    near = did_you_mean(text, ["local"]) if text else ""
    return UsageError(
        f"{_quoted(text)} is not the address of a board.",
        cause=cause,
        remedy=near or f"Write {FORMS}.",
    )


def _quoted(text: str) -> str:
    return f"'{sanitize(text, _SHOWN)}'"
