"""Verbs of the command line as processes of their own, and small programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.safety import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def started(*words: str, **streams: Any) -> subprocess.Popen[Any]:
    """Start ``rknntui WORDS``; streams and more as of :class:`subprocess.Popen`."""
    variables = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "COLUMNS": "80"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "rknntui", *words],
        **{
            "env": os.environ | variables,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.DEVNULL,
            "text": True,
            **streams,
        },
    )


@contextmanager
def running(*words: str, **streams: Any) -> Iterator[subprocess.Popen[Any]]:
    """The time of the block a verb runs; it is killed where it has not ended."""
    process = started(*words, **streams)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``rknntui WORDS`` to its end."""
    process = started(*words, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert "Traceback" not in out + err
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def told(*words: str, code: int = 0) -> Any:
    """What a verb prints as JSON."""
    done = run(*words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


@contextmanager
def emulating(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """``rknntui devices emulate``, and what it says of the board."""
    with running("devices", "emulate", *arguments, "--json") as process:
        assert process.stdout is not None
        said = ""
        while not said.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, f"it ended with {process.wait(PATIENCE)}"
            said += line
        yield process, json.loads(said)


def program(path: Path, script: str) -> Path:
    """Write a program of the shell."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def ntb_proxy(folder: Path, *boards: str) -> None:
    """The vendor's proxy of NTB boards, which lists these: ``SERIAL ID MODE``."""
    lines = ["List of ntb devices attached", *boards]
    program(folder / "npu_transfer_proxy", "\n".join(f"echo '{line}'" for line in lines))
