"""Logging in to a board as the user's ``ssh`` would, and what is wrong where that fails."""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import asyncssh
from asyncssh.public_key import get_default_public_key_algs

from engine.base.errors import (
    DeviceAccessError,
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    UsageError,
)
from engine.base.files import read_regular
from engine.base.text import sanitize
from engine.devices.address import Address

LOGIN_SECONDS = 15.0
"""How long a host may take to let us in."""

KEEPALIVE_SECONDS = 4.0
"""How often a silent host is asked whether it is there; the third time without an answer ends the
connection, so that a pulled cable is noticed within 12 s."""

_KEEPALIVE_COUNT = 2
_HOPS = 8
_PORT = 22
_CONFIGS = ("~/.ssh/config", "/etc/ssh/ssh_config")


class Client(asyncssh.SSHClient):
    """Hears how a connection ends.

    Attributes:
        lost: whether it has.
        why: the library's words for it; empty where it was closed.
    """

    def __init__(self) -> None:
        self.lost = False
        self.why = ""

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the library."""
        self.lost = True
        self.why = sanitize(str(exc)) if exc is not None else ""


@dataclass
class Login:
    """A connection, and those through which it goes, nearest first.

    Attributes:
        connection: to the board.
        client: hears of its end.
        hops: connections to the hosts between.
    """

    connection: asyncssh.SSHClientConnection
    client: Client
    hops: list[asyncssh.SSHClientConnection] = field(default_factory=list)

    def close(self) -> None:
        """End them all at once."""
        for connection in (self.connection, *reversed(self.hops)):
            connection.abort()


def shown_name(address: Address) -> str:
    """The address without ``ssh:``, for messages."""
    return str(address).removeprefix("ssh:")


def ssh_command(address: Address) -> str:
    """What a user types to log in there."""
    port = f"-p {address.port} " if address.port else ""
    return f"ssh {port}{address.user}{'@' if address.user else ''}{address.name}"


async def log_in(address: Address, hops: int = 0) -> Login:
    """Connect to a host and show it the user's keys.

    Args:
        address: the host.
        hops: how many hosts have been logged in to on the way to another one.

    Raises:
        DeviceAccessError: it did not let us in, or is not known.
        DeviceLostError: there is no way to it.
    """
    if hops > _HOPS:
        raise DeviceAccessError(
            f"The way to {shown_name(address)} has more than {_HOPS} hosts.",
            cause="ProxyJump of ~/.ssh/config leads in a circle.",
            remedy="Except the jump host itself: Host * !JUMPHOST.",
        )
    known: KnownHosts | None = None
    between: list[asyncssh.SSHClientConnection] = []
    try:
        plain = _configured(address)
        known = _known_hosts(plain)
        jump = plain.tunnel
        for hop in jump.split(",") if isinstance(jump, str) else ():
            login = await log_in(_hop_address(address, hop), hops + 1 + len(between))
            between += [*login.hops, login.connection]
        options = _configured(
            address,
            client_keys=_identity_files(plain),
            ignore_encrypted=True,
            known_hosts=known,
            **_host_key_kinds(plain, known),
            **_proxy(plain),
        )
        connection, client = await asyncssh.create_connection(
            Client,
            address.name,
            address.port or (),
            tunnel=between[-1] if between else None,
            options=options,
            config=None,
        )
    except BaseException as error:
        for hop_connection in reversed(between):
            hop_connection.abort()
        if isinstance(error, (asyncssh.Error, OSError, ValueError)):
            raise _login_error(address, known, error) from error
        raise
    return Login(connection, cast("Client", client), between)


def _configured(address: Address, **values: Any) -> asyncssh.SSHClientConnectionOptions:
    """The options of a connection: the user's own configuration below what is given here."""
    paths = [path for name in _CONFIGS if os.access(path := Path(name).expanduser(), os.R_OK)]
    settings: dict[str, Any] = {
        "client_keys": None,
        "known_hosts": b"",
        "login_timeout": LOGIN_SECONDS,
        "keepalive_interval": KEEPALIVE_SECONDS,
        "keepalive_count_max": _KEEPALIVE_COUNT,
        # nobody is asked for a password
        "password_auth": False,
        "kbdint_auth": False,
        # what a configuration says for shells of people: our programs have no use for it
        "agent_forwarding": False,
        "x11_forwarding": False,
        "command": None,
        "request_pty": False,
        "env": None,
        "send_env": None,
    }
    if address.user:
        settings["username"] = address.user
    if address.port:
        settings["port"] = address.port
    return asyncssh.SSHClientConnectionOptions(
        host=address.name, config=paths, **(settings | values)
    )


def _strings(options: asyncssh.SSHClientConnectionOptions, name: str) -> list[str] | None:
    values = options.config.get(name)
    return None if values is None else [str(item) for item in cast("list[str]", values)]


def _known_hosts(options: asyncssh.SSHClientConnectionOptions) -> KnownHosts:
    user = _strings(options, "UserKnownHostsFile")
    shared = _strings(options, "GlobalKnownHostsFile")
    alias = options.host_key_alias
    tokens = {
        "d": str(Path.home()),
        "h": options.host,
        "k": alias or options.host,
        "p": str(options.port),
        "r": options.username,
        "u": getpass.getuser(),
    }
    files = [
        *(USER_FILES if user is None else user),
        *(GLOBAL_FILES if shared is None else shared),
    ]
    return KnownHosts(files, tokens)


def _identity_files(options: asyncssh.SSHClientConnectionOptions) -> list[str] | tuple[()]:
    """Keys that the configuration names, as far as they are there; ssh skips others, too."""
    named = _strings(options, "IdentityFile")
    if named is None:
        return ()
    paths = [Path(name).expanduser() for name in named]
    return [str(path) for path in paths if path.is_file()]


def _host_key_kinds(
    options: asyncssh.SSHClientConnectionOptions, known: KnownHosts
) -> dict[str, Any]:
    """Kinds of host keys: those that are known of this host first, then all others.

    asyncssh would ask for the first ones alone, and a server whose key has become another kind
    would hang up instead of showing it.
    """
    port = None if options.port == _PORT else options.port
    keys, authorities = known.match(options.host_key_alias or options.host, "", port)[:2]
    if not keys or authorities or options.config.get("HostKeyAlgorithms") is not None:
        return {}
    first = [kind for key in keys for kind in key.sig_algorithms]
    kinds = dict.fromkeys([*first, *get_default_public_key_algs()])
    return {"server_host_key_algs": [kind.decode("ascii") for kind in kinds]}


def _proxy(options: asyncssh.SSHClientConnectionOptions) -> dict[str, Any]:
    """``ProxyCommand``, which ssh gives to the user's shell, and asyncssh does not."""
    command = options.config.get("ProxyCommand")
    if not isinstance(command, str):
        return {}
    # asyncssh takes what it writes to stderr for the server's words, and its end for the server's
    script = 'exec 3>&2 2>/dev/null; exec "$0" -c "$1"'
    shell = os.environ.get("SHELL") or "/bin/sh"
    return {"proxy_command": ["/bin/sh", "-c", script, shell, f"exec {command}"]}


def _hop_address(address: Address, hop: str) -> Address:
    try:
        return Address.parse(f"ssh:{hop.strip().removeprefix('ssh://')}")
    except UsageError as error:
        raise DeviceAccessError(
            f"The way to {shown_name(address)} cannot be read.",
            cause=f"ProxyJump of ~/.ssh/config has {hop!r}.",
            remedy="Write [USER@]HOST[:PORT] there.",
        ) from error


def _login_error(address: Address, known: KnownHosts | None, error: Exception) -> DeviceError:
    name, said = shown_name(address), sanitize(str(error) or type(error).__name__)
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        if "revoked" in said.lower():
            return _revoked(name)
        return _changed_key(address, known) if known and known.listed else _unknown_host(address)
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return DeviceAccessError(
            f"{name} and this program have no way of encrypting in common.",
            cause=f"Its SSH server is very old, or set up unusually: {said}.",
            remedy="Bring its SSH server up to date, or allow its algorithms in ~/.ssh/config "
            "(KexAlgorithms, HostKeyAlgorithms, Ciphers, MACs).",
        )
    if isinstance(error, asyncssh.PermissionDenied):
        return DeviceAccessError(
            f"{name} does not accept the user's keys.",
            cause="None of them is in its authorized_keys, the user name is another one, or the "
            "key has a passphrase and is not in the agent. Passwords are not asked for.",
            remedy=f"Copy a key there with ssh-copy-id, add it to the agent with ssh-add, and try: "
            f"{ssh_command(address)}",
        )
    if isinstance(error, TimeoutError):
        return unanswered(address)
    if isinstance(error, socket.gaierror):
        return DeviceLostError(
            f"There is no host {name}.",
            cause=f"Its name is misspelled or not known here: {said}.",
            remedy="Check the name, or give its IP address.",
        )
    if isinstance(error, (asyncssh.Error, OSError)) and not isinstance(error, FileNotFoundError):
        return DeviceLostError(
            f"{name} cannot be reached: {said}.",
            cause="It is switched off or restarting, or no SSH server runs there.",
            remedy=f"Check the board, and try: {ssh_command(address)}",
        )
    return DeviceAccessError(
        f"The settings for {name} cannot be used: {said}.",
        cause="A line of ~/.ssh/config, or a key that it names, cannot be read.",
        remedy="Correct it, or remove the line.",
    )


def unanswered(address: Address) -> DeviceTimeoutError:
    """The error for a host that does not let us in in time."""
    return DeviceTimeoutError(
        f"{shown_name(address)} does not answer.",
        cause="It is switched off, at another address, or behind a firewall.",
        remedy=f"Check its address and try: {ssh_command(address)}",
    )


def _unknown_host(address: Address) -> DeviceAccessError:
    return DeviceAccessError(
        f"The host key of {shown_name(address)} is not known.",
        cause="Nobody has logged in there from here yet, so nothing tells that it is the board.",
        remedy=f"Log in once and accept its key: {ssh_command(address)}",
    )


def _changed_key(address: Address, known: KnownHosts) -> DeviceAccessError:
    return DeviceAccessError(
        f"WARNING: {shown_name(address)} shows another host key than the one that is known.",
        cause="The board was set up anew, another one has its address, or somebody stands between "
        "and would read along.",
        remedy="Only if you know why it changed: remove the old key with "
        f"ssh-keygen -R {shlex.quote(known.name)}, then log in once: {ssh_command(address)}",
    )


def _revoked(name: str) -> DeviceAccessError:
    return DeviceAccessError(
        f"WARNING: {name} shows a host key that is revoked.",
        cause="known_hosts says that this key must not be trusted any more.",
        remedy="Ask who looks after the board.",
    )


USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

_LIMIT = 16 << 20


class KnownHosts(asyncssh.SSHKnownHosts):
    """The keys of several files; what is missing or unreadable there proves nothing.

    Args:
        files: their names.
        tokens: what ``%h`` and others in the names stand for.

    Attributes:
        name: of the host that was looked up last, as the files have it.
        listed: whether it has a key there.
    """

    def __init__(self, files: Sequence[str], tokens: Mapping[str, str]) -> None:
        super().__init__()
        self.name = ""
        self.listed = False
        for name in files:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                path = Path(_expand(name, tokens)).expanduser()
                text = read_regular(path, _LIMIT).decode("utf-8", "replace")
                for line in text.splitlines():
                    with contextlib.suppress(ValueError):
                        self.load(line)

    def match(self, host: str, addr: str, port: int | None) -> Any:
        """The keys of a host, by its name alone, as ``CheckHostIP no`` (the standard) says."""
        self.name = f"[{host}]:{port}" if port else host
        self.listed = any(super().match(self.name, "", None)[:2])
        # a server at another port may show the key of the host itself
        return super().match(host, "", port)


def _expand(name: str, tokens: Mapping[str, str]) -> str:
    parts = name.split("%%")
    for token, value in tokens.items():
        parts = [part.replace(f"%{token}", value) for part in parts]
    return "%".join(parts)
