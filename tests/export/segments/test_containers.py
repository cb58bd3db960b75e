"""Containers in segments: written, read, told, and as good as before."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import ContainerError, OutputExistsError, UsageError
from engine.container import encryption, read_container, write_container
from engine.container.encryption import encrypt_file
from engine.container.keys import hold_key, key_of_text
from engine.export.segments import (
    cut_container,
    layer_times,
    layers_told,
    segments_of,
    segments_told,
)
from engine.pipeline.runner import Runnable
from engine.quantize import calibrate, quantize
from tests.container.build import content
from tests.quantize.models import small_cnn


@pytest.fixture(scope="module")
def plain() -> bytes:
    """The small net, quantized."""
    net, graph = small_cnn()
    feeds = net.feeds(2)
    made = quantize(graph, calibrate(graph, feeds))
    return write_container(
        replace(content(), graph=made.graph, table=made.table, layers=made.layers, recipe={})
    )


@pytest.fixture
def path(plain: bytes, tmp_path: Path) -> Path:
    place = tmp_path / "net.rknn"
    place.write_bytes(plain)
    return place


def outputs(path: Path) -> dict[str, bytes]:
    run = Runnable.of_container(path)
    rng = np.random.default_rng(1)
    feeds = {s.name: rng.normal(size=s.shape).astype(s.dtype) for s in run.inputs}
    return {name: array.tobytes() for name, array in run.run(feeds).items()}


def test_cut_told_and_simulated(path: Path, tmp_path: Path, plain: bytes) -> None:
    found = read_container(path)
    assert segments_of(found) == ()
    cut = tmp_path / "cut.rknn"
    cut_container(found, [2, 5, 2], cut)
    again = read_container(cut)
    assert not again.unknown_sections
    assert segments_of(again) == (2, 5)
    layers = found.layers
    assert layers is not None
    told = segments_told(again, segments_of(again))
    assert [(one.first, one.last) for one in told] == [(0, 2), (3, 5), (6, len(layers.layers) - 1)]
    assert [one.ends for one in told[:2]] == [layers.layers[2].id, layers.layers[5].id]
    assert [one.crossing_bytes > 0 for one in told] == [True, True, False]
    assert len(Runnable.of_container(cut).session) == 3  # type: ignore[arg-type]
    assert outputs(cut) == outputs(path)
    cut_container(again, [], cut, overwrite=True)  # one segment again: as it was, byte by byte
    assert cut.read_bytes() == plain
    with pytest.raises(OutputExistsError):
        cut_container(again, [1], cut)
    with pytest.raises(UsageError, match="no layer with the uid 99"):
        cut_container(again, [99], path, overwrite=True)
    assert path.read_bytes() == plain


def test_an_encrypted_one_stays_encrypted(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheap = {1: encryption.Cost(1, 8, 1)}
    monkeypatch.setattr(encryption, "LEVELS", cheap)  # without the cost
    secret = tmp_path / "secret.rknn"
    encrypt_file(path, secret, key_of_text("x"), 1)
    try:
        hold_key(key_of_text("x"))
        cut_container(read_container(secret), [3], secret, overwrite=True)
        again = read_container(secret)
        assert (again.encryption_level, segments_of(again)) == (1, (3,))
        assert outputs(secret) == outputs(path)
    finally:
        hold_key(None)


def with_section(data: bytes, name: str, text: bytes) -> bytes:
    """The container with a section of another content, checksums made anew."""
    from engine.container.blob import pack, unpack

    frame = unpack(data, "it")
    sections = {key: bytes(part) for key, part in frame.sections.items()} | {name: text}
    return pack(sections, bytes(frame.layers))


@pytest.mark.parametrize(
    "after",
    [
        [[0, "no such layer"]], [[9999, "x"]], [[-1, "x"]], [["0", "x"]], [[0]], [0], {"0": "x"},
        [[True, "x"]], None, [[0, 1]], [[1e9, "x"]],
    ],
)  # fmt: skip
def test_cuts_that_make_no_sense_are_told(after: object, plain: bytes, tmp_path: Path) -> None:
    place = tmp_path / "bad.rknn"
    place.write_bytes(with_section(plain, "segments", json.dumps({"after": after}).encode()))
    with pytest.raises(ContainerError):
        Runnable.of_container(place)


def test_what_this_version_does_not_know_is_not_lost(plain: bytes, tmp_path: Path) -> None:
    found = read_container(with_section(plain, "future", b"{}"))
    with pytest.raises(ContainerError, match="future"):
        cut_container(found, [1], tmp_path / "x.rknn")
    assert not list(tmp_path.iterdir())


def test_times_of_layers_are_those_of_the_estimate(path: Path) -> None:
    found = read_container(path)
    assert found.layers is not None
    for chip in ("rk1808", "rk3588"):
        times = layer_times(found, found.layers, chip)
        rows = layers_told(found, times)
        assert len(rows) == len(found.layers.layers)
        whole = sum(row.time_ms or 0 for row in rows)
        (one,) = segments_told(found, (), times)
        assert one.time_ms == pytest.approx(whole)
        assert 0.001 < whole < 100
    with pytest.raises(UsageError, match="no chip"):
        layer_times(found, found.layers, "rk9999")


def test_layers_in_the_layer_list_have_the_uids_of_the_segments() -> None:
    """Whoever reads the JSON, Netron too, sees the same uids."""
    data = write_container(content())
    (size,) = struct.unpack_from("<Q", data, 16)
    listed = json.loads(data[64 + size + 8 :])
    layers = content().layers
    assert layers is not None
    by_node = {n: uid for uid, one in enumerate(layers.layers) for n in one.nodes}
    for node in listed["nodes"]:
        if node["name"] in by_node:
            assert node["uid"] == by_node[node["name"]]
