"""Bad input: what happened, the likely cause, the remedy, a documented exit code, nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rknntui.demo import demo_folder
from tests.cli.conftest import ROOT, Run, python, start
from tests.cli.test_inspect import onnx_model
from tests.safety import PATIENCE

MODEL = demo_folder() / "digits_demo.onnx"
DATASET = demo_folder() / "dataset.txt"


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_missing_file(rknntui: Run) -> None:
    rknntui("build", "none.onnx", "--no-quantize", exit=4, says=("does not exist", "fix:"))


def test_truncated_onnx(rknntui: Run, tmp_path: Path) -> None:
    data = MODEL.read_bytes()
    (tmp_path / "half.onnx").write_bytes(data[: len(data) // 2])
    rknntui("build", "half.onnx", "--no-quantize", "-o", "x.rknn", exit=4, says="fix:")
    assert files(tmp_path) == {"half.onnx"}


def test_text_named_onnx(warm: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.onnx").write_text("these are only words\n")
    ran = warm("inspect", "notes.onnx", "--json", exit=4)
    assert "text" in (ran.json["error"]["what"] + ran.json["error"]["cause"]).lower()


def test_unsupported_operator(warm: Run, tmp_path: Path) -> None:
    model = onnx_model(tmp_path, "cstThing", "my.domain")
    warm("build", model, "--no-quantize", exit=5, says="cstThing")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("missing.png", ("line 2", "missing.png")),
        ("{first} {first}", ("line 2", "2")),
        ("wrong.npy", ("line 2", "wrong.npy", "3x5")),
    ],
)
def test_dataset_lines(warm: Run, tmp_path: Path, line: str, words: tuple[str, ...]) -> None:
    first = demo_folder() / "calibration" / "000.png"
    np.save(tmp_path / "wrong.npy", np.zeros((3, 5), np.float32))
    (tmp_path / "d.txt").write_text(f"{first}\n{line.format(first=first)}\n")
    ran = warm("build", MODEL, "--dataset", "d.txt", "-o", "x.rknn", exit=6)
    for word in words:
        assert word in ran.err, ran.err
    assert not (tmp_path / "x.rknn").exists()


def test_corrupt_container(warm: Run, tmp_path: Path) -> None:
    warm("build", MODEL, "--no-quantize", "-o", "m.rknn", exit=0)
    data = bytearray((tmp_path / "m.rknn").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "m.rknn").write_bytes(data)
    warm("simulate", "m.rknn", "-i", demo_folder() / "calibration" / "000.png", exit=9)


def test_read_only_folder(rknntui: Run) -> None:
    rknntui("build", MODEL, "--no-quantize", "-o", "/proc/x.rknn", exit=10, says="fix:")


def test_wrong_usage(warm: Run) -> None:
    for arguments, word in (
        (("bild", MODEL), "build"),
        (("build", MODEL, "--quantized-method", "chanel"), "channel"),
        (("build",), "TARGET"),
        (("build", MODEL, "--optimization-level", "9"), "3"),
    ):
        ran = warm(*arguments, exit=2)
        assert word in ran.err
    warm("build", MODEL, "--outputs", "logitz", "--no-quantize", exit=4, says="logits")


def test_ctrl_c_cancels(tmp_path: Path) -> None:
    flags = ("--dataset", DATASET, "-o", "x.rknn", "--refresh")
    child = start("build", MODEL, *flags, cwd=tmp_path)
    first = child.stderr.readline()  # the first stage is done: the job runs
    assert first.startswith("[1/")
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert files(tmp_path) == set()


@pytest.mark.long
def test_a_folder_with_our_modules_names_is_harmless(rknntui: Run, tmp_path: Path) -> None:
    trap = "open('trapped', 'w').close()\n"
    for name in ("engine", "rknntui"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(trap)
    for name in ("themes.py", "onnx.py", "numpy.py", "click.py", "sitecustomize.py", "json.py"):
        (tmp_path / name).write_text(trap)
    rknntui("build", MODEL, "--no-quantize", "-q", exit=0)
    assert not (tmp_path / "trapped").exists()


def raw(tmp_path: Path, line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A line of a shell with ``$RKNNTUI`` as the program, for redirections and odd names."""
    return subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "RKNNTUI": f"{sys.executable} -P -m rknntui"}
        | {"MODEL": str(MODEL)}
        | environment,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("redirection", "code"),
    [
        (">&-", 10),
        ("> /dev/full", 10),
        pytest.param("2>&- > /dev/null", 0, marks=pytest.mark.long),
        pytest.param("2> /dev/full > /dev/null", 0, marks=pytest.mark.long),
        pytest.param("<&- > /dev/null", 0, marks=pytest.mark.long),
    ],
)
def test_streams_that_are_closed_or_full(tmp_path: Path, redirection: str, code: int) -> None:
    ran = raw(tmp_path, f'$RKNNTUI inspect "$MODEL" {redirection}')
    assert ran.returncode == code, ran.stderr
    assert b"Traceback" not in ran.stderr
    assert b"mistake" not in ran.stderr
    assert (b"fix:" in ran.stderr) == (code == 10)


@pytest.mark.long
def test_a_reader_that_went_away_is_no_failure(tmp_path: Path) -> None:
    ran = raw(tmp_path, '$RKNNTUI inspect "$MODEL" --json 2>&1 | true; exit ${PIPESTATUS[0]}')
    assert ran.returncode == 0


@pytest.mark.long
def test_names_that_are_no_utf8_and_steer_terminals(tmp_path: Path) -> None:
    name = b"b\xe9d\x1b[31m[red]\nx.onnx"
    (tmp_path / os.fsdecode(name)).symlink_to(MODEL)
    line = '$RKNNTUI inspect "$NAME" --json && $RKNNTUI inspect "$NAME"'
    environment = {"NAME": os.fsdecode(name)}
    ran = raw(tmp_path, line, **environment)
    assert ran.returncode == 0, ran.stderr
    data, _, text = ran.stdout.decode("utf-8").partition("\n}\n")
    assert json.loads(data + "}")["name"] == os.fsdecode(name)
    assert "\x1b" not in text
    assert text.startswith("b\ufffdd[31m[red] x.onnx: ")
    failed = raw(tmp_path, '$RKNNTUI inspect "$NAME.gone"', **environment)
    assert failed.returncode == 4
    assert b"\x1b" not in failed.stderr
    saved = raw(tmp_path, '$RKNNTUI recipe new "$NAME" -o r.yaml', **environment)
    assert saved.returncode == 3, saved.stderr
    assert b"UTF-8" in saved.stderr
    assert not (tmp_path / "r.yaml").exists()


def test_mistakes_of_a_recipe_are_told_and_stop_the_build(warm: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"version: 1\nsource:\n  model: {MODEL}\n  modell: x\nquantizaton: {{}}\n")
    for verb in (("build",), ("accuracy",), ("export", "-o", "x.rknn"), ("recipe", "show")):
        ran = warm(*verb, recipe, "--json", exit=3)
        for word in ("line 4", "'model'", "line 5", "'quantization'"):
            assert word in ran.json["error"]["what"]
    checked = warm("recipe", "check", recipe, exit=3)
    assert checked.out.splitlines()[0].startswith("modell: line 4: ")
    recipe.write_text("- 1\n")  # not even a mapping: still meant as a recipe
    warm("build", recipe, exit=3)
    recipe.write_text("version: 1\nsource:\n  model: !!python/object/apply:os.getcwd []\n")
    warm("build", recipe, says="not valid YAML")


def test_an_unfinished_recipe_is_written_and_what_is_missing_told(warm: Run) -> None:
    ran = warm("recipe", "new", MODEL, exit=0)
    assert ran.out.startswith("version: 1\n")
    assert "still to do: dataset:" in ran.err


@pytest.mark.parametrize(
    ("output", "code"), [("there.rknn", 11), ("none/x.rknn", 10), ("y" * 300 + ".rknn", 10)]
)
def test_an_output_that_cannot_be_is_told_before_the_work(
    warm: Run, tmp_path: Path, output: str, code: int
) -> None:
    (tmp_path / "there.rknn").write_text("mine")
    for verb in (("build", MODEL, "--no-quantize"), ("demo", "--headless")):
        ran = warm(*verb, "-o", output, exit=code, says="fix:")
        assert "[1/" not in ran.err  # no stage was run
    assert (tmp_path / "there.rknn").read_text() == "mine"


def test_a_compiled_model_of_the_vendor(warm: Run, zoo: Path) -> None:
    file = zoo / "rknn_vendor" / "multiple_input_RK3588.rknn"
    for verb in (("build", file), ("simulate", file, "-i", "x.png")):
        warm(*verb, exit=9, says=("vendor", "fix:"))


@pytest.mark.parametrize(("restored", "code"), [("", -signal.SIGINT), ("restore()", 3)])
def test_ctrl_c_while_modules_load(restored: str, code: int) -> None:
    script = f"""
import os, signal, sys
from rknntui.__main__ import _quiet_ctrl_c
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
restore = _quiet_ctrl_c()
{restored}
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    sys.exit(3)
"""
    done = python(script)
    assert (done.returncode, done.stderr) == (code, "")


def test_dataset_check_of_a_name_that_no_file_can_have(warm: Run, tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("x" * 5000 + "\n")
    assert "name too long" in warm("dataset", "check", "d.txt", exit=6).out


def test_dataset_check_takes_a_recipe_for_its_dataset(warm: Run, tmp_path: Path) -> None:
    demo = ROOT / "rknntui" / "demo"
    recipe = (
        "version: 1\n"
        f"source:\n  model: {demo / 'digits_demo.onnx'}\n"
        f"dataset:\n  dataset: {demo / 'dataset.txt'}\n"
    )
    (tmp_path / "r.yaml").write_text(recipe)
    ran = warm("dataset", "check", "r.yaml", "--json", exit=0)
    samples = len((demo / "dataset.txt").read_text().splitlines())
    assert ran.json["samples"] == samples
    assert ran.json["arrays"] is not None, "it was checked against the recipe's model"
    (tmp_path / "r.yaml").write_text(recipe.partition("dataset:")[0])
    ran = warm("dataset", "check", "r.yaml")
    assert ran.code != 0
    assert "There is no dataset yet" in ran.err
