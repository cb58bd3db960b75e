"""``compile`` for a chip of generation 1, by an adopted toolkit: the stand-in of its manual."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.events import NullReporter
from engine.container.vendor import inspect_vendor
from engine.services.compile import compile as compile_service
from engine.services.state import WORKER_STATE
from engine.toolkit.environments import registry
from engine.toolkit.environments.registry import Entry
from engine.wire.compile import Compiled, CompileParams
from rknntui.demo import demo_recipe
from tests.toolkit.standin import VERSION, make_environment


def compiled(out: Path, **more: object) -> Compiled:
    values = {**demo_recipe(), "quantized_dtype": "asymmetric_quantized-u8", **more}
    params = CompileParams(recipe=values, path=str(out), chips=("rk1808",))
    (found,) = compile_service.function(params, NullReporter()).chips
    one: Compiled = found
    return one


def test_without_a_toolkit_it_says_how_to_adopt_one(tmp_path: Path) -> None:
    found = compiled(tmp_path / "net.rknn")
    assert (found.exit_code, found.path) == (15, "")
    assert "vendor adopt" in found.remedy
    assert not (tmp_path / "net.rknn").exists()


def test_an_adopted_toolkit_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_environment(tmp_path / "environment")
    with registry.changed() as entries:
        entries["old"] = Entry("old", made.folder, made.python, generation=1)
    WORKER_STATE.clear()
    found = compiled(tmp_path / "net.rknn")
    assert (found.problem, found.quantized_by) == ("", "vendor")
    assert found.toolkit == f"rknn-toolkit {VERSION}"
    assert "quantized-by-vendor" in {each.code for each in found.findings}
    model = inspect_vendor(Path(found.path))
    assert model.chips == ("rk1808",)
    side = json.loads(Path(found.side_file).read_text(encoding="ascii"))
    assert side["config"]["quantized_dtype"] == "asymmetric_quantized-u8"
    assert side["config"]["channel_mean_value"] == "127.5 127.5"
    assert found.layers == ()
    # its process ends in the middle: told, and no file
    monkeypatch.setenv("STANDIN_FAULT", "build:abort")
    WORKER_STATE.clear()
    failed = compiled(tmp_path / "other.rknn", optimization_level=1)
    assert failed.exit_code == 16
    assert "build" in failed.problem
    assert "conv_7" in failed.problem + failed.cause
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_file()) == [
        "net.rknn",
        "net.rknn.json",
    ]
