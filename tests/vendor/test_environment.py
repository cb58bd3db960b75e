"""scripts/make_vendor_environment.py: what is not complete is never taken for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_vendor_environment.py"


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--folder", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _finished(folder: Path) -> Path:
    """What a finished environment looks like to the script."""
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import make_vendor_environment as script  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(SCRIPT.parent))
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    (folder / script.STAMP).write_text(script.key() + "\n", encoding="utf-8")
    return folder


def test_a_finished_one_is_found(tmp_path: Path) -> None:
    folder = _finished(tmp_path / "vendor")
    found = _run(folder)
    assert found.returncode == 0
    assert found.stdout.strip() == str(folder / "bin" / "python")


@pytest.mark.parametrize("spoil", ["nothing there", "other pins", "interrupted", "no interpreter"])
def test_anything_else_is_not(tmp_path: Path, spoil: str) -> None:
    folder = tmp_path / "vendor"
    if spoil != "nothing there":
        _finished(folder)
    if spoil == "other pins":
        (folder / ".rknntui-vendor").write_text("of other versions\n", encoding="utf-8")
    if spoil == "interrupted":
        (folder / ".rknntui-unfinished").touch()
    if spoil == "no interpreter":
        (folder / "bin" / "python").unlink()
    found = _run(folder, "--check")
    assert found.returncode == 3
    assert found.stdout == ""
    assert str(folder) in found.stderr


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "vendor" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("keep", encoding="utf-8")
    found = _run(mine.parent, "--python", _python311_or_skip())
    assert found.returncode == 1
    assert "holds something else" in found.stderr
    assert mine.read_text(encoding="utf-8") == "keep"


def test_a_python_of_another_version_is_refused(tmp_path: Path) -> None:
    found = _run(tmp_path / "vendor", "--python", "/bin/false")
    assert found.returncode == 1
    assert "python3.11" in found.stderr
    assert not (tmp_path / "vendor").exists()


def _python311_or_skip() -> str:
    for python in (sys.executable, "python3.11"):
        test = "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 11))"
        try:
            if subprocess.run([python, "-c", test], check=False).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip("there is no Python 3.11")
