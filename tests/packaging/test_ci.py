"""The helpers of ``.ci/run``, and the rule that what it must not miss is not skipped there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.safety import ran

REPORT = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


def counts(repository: Path, *paths: Path) -> tuple[int, str]:
    done = ran(sys.executable, repository / ".ci" / "counts.py", *paths)
    return done.returncode, done.stdout


def test_counts_sum_all_reports(repository: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.xml", tmp_path / "bad.xml"
    good.write_text(REPORT.format(10, 0, 0, 2))
    bad.write_text(REPORT.format(5, 1, 1, 1))
    assert counts(repository, good, good) == (0, "16 passed, 0 failed, 4 skipped\n")
    assert counts(repository, good, bad) == (1, "10 passed, 2 failed, 3 skipped\n")
    assert counts(repository, tmp_path / "missing.xml") == (1, "0 passed, 0 failed, 0 skipped\n")


def run_skipping_tests(repository: Path, folder: Path, required: str) -> str:
    """The last line of pytest over one skipped zoo test, one skipped otherwise and one passing."""
    (folder / "conftest.py").write_text((repository / "tests" / "conftest.py").read_text())
    (folder / "test_it.py").write_text(
        "import pytest\n"
        "def test_zoo(zoo): pass\n"
        "@pytest.mark.adb\ndef test_adb(): pytest.skip('no adb')\n"
        "def test_other(): pytest.skip('just so')\n"
        "def test_good(): pass\n"
    )
    words = ["-m", "pytest", "-q", "-c", repository / "pyproject.toml", "--rootdir", repository]
    given = {"RKNNTUI_REQUIRE": required, "RKNNTUI_ZOO": str(folder / "none"), "PYTEST_ADDOPTS": ""}
    words += ["-p", "no:cacheprovider", folder]
    done = ran(sys.executable, *words, env=os.environ | given, cwd=repository)
    return done.stdout.splitlines()[-1]


def test_a_required_test_that_is_skipped_fails(repository: Path, tmp_path: Path) -> None:
    assert run_skipping_tests(repository, tmp_path, "").startswith("1 passed, 3 skipped")
    line = run_skipping_tests(repository, tmp_path, "zoo adb")
    assert "1 passed, 1 skipped" in line
    assert "1 failed" in line
    assert "1 error" in line, "a fixture that skips fails in the set-up"


def missing_packages(repository: Path, path: str) -> list[str]:
    words = ["/bin/sh", repository / ".ci" / "packages", "--list"]
    return ran(*words, env={"PATH": path}, check=True).stdout.split()


def test_a_program_that_is_missing_names_its_packages(repository: Path, tmp_path: Path) -> None:
    wanted = {"adb", "gcc", "libc6-dev", "g++", "cmake", "make"}
    assert wanted <= set(missing_packages(repository, str(tmp_path)))
    for name in ("adb", "sshd", "cc", "g++", "cmake", "make"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    assert missing_packages(repository, str(tmp_path)) == []


def test_without_rights_it_says_what_to_install(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    done = ran("/bin/sh", repository / ".ci" / "packages", env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert "missing: adb" in done.stdout
    assert "apt-get install" in done.stdout


def test_boards_are_not_made_without_the_vendors_files(repository: Path, tmp_path: Path) -> None:
    places = {"RKNNTUI_SHARED": str(tmp_path / "none"), "RKNNTUI_BOARDS": str(tmp_path / "room")}
    done = ran("/bin/sh", repository / ".ci" / "boards", env=os.environ | places)
    assert done.returncode == 1
    assert f"there is no {tmp_path / 'none'}" in done.stdout
    assert not (tmp_path / "room").exists()
