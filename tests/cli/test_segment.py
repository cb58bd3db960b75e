"""``rknntui segment``: layers listed, a proposal, a container cut and simulated as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.container import read_container, write_container
from engine.quantize import calibrate, quantize
from tests.cli.conftest import Run
from tests.container.build import content
from tests.quantize.models import small_cnn


@pytest.fixture(scope="module")
def plain() -> bytes:
    net, graph = small_cnn()
    made = quantize(graph, calibrate(graph, net.feeds(2)))
    recipe = {"version": 1, "quantization": {"quantized_dtype": "w8a8"}}
    return write_container(
        content(
            graph=made.graph,
            table=made.table,
            layers=made.layers,
            recipe=recipe,
            target_platform="rk1808",
            summary=None,
        )
    )


@pytest.fixture
def model(plain: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "net.rknn"
    path.write_bytes(plain)
    return path


def test_layers_proposal_and_cut(warm: Run, model: Path, tmp_path: Path) -> None:
    warm("segment", model, exit=0, says="1 segment (times estimated for rk1808)")
    layers = warm("segment", model, "--json").json["layers"]
    assert [one["uid"] for one in layers] == list(range(len(layers)))
    longest = max(one["time_ms"] for one in layers)
    whole = sum(one["time_ms"] for one in layers)

    limit = f"{longest * 2000:.1f}us"
    made = warm("segment", model, "--max-time", limit, "-o", "cut.rknn", "--json", exit=0)
    segments = made.json["segments"]
    assert len(segments) > 2
    assert all(one["time_ms"] <= longest * 2.0001 for one in segments)
    assert sum(one["time_ms"] for one in segments) == pytest.approx(whole)
    assert made.json["findings"] == []
    warm("inspect", "cut.rknn", says=f"{len(segments)} segments")

    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1, 3, 24, 24)))
    for name in ("net", "cut"):
        warm("simulate", f"{name}.rknn", "-i", "x.npy", "--save", name, exit=0)
    saved = sorted(path.name for path in (tmp_path / "net").iterdir())
    assert saved
    for name in saved:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "net" / name).read_bytes()


def test_a_layer_that_is_longer_than_a_segment_may_be(warm: Run, model: Path) -> None:
    made = warm("segment", model, "--max-time", "0.01us", "--chip", "rk3588", "--json", exit=0)
    found = made.json["findings"]
    assert {one["code"] for one in found} == {"segment-too-long"}
    assert found[0]["remedy"]
    warm("segment", model, "--max-time", "10s", says="no cut is needed")


def test_chosen_layers(warm: Run, model: Path, tmp_path: Path, plain: bytes) -> None:
    layers = read_container(model).layers
    name = layers.layers[4].id
    made = warm(
        "segment", model, "--after", "2", "--after", name, "-o", "cut.rknn", "--json", exit=0
    )
    assert made.json["uids"] == [2, 4]
    assert read_container(tmp_path / "cut.rknn").segments == ((2, layers.layers[2].id), (4, name))
    warm("segment", model, "--after", "1", "-o", "cut.rknn", exit=11)
    assert warm("segment", model, "--after", "1", "-o", model, "--force").code == 0
    assert read_container(model).segments == ((1, layers.layers[1].id),)


@pytest.mark.long
def test_what_does_not_go(warm: Run, model: Path, tmp_path: Path, zoo: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    first = zoo / "rknn_vendor/resize_area_toolkit1.rknn"
    for says, code, *arguments in (
        ("uids 0 to", 2, model, "--after", "99"),
        ("both given", 2, model, "--after", "1", "--max-time", "1ms"),
        ("not said where", 2, model, "-o", "x.rknn"),
        ("no .rknn file", 2, "a.txt", "--after", "1"),
        ("no chip 'rk9'", 2, model, "--chip", "rk9"),
        ("has no segments", 2, zoo / "rknn_vendor/dual_residual_RK3588.rknn", "--after", "1"),
        ("cannot be proposed", 2, first, "--max-time", "1ms"),
        ("have the uids 2", 2, first, "--after", "1", "-o", "x.rknn"),
        ("vendor adopt", 15, first, "--after", "2", "-o", "x.rknn"),
    ):
        done = warm("segment", *arguments)
        assert (done.code, says in done.err) == (code, True), (arguments, done.err)
    assert not (tmp_path / "x.rknn").exists()
    warm("segment", first, says="RESIZEAREA")
