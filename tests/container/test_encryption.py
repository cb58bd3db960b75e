"""Encrypted containers: what comes out is what went in, and every change is noticed."""

from __future__ import annotations

import hashlib
import io
import resource
import signal
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import (
    ContainerError,
    KeyNeededError,
    OutputExistsError,
    UsageError,
    WrongKeyError,
)
from engine.base.files import sha256_of
from engine.container import Key, encryption, read_container, write_container
from engine.container.encryption import (
    CHUNK,
    HEADER_SIZE,
    LEVELS,
    decrypt_file,
    decrypted_chunks,
    decrypted_name,
    encrypt,
    encrypt_file,
    encrypted_name,
    encrypted_size,
    read_header,
)
from engine.container.keys import hold_key, key_of_file, key_of_text
from engine.frontends.sniff import sniff
from engine.pipeline.runner import load_packed
from tests.container.build import content

GOOD = write_container(content())
KEY = key_of_text("correct horse")
OTHER = key_of_text("Correct horse")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with an scrypt of no cost, for many files."""
    cheap = {level: cost._replace(exponent=1) for level, cost in LEVELS.items()}
    monkeypatch.setattr(encryption, "LEVELS", cheap)


def sealed(data: bytes, key: Key = KEY, level: int = 1) -> bytes:
    target = io.BytesIO()
    encrypt(io.BytesIO(data), len(data), target, key, level)
    return target.getvalue()


def opened(data: bytes, key: Key = KEY) -> bytes:
    header = read_header(data[:HEADER_SIZE], len(data), "It")
    source = io.BytesIO(data)
    source.seek(HEADER_SIZE)
    return b"".join(decrypted_chunks(source, header, "It", key))


@pytest.mark.parametrize("level", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_each_level_as_it_is_used(level: int, tmp_path: Path) -> None:
    path, secret = tmp_path / "net.rknn", tmp_path / "net.crypt.rknn"
    path.write_bytes(GOOD)
    size = encrypt_file(path, encrypted_name(path), KEY, level)
    assert (size, secret.stat().st_size) == (encrypted_size(len(GOOD)), size)
    found = read_container(secret, KEY)
    assert (found.encryption_level, found.size) == (level, size)
    assert found.sha256 == hashlib.sha256(secret.read_bytes()).hexdigest()
    assert write_container(found) == GOOD
    with pytest.raises(WrongKeyError, match="the prompt does not open"):
        read_container(secret, OTHER)
    assert decrypt_file(secret, decrypted_name(secret), KEY, overwrite=True) == len(GOOD)
    assert path.read_bytes() == GOOD
    assert stat.S_IMODE(path.stat().st_mode) == 0o600  # what was secret is not everybody's


def test_the_cost_follows_from_the_level_as_documented() -> None:
    """Whoever changes what version 1 has makes its files unreadable."""
    assert LEVELS == {1: (17, 8, 1), 2: (18, 8, 2), 3: (18, 8, 4)}
    assert encryption._FIRST_LEVELS == {1: (15, 8, 1), 2: (17, 8, 1), 3: (18, 8, 2)}
    assert (CHUNK, HEADER_SIZE, encryption.VERSION) == (1 << 20, 128, 2)
    made = sealed(b"x" * 9, level=1)
    assert made[8:12] == struct.pack("<I", 2)
    assert tuple(made[28:32]) == (17, 8, 1, 0)  # scrypt's cost stands in the file


_OLD = {
    1: (
        "4f50454e43525950010000000100000015000000000000000000100000000000c8351b2006fe742b"
        "e9bb9e5f23441a8ad458e98ad719c7c7b74fa5b4d264d8cda71e3f28153c6ed6fd84eddb36d64240"
        "f44c3c34fff3687e1223c7995bd8099c69bbce4060c700de5282ac67d53afd84b8c75331166230fd"
        "107a3315b73f9fe0efaff07a8bfbeb992b06e3191af5a39e39b9fe5bd723bb4341c2f914a1ff3c14"
        "0a50c432c9"
    ),
    2: (
        "4f50454e43525950010000000200000015000000000000000000100000000000c9ffc3ffa4697ff8"
        "4a3b6152d183994f81af2d8f937e63e6d0d92e1914d65950590c90c7c2e608d485a15a08616f5e1c"
        "dcf2c773a99df73e745a79b2e8dff2d8be5934571cc94d250ab65c9b1a3864b237d9822ccce9e524"
        "7dfb2d42fe170203bdff7af358b2b61d3742f8ecf7d551c22055fd1ad22e3c1d2cd2151b5f601aca"
        "a0e9ed28fa"
    ),
    3: (
        "4f50454e43525950010000000300000015000000000000000000100000000000128f675eb2180e2e"
        "12d2836b157400327c02cc77ae21098b7493e364ab85fdc5faa6be5d26b82fd02ee4fca1d7c7e199"
        "b69ee1c17cf2bca89edcfb60d70453667704bc46513138fefe430a7f815a564a5475fadbc8d658be"
        "14e6a735ce74c9f0a783ee2edd97ed94dfe07f10687aef77c990c70ed595df64fbd6ac9545f2aec8"
        "ab5e6ce93d"
    ),
}
"""Files that version 0.1.0 wrote, by level."""


@pytest.mark.parametrize("level", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_files_of_the_first_version_open(level: int) -> None:
    old = bytes.fromhex(_OLD[level])
    assert opened(old) == b"an old container here"
    with pytest.raises(WrongKeyError):
        opened(old, OTHER)
    changed = bytearray(old)  # costs have no place in such a head
    changed[28] = 17
    changed[96:128] = hashlib.sha256(changed[:96]).digest()
    with pytest.raises(ContainerError, match="its head"):
        opened(bytes(changed))


@pytest.mark.usefixtures("quick")
@settings(max_examples=25, deadline=None)
@given(
    st.one_of(st.integers(1, 100), st.sampled_from([CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK])),
    st.binary(min_size=1, max_size=40),
    st.sampled_from([*LEVELS]),
)
def test_any_content_comes_back(size: int, secret: bytes, level: int) -> None:
    data = (secret * (size // len(secret) + 1))[:size]
    key = Key(secret, "a test")
    made = sealed(data, key, level)
    assert len(made) == encrypted_size(size)
    assert opened(made, key) == data
    assert sealed(data, key, level) != made  # its salt is its own
    with pytest.raises(WrongKeyError):
        opened(made, Key(secret + b"x", "a test"))


@pytest.mark.usefixtures("quick")
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_changed_bit_is_noticed(data: st.DataObject) -> None:
    made = bytearray(sealed(GOOD[:3000]))
    at = data.draw(st.integers(0, len(made) - 1))
    made[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ContainerError, match="damaged") as caught:
        opened(bytes(made))
    assert not isinstance(caught.value, WrongKeyError)  # damage is no wrong key


@pytest.mark.usefixtures("quick")
def test_parts_that_are_left_out_doubled_or_swapped() -> None:
    data = bytes(CHUNK) + bytes([1]) * CHUNK + bytes([2]) * 100
    made = sealed(data)
    step = CHUNK + 16
    head, parts = made[:128], [made[128 + i * step : 128 + (i + 1) * step] for i in range(3)]
    for chosen in ([0, 1], [0], [], [0, 1, 1, 2]):
        with pytest.raises(ContainerError, match=r"cut short|damaged"):
            opened(head + b"".join(parts[i] for i in chosen))
    with pytest.raises(ContainerError, match="part 1 of 3"):
        opened(head + parts[1] + parts[0] + parts[2])
    other = sealed(data)
    with pytest.raises(ContainerError, match="part 2 of 3"):  # the same place of another file
        opened(head + parts[0] + other[128 + step : 128 + 2 * step] + parts[2])
    with pytest.raises(ContainerError, match="damaged: its end"):
        opened(made + b"x")


def remade(**changes: int) -> bytes:
    """An encrypted file whose head says something else, its checksum made anew."""
    made = bytearray(sealed(b"x" * 100))
    places = {"exponent": (28, "<B"), "block": (29, "<B"), "parallel": (30, "<B")}
    places |= {"version": (8, "<I"), "level": (12, "<I"), "size": (16, "<Q"), "chunk": (24, "<I")}
    for name, value in changes.items():
        at, kind = places[name]
        struct.pack_into(kind, made, at, value)
    made[96:128] = hashlib.sha256(made[:96]).digest()
    return bytes(made)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": 3}, "version 3"),
        ({"version": 0}, "version 0"),
        ({"exponent": 19}, "its head"),  # more than level 3 asks for
        ({"exponent": 0}, "its head"),
        ({"block": 9}, "its head"),
        ({"parallel": 5}, "its head"),
        ({"parallel": 255}, "its head"),
        ({"level": 0}, "its head"),
        ({"level": 4}, "its head"),
        ({"level": 0xFFFFFFFF}, "its head"),
        ({"size": 0}, "its head"),
        ({"size": 1 << 63}, "its head"),
        ({"size": 2 << 30}, "cut short"),
        ({"size": 99}, "its end"),
        ({"chunk": 1}, "its head"),
        ({"chunk": 0xFFFFFFFF}, "its head"),
        ({"level": 2}, "does not open"),
    ],
)
@pytest.mark.usefixtures("quick")
def test_hostile_heads_cost_nothing(changes: dict[str, int], says: str) -> None:
    data = remade(**changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ContainerError, match=says):
        opened(data)
    # what is said of size and cost is never believed
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (50 << 10)


@pytest.mark.usefixtures("quick")
def test_a_file_that_is_no_container(tmp_path: Path) -> None:
    path = tmp_path / "a.rknn"
    for data, says in (
        (b"RKNN" + bytes(100), "compiled model"),
        (b"hello" * 20, "no .rknn file"),
        (b"CYPTRKNN" + bytes(8) + struct.pack("<Q", 2) + bytes(100), "level 2"),
        (b"", "an empty file"),
    ):
        path.write_bytes(data)
        with pytest.raises(ContainerError, match=says):
            encrypt_file(path, tmp_path / "out.rknn", KEY)
        with pytest.raises(ContainerError, match=says):
            decrypt_file(path, tmp_path / "out.rknn", KEY)
    path.write_bytes(sealed(GOOD))
    with pytest.raises(UsageError, match="encrypted already"):
        encrypt_file(path, tmp_path / "out.rknn", KEY)
    path.write_bytes(GOOD)
    with pytest.raises(UsageError, match="not encrypted"):
        decrypt_file(path, tmp_path / "out.rknn", KEY)
    for damaged, says in ((GOOD[:200], "cut short"), (GOOD[:8] + b"\xff" * 16 + GOOD[24:], "head")):
        path.write_bytes(damaged)
        with pytest.raises(ContainerError, match=says):  # not only whoever has decrypted it again
            encrypt_file(path, tmp_path / "out.rknn", KEY)
    path.write_bytes(GOOD)
    for level in (0, 4, True, "1"):
        with pytest.raises(UsageError, match="crypt_level"):
            encrypt_file(path, tmp_path / "out.rknn", KEY, level)  # type: ignore[arg-type]
    with pytest.raises(OutputExistsError):
        encrypt_file(path, path, KEY)
    with pytest.raises(ContainerError, match="encrypted twice"):
        read_container(sealed(sealed(GOOD)), KEY)
    with pytest.raises(ContainerError, match="could not be read"):
        decrypt_file(tmp_path, tmp_path / "out.rknn", KEY)
    assert [one.name for one in tmp_path.iterdir()] == ["a.rknn"]


@pytest.mark.usefixtures("quick")
def test_a_damaged_file_leaves_no_plain_part_behind(tmp_path: Path) -> None:
    data = bytearray(sealed(bytes(3 * CHUNK)))
    data[-1] ^= 1  # the last part: all before it was decrypted
    path = tmp_path / "a.rknn"
    path.write_bytes(data)
    with pytest.raises(ContainerError, match="part 3 of 3"):
        decrypt_file(path, tmp_path / "b.rknn", KEY)
    assert [one.name for one in tmp_path.iterdir()] == ["a.rknn"]


_KILLED = """
import sys, time
from pathlib import Path
from engine.container.encryption import decrypt_file, encrypt_file
from engine.container.keys import key_of_text
def told(done, total):
    if done * 2 > total:
        print("half", flush=True)
        time.sleep(60)
do = encrypt_file if sys.argv[1] == "encrypt" else decrypt_file
do(Path("in.rknn"), Path("out.rknn"), key_of_text("correct horse"), overwrite=True, told=told)
"""


@pytest.mark.parametrize("verb", [pytest.param("encrypt", marks=pytest.mark.long), "decrypt"])
def test_killed_in_the_middle(verb: str, tmp_path: Path, repository: Path) -> None:
    plain = GOOD[:64] + bytes(4 * CHUNK)
    (tmp_path / "in.rknn").write_bytes(plain if verb == "encrypt" else sealed(plain))
    (tmp_path / "out.rknn").write_bytes(b"as it was")
    running = subprocess.Popen(
        [sys.executable, "-c", _KILLED, verb],
        cwd=tmp_path,
        env={"PYTHONPATH": str(repository)},
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"half\n"
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.rknn", "out.rknn"]
    assert (tmp_path / "out.rknn").read_bytes() == b"as it was"


def test_names_of_the_manual() -> None:
    assert encrypted_name(Path("a/test.rknn")) == Path("a/test.crypt.rknn")
    assert encrypted_name(Path("net")) == Path("net.crypt.rknn")
    assert decrypted_name(Path("a/test.crypt.rknn")) == Path("a/test.rknn")
    assert decrypted_name(Path("other.rknn")) == Path("other.plain.rknn")


@pytest.mark.usefixtures("quick")
def test_where_keys_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, secret = tmp_path / "net.rknn", tmp_path / "key"
    path.write_bytes(sealed(GOOD))
    assert sniff(path).kind == "rknn"
    assert "encrypted" in sniff(path).format
    with pytest.raises(KeyNeededError, match=r"net\.rknn.* is encrypted, and no key"):
        load_packed(path)
    monkeypatch.setenv("RKNNTUI_KEY", "Correct horse")
    with pytest.raises(WrongKeyError, match="environment variable RKNNTUI_KEY"):
        load_packed(path)
    for content_of in (b"correct horse", b"correct horse\n", b"correct horse\r\n"):
        secret.write_bytes(content_of)
        monkeypatch.setenv("RKNNTUI_KEY_FILE", str(secret))  # a file goes before a text
        assert write_container(load_packed(path)) == GOOD
    try:
        hold_key(OTHER)  # and what was handed over before both; what is kept is kept for its key
        with pytest.raises(WrongKeyError, match="the prompt"):
            load_packed(path)
    finally:
        hold_key(None)
    assert "correct horse" not in repr(key_of_file(secret))
    secret.write_bytes(b"\n")
    with pytest.raises(UsageError, match="has 0 bytes"):
        load_packed(path)
    secret.write_bytes(b"x" * 70_000)
    with pytest.raises(UsageError, match="70000 bytes"):
        key_of_file(secret)
    with pytest.raises(UsageError, match="does not exist"):
        key_of_file(tmp_path / "none")
    assert len(key_of_text("x" * 65_536).secret) == 65_536
    with pytest.raises(UsageError, match="65537 bytes"):
        key_of_text("x" * 65_537)


@pytest.mark.long
def test_memory_stays_at_a_few_chunks(tmp_path: Path, repository: Path) -> None:
    """256 MiB within 150 MiB beyond what the imports take, of which scrypt takes 128."""
    with (tmp_path / "in.rknn").open("wb") as stream:
        stream.write(GOOD[:64])
        stream.truncate(256 << 20)
    code = """
import resource
from pathlib import Path
from engine.container import encryption
from engine.container.keys import key_of_text
import cryptography.hazmat.primitives.ciphers.aead
used = int(Path("/proc/self/statm").read_text().split()[5]) * 4096
resource.setrlimit(resource.RLIMIT_DATA, (used + (150 << 20),) * 2)
key = key_of_text("x")
encryption.encrypt_file(Path("in.rknn"), Path("out.rknn"), key)
encryption.decrypt_file(Path("out.rknn"), Path("back.rknn"), key)
"""
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(repository)}, check=True
    )
    assert sha256_of(tmp_path / "in.rknn") == sha256_of(tmp_path / "back.rknn")
