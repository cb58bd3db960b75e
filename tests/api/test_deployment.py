"""Segments, precompiled and encrypted models by the vendor's methods, as the manuals use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.api import RKNN
from engine.container import read_container
from engine.container.keys import hold_key
from engine.container.vendor import inspect_vendor
from engine.devices.measure.perf_text import parse_perf_text
from engine.wire.vendor import ToolkitEnvironment
from tests.api.conftest import built, run
from tests.safety import ends
from tests.toolkit.standin import make_environment

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with ends():
        yield
    hold_key(None)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> ToolkitEnvironment:
    return make_environment(tmp_path_factory.mktemp("toolkit1") / "environment")


@pytest.fixture
def toolkit1(environment: ToolkitEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in of the generation 1 toolkit is the user's, with a board."""
    monkeypatch.setenv("RKNNTUI_VENDOR", environment.folder)
    monkeypatch.setenv("STANDIN_BOARDS", "adb:0123456789ABCDEF")


def outputs(path: str, image: np.ndarray, **how: object) -> bytes:
    rknn = RKNN(generation=1)
    assert rknn.load_rknn(path, **how) == 0
    assert rknn.init_runtime() == 0
    return run(rknn, image).tobytes()


def test_segments_after_the_uids_that_eval_perf_prints(
    dog: np.ndarray, place: Path, capsys: Captured
) -> None:
    rknn = built(generation=1, target_platform=["rk1808"])
    assert rknn.export_rknn("net.rknn") == 0
    assert rknn.init_runtime(perf_debug=True) == 0
    capsys.readouterr()
    found = rknn.eval_perf(inputs=[dog])
    text = capsys.readouterr().err
    assert "(estimated)" in text
    rows = parse_perf_text(text[text.index("Layer ID") :]).rows
    assert len(rows) == len(found["layers"])
    uids = [row.uid for row in rows if row.uid is not None]
    layers = read_container(place / "net.rknn").layers
    assert layers is not None
    assert set(uids) <= set(range(len(layers.layers)))
    before = outputs("net.rknn", dog)

    assert rknn.export_rknn_sync_model("net.rknn", [uids[1], uids[0]], "cut.rknn") == 0
    assert [uid for uid, _ in read_container(place / "cut.rknn").segments] == sorted(uids[:2])
    assert outputs("cut.rknn", dog) == before
    assert rknn.export_rknn_sync_model(input_model="net.rknn", sync_uids=uids[0]) == 0  # into it
    assert len(read_container(place / "net.rknn").segments) == 1
    assert outputs("net.rknn", dog) == before

    content = (place / "net.rknn").read_bytes()
    for wrong in ([len(layers.layers)], [-1], [], None, "1", [True], [1.5], ["x"]):
        assert rknn.export_rknn_sync_model("net.rknn", wrong) == -1
    assert "E export_rknn_sync_model: " in capsys.readouterr().err
    assert (place / "net.rknn").read_bytes() == content
    assert rknn.export_rknn_sync_model() == -1
    assert rknn.export_rknn_sync_model("none.rknn", [0]) == -1


def test_an_encrypted_container(
    dog: np.ndarray, place: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "key").write_text("secret\n")
    (place / "other").write_text("Secret\n")
    rknn = built(generation=1, target_platform=["rk1808"])
    assert rknn.export_rknn("test.rknn") == 0
    before = outputs("test.rknn", dog)
    assert rknn.export_encrypted_rknn_model("test.rknn") == -1
    told = capsys.readouterr().err
    assert "no key is given" in told
    assert "RKNNTUI_KEY_FILE" in told
    assert not (place / "test.crypt.rknn").exists()

    assert rknn.export_encrypted_rknn_model("test.rknn", key_file="key") == 0
    assert "test.crypt.rknn" in capsys.readouterr().err
    assert rknn.load_rknn("test.crypt.rknn", key_file="other") == -1
    assert "does not open" in capsys.readouterr().err
    assert outputs("test.crypt.rknn", dog, key_file="key") == before
    hold_key(None)
    assert rknn.load_rknn("test.crypt.rknn") == -1
    monkeypatch.setenv("RKNNTUI_KEY_FILE", "key")
    assert outputs("test.crypt.rknn", dog) == before
    # another level is taken as 1, as the vendor's toolkit does
    assert rknn.export_encrypted_rknn_model("test.rknn", "x.rknn", 7) == 0
    assert "taken as 1" in capsys.readouterr().err
    assert read_container(place / "x.rknn").encryption_level == 1
    assert rknn.export_encrypted_rknn_model("none.rknn") == -1


def test_without_a_toolkit_the_message_says_what_each_way_needs(
    place: Path, capsys: Captured
) -> None:
    rknn = RKNN(generation=1)
    rknn.config(target_platform=["rk1808"])
    assert rknn.load_onnx("arcface.onnx") == 0
    assert rknn.build(do_quantization=True, dataset="dataset.txt", pre_compile=True) == -1
    told = capsys.readouterr().err
    for word in ("toolkit of generation 1", "vendor adopt", "export_rknn_precompile_model"):
        assert word in told
    assert rknn.export_rknn("x.rknn") == -1
    assert rknn.export_rknn_precompile_model("x.rknn") == -1
    told = capsys.readouterr().err
    for word in ("board of generation 1", "toolkit of generation 1", "pre_compile=True"):
        assert word in told
    second = RKNN(generation=2)
    assert second.hybrid_quantization_step2("a", "b", "c", pre_compile=True) == -1
    assert "of generation 1" in capsys.readouterr().err


@pytest.mark.usefixtures("toolkit1")
def test_a_precompiled_build(dog: np.ndarray, place: Path, capsys: Captured) -> None:
    rknn = RKNN(generation=1)
    rknn.config(channel_mean_value="0 0 0 255", target_platform=["rk1808"])
    assert rknn.load_onnx(model="./arcface.onnx") == 0
    assert rknn.build(do_quantization=True, dataset="dataset.txt", pre_compile=True) == 0
    assert "the vendor's work" in capsys.readouterr().err
    assert rknn.export_rknn("pre.rknn") == 0
    assert inspect_vendor(place / "pre.rknn").kind == "layers-nbg"
    assert rknn.init_runtime() == 0  # our own build of it is simulated
    assert rknn.inference(inputs=[dog]) is not None
    assert rknn.build(do_quantization=True, dataset="dataset.txt") == 0
    assert rknn.export_rknn("plain.rknn") == 0
    assert read_container(place / "plain.rknn").quantized


@pytest.mark.usefixtures("toolkit1")
def test_a_toolkit_that_fails_in_the_middle(
    place: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    rknn = RKNN(generation=1)
    rknn.config(target_platform=["rk1808"])
    assert rknn.load_onnx("arcface.onnx") == 0
    for fault in ("build:abort", "export_rknn:_exit", "load_onnx:raise"):
        monkeypatch.setenv("STANDIN_FAULT", fault)
        assert rknn.build(do_quantization=False, pre_compile=True) == -1
        assert "Internal error" not in capsys.readouterr().err
        assert rknn.export_rknn("x.rknn") == -1  # a build that failed is none
        assert not (place / "x.rknn").exists()


@pytest.mark.usefixtures("toolkit1")
def test_a_board_precompiles(
    place: Path, capsys: Captured, environment: ToolkitEnvironment
) -> None:
    from engine.toolkit.toolkit import one_run

    source = place / "arcface.onnx"
    with one_run(environment, reads=[source]) as run:
        made = run.toolkit.work / "net.rknn"
        run.do("config", target_platform=["rk1808"])
        run.do("load_onnx", model=str(source))
        run.do("build", do_quantization=False)
        run.do("export_rknn", str(made))
        (place / "net.rknn").write_bytes(made.read_bytes())
    rknn = RKNN(generation=1)
    assert rknn.load_rknn("net.rknn") == 0
    assert rknn.init_runtime(target="rk1808", rknn2precompile=True) == 0
    assert rknn.export_rknn_precompile_model("pre.rknn") == 0
    assert inspect_vendor(place / "pre.rknn").kind == "layers-nbg"
    assert rknn.init_runtime(target="rk1808", device_id="nobody", rknn2precompile=True) == -1
    assert "nobody" in capsys.readouterr().err
    assert rknn.load_rknn("pre.rknn") == 0
    assert rknn.init_runtime(target="rk1808", rknn2precompile=True) == -1
    assert "cannot be precompiled" in capsys.readouterr().err


@pytest.mark.usefixtures("toolkit1")
def test_hybrid_step_2_precompiled_takes_the_toolkits_own_files(
    place: Path, capsys: Captured
) -> None:
    rknn = RKNN(generation=1)
    rknn.config(target_platform=["rk1808"])
    (place / "ours.data").write_bytes(b"PK\x03\x04")
    given = ("net.json", "ours.data", "net.quantization.cfg")
    assert rknn.hybrid_quantization_step2(*given, dataset="dataset.txt", pre_compile=True) == -1
    assert "step 1 of this program" in capsys.readouterr().err
    assert rknn.hybrid_quantization_step2("a", "none.data", "c", pre_compile=True) == -1
    assert "Internal error" not in capsys.readouterr().err


@pytest.mark.vendor
@pytest.mark.long
def test_a_compiled_model_by_the_real_toolkit(toolkit2: Path, place: Path, zoo: Path) -> None:
    source = zoo / "rknn_vendor/dual_residual_RK3588.rknn"
    (place / "test.rknn").write_bytes(source.read_bytes())
    rknn = RKNN()
    assert rknn.export_encrypted_rknn_model("test.rknn") == 0
    assert inspect_vendor(place / "test.crypt.rknn").encryption_level == 1
    assert rknn.export_encrypted_rknn_model("test.rknn", crypt_level=3) == 0
    assert inspect_vendor(place / "test.crypt.rknn").encryption_level == 3
    assert rknn.export_encrypted_rknn_model("test.crypt.rknn") == -1
