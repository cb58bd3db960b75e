"""Mutated files of the vendor's: read, or refused with an error of ours; within bounds."""

from __future__ import annotations

import random
import resource
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.base.errors import EngineError
from engine.container.vendor import (
    inspect_vendor,
    vendor_graph_view,
    vendor_node_detail,
    vendor_view,
)
from tests.container.vendor import build
from tests.safety import ends

EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1)
SMALL = ("multiple_input_RK3588.rknn", "resize_area_toolkit1.rknn", "Exp.rknnop")
GROWTH = 1 << 30


def mutated(data: bytes, seed: int) -> bytes:
    """One to eight changes, of bytes, numbers and pieces, half of them near the start."""
    rng = random.Random(seed)
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if not out:
            break
        reach = len(out) if rng.random() < 0.5 else min(len(out), 2000)
        place = rng.randrange(reach)
        change = rng.randrange(6)
        if change == 0:
            out[place] ^= 1 << rng.randrange(8)
        elif change == 1:
            out[place] = rng.randrange(256)
        elif change == 2 and place + 8 <= len(out):
            width = rng.choice("BHIQ")
            value = rng.choice(EXTREMES) & (256 ** struct.calcsize(width) - 1)
            struct.pack_into(f"<{width}", out, place, value)
        elif change == 3:
            del out[place : place + rng.randint(1, 64)]
        elif change == 4:
            piece = out[rng.randrange(len(out)) :][: rng.randint(1, 64)]
            out[place:place] = piece
        elif rng.random() < 0.2:
            del out[place:]
    return bytes(out)


def survives(path: Path) -> bool:
    """Whether it is read; its views are made then too."""
    with ends():
        try:
            model = inspect_vendor(path)
            vendor_view(model)
            rows = vendor_graph_view(model).nodes
            for row in rows[:5]:
                vendor_node_detail(model, row[0])
        except EngineError:
            return False
    return True


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(SMALL), st.integers(0, 1 << 32))
def test_mutants_of_the_zoo(zoo: Path, tmp_path: Path, name: str, seed: int) -> None:
    path = tmp_path / name
    path.write_bytes(mutated((zoo / "rknn_vendor" / name).read_bytes(), seed))
    survives(path)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(build.KINDS)), st.integers(0, 1 << 32))
def test_mutants_of_every_kind(tmp_path: Path, kind: str, seed: int) -> None:
    path = tmp_path / "a.rknn"
    path.write_bytes(mutated(build.KINDS[kind](), seed))
    survives(path)


HEADS = (b"RKNN", b"RKNX", b"CYPTRKNN", b"VPMN", b"\x18\0\0\0RKNN", b"{")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(HEADS), st.binary(max_size=400))
@example(b"RKNN", b"")
@example(b"{", b"}")
def test_any_bytes_behind_any_head(tmp_path: Path, head: bytes, rest: bytes) -> None:
    path = tmp_path / "a.rknn"
    path.write_bytes(head + rest)
    survives(path)


def _files(zoo: Path) -> list[tuple[str, bytes]]:
    found = [(p.name, p.read_bytes()) for p in sorted((zoo / "rknn_vendor").iterdir())]
    return found + [(kind, make()) for kind, make in build.KINDS.items()]


@pytest.mark.long
def test_two_thousand_mutants_of_models_and_of_packages(zoo: Path, tmp_path: Path) -> None:
    files = _files(zoo)
    groups: dict[str, list[Any]] = {"rknn": [], "rknnop": []}
    for name, data in files:
        package = name.endswith("op") or name == "op-package"
        groups["rknnop" if package else "rknn"].append((name, data))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / "a.rknn"
    read = 0
    for members in groups.values():
        for seed in range(2000):
            name, data = members[seed % len(members)]
            path.write_bytes(mutated(data, seed))
            try:
                read += survives(path)
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}") from error
    assert 0 < read < 4000
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < GROWTH
