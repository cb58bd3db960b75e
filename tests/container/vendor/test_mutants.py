"""Mutated files of the vendor's: read, or refused with an error of ours; within bounds."""

from __future__ import annotations

import contextlib
from pathlib import Path

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
from tests.fuzz.mutate import mutant
from tests.safety import ends

SMALL = ("multiple_input_RK3588.rknn", "resize_area_toolkit1.rknn", "Exp.rknnop")


def survives(path: Path) -> None:
    """It is read, and its views are made, or it is refused by an error of ours."""
    with ends(), contextlib.suppress(EngineError):
        model = inspect_vendor(path)
        vendor_view(model)
        rows = vendor_graph_view(model).nodes
        for row in rows[:5]:
            vendor_node_detail(model, row[0])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(SMALL), st.integers(0, 1 << 32))
def test_mutants_of_the_zoo(zoo: Path, tmp_path: Path, name: str, seed: int) -> None:
    path = tmp_path / name
    path.write_bytes(mutant((zoo / "rknn_vendor" / name).read_bytes(), seed))
    survives(path)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(build.KINDS)), st.integers(0, 1 << 32))
def test_mutants_of_every_kind(tmp_path: Path, kind: str, seed: int) -> None:
    path = tmp_path / "a.rknn"
    path.write_bytes(mutant(build.KINDS[kind](), seed))
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
