"""Addresses of boards: every form, what is refused, and that the text says it all."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.devices.address import Address

SERIALS = st.text(string.ascii_letters + string.digits + "._:[]%-", min_size=1, max_size=64)
NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,30}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("adb:3f9a1c", Address("adb", "3f9a1c")),
        ("3f9a1c", Address("adb", "3f9a1c")),
        ("192.168.1.5:5555", Address("adb", "192.168.1.5:5555")),
        ("[fe80::1%eth0]:5555", Address("adb", "[fe80::1%eth0]:5555")),
        ("emulator-5554", Address("adb", "emulator-5554")),
        ("ntb:515e9b401c060c0b", Address("ntb", "515e9b401c060c0b")),
        ("local", Address("local")),
        ("adb:local", Address("adb", "local")),
        ("ssh:board", Address("ssh", "board")),
        ("ssh:root@board:2222", Address("ssh", "board", "root", 2222)),
        ("ssh:192.168.1.5:22", Address("ssh", "192.168.1.5", "", 22)),
        ("ssh:rock@[fe80::1%eth0]:22", Address("ssh", "fe80::1%eth0", "rock", 22)),
        ("ssh:[::1]", Address("ssh", "::1")),
    ],
)
def test_forms(text: str, address: Address) -> None:
    assert Address.parse(text) == address


WORDS = """
adb: ntb: ssh: ssh:@board ssh:root@ ssh:board: ssh:board:0 ssh:board:65536 ssh:board:22x
ssh:board:٢٢ ssh:fe80::1 ssh:[fe80::1 ssh:[board]:22 ssh:[fe80::1]22 ssh:[1:2] ssh:[fe80::1%a;b]
ssh:[fe80::1]: ssh:-oProxyCommand=x ssh:-l@board ssh:board;id ssh:$(id)@board ssh:root@x@board
adb:a;b sériel \x1b[31mred
"""
LINES = ["", " ", "locl x", "ssh:a b", "adb:$(touch x)", "a\nb", "serial\n", "ssh:board\n"]


@pytest.mark.parametrize("text", [*WORDS.split(), *LINES, "0" * 65, "adb:" + "0" * 65])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        Address.parse(text)
    assert refused.value.cause
    assert "local" in refused.value.remedy
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize(
    "parts",
    [
        ("adb", "a b"),
        ("adb", "a", "root"),
        ("ntb", "a", "", 22),
        ("local", "board"),
        ("ssh", "board", "", -1),
        ("ssh", "board", "", 70000),
        ("ssh", "-v"),
        ("ssh", "board", "-l"),
    ],
)
def test_parts_are_checked_as_the_text_is(parts: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        Address(*parts)  # type: ignore[arg-type]


def test_a_misspelled_word_is_pointed_at() -> None:
    with pytest.raises(UsageError, match="local"):
        Address.parse("local ")


@given(SERIALS, st.sampled_from(["adb", "ntb"]))
def test_a_serial_number_comes_back(serial: str, kind: str) -> None:
    address = Address.parse(f"{kind}:{serial}")
    assert (address.kind, address.name) == (kind, serial)
    assert Address.parse(str(address)) == address


@given(NAMES, st.just("") | NAMES, st.integers(0, 65535))
def test_a_host_comes_back(host: str, user: str, port: int) -> None:
    address = Address("ssh", host, user, port)
    assert Address.parse(str(address)) == address


@given(st.ip_addresses(v=6), st.integers(0, 65535))
def test_an_ipv6_address_comes_back(host: object, port: int) -> None:
    address = Address("ssh", str(host), "", port)
    assert Address.parse(str(address)) == address


@given(st.text(max_size=80) | st.text("adbshlocnt:@[]%.-_ 1;$\n", max_size=40))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = Address.parse(text)
    except UsageError:
        return
    assert Address.parse(str(address)) == address
    assert not set(str(address)) & set(" ;$'\"\\\n`|&<>(){}*?~#!")
