"""``rknntui script``: scripts for ``rknn.api`` run unchanged, and everything of theirs stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.base.process import DROP_IN, script_environment
from tests.cli.conftest import ROOT, ended, start


def start_script(*arguments: str | Path, cwd: Path) -> subprocess.Popen[str]:
    return start("script", *arguments, cwd=cwd, stdin=subprocess.PIPE)


def run(*arguments: str | Path, cwd: Path) -> tuple[int, str, str]:
    ran = ended(start_script(*arguments, cwd=cwd), "typed\n")
    return ran.code, ran.out, ran.err


def test_the_script_has_its_names_arguments_streams_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("HERE = 'beside'\n")
    (tmp_path / "test.py").write_text(
        """
import sys
from beside import HERE
from rknn.api import RKNN
from rknn.api.custom_op import get_node_attr
from rknn.utils import onnx_edit
from rknnlite.api import RKNNLite

if __name__ == '__main__':
    print(HERE, sys.argv, __file__, input(), RKNN().generation, RKNNLite.NPU_CORE_0_1_2)
    rknn = RKNN(verbose=True)
    ret = rknn.load_onnx(model='missing.onnx')
    rknn.release()
    exit(ret)
"""
    )
    code, out, err = run(
        "--generation", "1", "test.py", "--generation", "2", "-x", "a b", cwd=tmp_path
    )
    assert code == 255  # -1
    arguments = "['test.py', '--generation', '2', '-x', 'a b']"
    assert out == f"beside {arguments} {tmp_path / 'test.py'} typed 1 7\n"
    assert err.startswith("E load_onnx: ")
    assert "missing.onnx does not exist." in err
    assert "Traceback" not in err


def test_the_scripts_own_error_is_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "test.py").write_text("def wrong():\n    1 / 0\n\nwrong()\n")
    code, out, err = run("test.py", cwd=tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith(
        'Traceback (most recent call last):\n  File "' + str(tmp_path / "test.py") + '", line 4'
    )
    assert err.endswith("ZeroDivisionError: division by zero\n")


def test_ctrl_c_reaches_the_script(tmp_path: Path) -> None:
    (tmp_path / "test.py").write_text(
        "import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('stopped')\n    raise SystemExit(7)\n"
    )
    with start_script("test.py", cwd=tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (7, "stopped\n")


def test_a_signal_that_ends_it_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "test.py").write_text("print('up', flush=True)\nimport time\ntime.sleep(60)\n")
    with start_script("test.py", cwd=tmp_path) as process:
        process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=60) == -signal.SIGTERM


def test_what_is_no_script(tmp_path: Path) -> None:
    code, out, err = run("none.py", cwd=tmp_path)
    assert (code, out) == (4, "")
    assert err == "error: none.py does not exist.\n  fix: Give the path of a Python script.\n"
    assert "\x1b" not in run("\x1b[31mnone.py", cwd=tmp_path)[2]
    assert run(".", cwd=tmp_path)[0] == 4
    assert run("--generation", "3", "test.py", cwd=tmp_path)[0] == 2


def test_variables_of_the_script() -> None:
    made = script_environment({"PYTHONPATH": "/mine", "A": "b"}, compiler="rockchip")
    assert made["A"] == "b"
    entries = made["PYTHONPATH"].split(os.pathsep)
    assert entries[0] == str(DROP_IN)
    assert entries[-1] == "/mine"
    assert made["RKNNTUI_COMPILER"] == "rockchip"
    assert "RKNNTUI_GENERATION" not in made
    assert (DROP_IN / "rknn" / "api" / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("package", "distribution", "chosen"),
    [
        ("rknn.api", "rknn-toolkit2", False),
        pytest.param("rknn.api", "rknn-toolkit2", True, marks=pytest.mark.long),
        pytest.param("rknnlite", "rknn-toolkit-lite2", True, marks=pytest.mark.long),
    ],
)
def test_beside_the_vendors_package_ours_is_refused(
    package: str, distribution: str, chosen: bool, tmp_path: Path
) -> None:
    """As after ``pip install`` of both: two distributions with one package."""
    name = distribution.replace("-", "_")
    info = tmp_path / f"{name}-2.3.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.3.2\n")
    path = os.pathsep.join([str(DROP_IN), str(ROOT), str(tmp_path)])

    def imported(**variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", f"import {package}"],
            env={k: v for k, v in os.environ.items() if k != "RKNNTUI_SCRIPT"}
            | {"PYTHONPATH": path, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    refused = imported()
    assert refused.returncode == 1
    assert f"the vendor's {distribution} 2.3.2 is installed here too" in refused.stderr
    if chosen:  # rknntui script: the user chose ours
        assert imported(RKNNTUI_SCRIPT="1").returncode == 0
