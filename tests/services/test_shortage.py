"""No room for temporary files, or no memory: the same bytes or an error, and nothing wrong kept."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import OutputError, ShortOfMemoryError, SimulationError
from engine.base.events import NullReporter
from engine.graph.execute import session
from engine.services import build as tasks
from engine.simulate import coverage
from rknntui.demo import demo_folder
from tests.cli.conftest import ROOT
from tests.safety import ran

TOLD = "Which layers run in integers could not be found out"

FIRST = count(5)


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    """An export of the demo, calibrated with pictures of its own: nothing of it is kept yet."""
    first = next(FIRST)
    folder = demo_folder()
    lines = (folder / "dataset.txt").read_text().splitlines()
    chosen = tmp_path / "dataset.txt"
    chosen.write_text("\n".join(str(folder / line) for line in lines[first : first + 3]) + "\n")
    recipe = {"model": str(folder / "digits_demo.onnx"), "dataset": str(chosen)}
    return {"recipe": recipe, "path": str(tmp_path / "out.rknn"), "force": True}


def export(params: dict[str, Any], **more: Any) -> bytes:
    tasks.export(params | more, NullReporter())
    return Path(params["path"]).read_bytes()


def no_room(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_temporary_folder_gives_the_same_bytes(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(tempfile, "TemporaryDirectory", no_room)
        without = export(params)
    assert export(params, refresh=True) == without


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.ENOMEM])
def test_where_it_matters_it_is_an_error_that_nothing_keeps(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as full:
        full.setattr(os, "memfd_create", refused)
        with pytest.raises(OutputError, match=TOLD):
            export(params)
    assert not Path(params["path"]).exists()
    assert export(params) == export(params, refresh=True)


def test_memory_that_runs_out_is_told_apart_from_a_graph_that_does_not_run(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: Any, **__: Any) -> Any:
        raise RuntimeError("Exception during initialization: std::bad_alloc")

    with monkeypatch.context() as full:
        full.setattr(coverage, "Session", lambda *_, **__: session.open_model(b""))
        full.setattr(session.ort, "InferenceSession", short)
        with pytest.raises(ShortOfMemoryError):
            coverage.integer_coverage(None)  # type: ignore[arg-type]
    with monkeypatch.context() as full:
        full.setattr(coverage, "Session", lambda *_, **__: session.open_model(b"no graph"))
        with pytest.raises(SimulationError) as caught:
            coverage.integer_coverage(None)  # type: ignore[arg-type]
        assert type(caught.value) is SimulationError


def test_an_evaluation_whose_layers_are_not_known_is_not_kept(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:

    def unknown(*_: Any) -> Any:
        raise SimulationError("The graph did not run.")

    with monkeypatch.context() as bad:
        bad.setattr("engine.simulate.integer_coverage", unknown)
        with pytest.raises(SimulationError, match="did not run"):
            export(params)
    assert export(params) == export(params, refresh=True)


def test_a_limit_of_the_system_is_an_error(tmp_path: Path) -> None:
    """For real, in a process whose files may have 4 KiB: no mock can be wrong about it."""
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from engine.frontends.onnx import load_onnx\n"
        "from engine.simulate import integer_coverage\n"
        "from rknntui.demo import demo_folder\n"
        "graph = load_onnx(demo_folder() / 'digits_demo.onnx').graph\n"
        "print(len(integer_coverage(graph)) > 0, flush=True)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "    integer_coverage(graph)\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error.what)\n"
    )
    variables = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = ran(sys.executable, "-c", code, cwd=ROOT, env=os.environ | variables)
    assert done.stdout.startswith(f"True\nOutputError {TOLD}"), done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []
