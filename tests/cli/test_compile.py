"""``rknntui compile`` on the command line, with the stand-in of the generation 1 toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import Limits, gates_of
from engine.toolkit.environments import registry
from engine.toolkit.environments.registry import Entry
from engine.wire.compile import Compiled, CompiledLayer, CompiledModels, OutputAgreement
from rknntui.demo import demo_folder
from tests.cli.conftest import Run
from tests.toolkit.standin import make_environment

DEMO = demo_folder()
FLAGS = (
    DEMO / "digits_demo.onnx",
    "--dataset",
    DEMO / "dataset.txt",
    "--mean-values",
    "127.5",
    "--std-values",
    "127.5",
    "--quantized-dtype",
    "asymmetric_quantized-u8",
    "--chip",
    "rk1808",
)


def test_without_a_toolkit_the_exit_code_is_15(warm: Run, tmp_path: Path) -> None:
    ran = warm("compile", *FLAGS, "-o", tmp_path / "net.rknn", "--json", exit=15)
    (one,) = ran.json["chips"]
    assert one["problem"].startswith("There is no environment of the vendor's rknn-toolkit")
    ran = warm("compile", *FLAGS, "-o", tmp_path / "net.rknn", "--fail-cpu", "0", exit=15)
    assert "not compiled" in ran.out
    assert "FAILED: layers on the CPU of rk1808 is not known" in ran.out
    assert list(tmp_path.iterdir()) == []


def test_samples_are_a_number_or_files_that_exist(warm: Run, tmp_path: Path) -> None:
    for wrong, words in (("1001", "more than 1000"), ("missing", "no such file")):
        ran = warm("compile", *FLAGS, "-o", tmp_path / "net.rknn", "--samples", wrong, exit=2)
        assert words in ran.err


@pytest.mark.long
def test_files_and_table(rknntui: Run, tmp_path: Path) -> None:
    made = make_environment(tmp_path / "environment")
    with registry.changed() as entries:
        entries["old"] = Entry("old", made.folder, made.python, generation=1)
    out = tmp_path / "{chip}.rknn"
    ran = rknntui("compile", *FLAGS, "-o", out, exit=0)
    assert "quantized by" in ran.out
    assert "The vendor's toolkit quantizes this model itself" in ran.out
    assert (tmp_path / "rk1808.rknn").read_bytes()[:4] == b"RKNN"
    assert (tmp_path / "rk1808.rknn.json").is_file()
    rknntui("compile", *FLAGS, "-o", out, exit=11)
    several = rknntui("compile", *FLAGS, "--chip", "rk3588", "-o", tmp_path / "one.rknn", exit=2)
    assert "{chip}" in several.err


def test_gates_are_of_the_compilers_figures() -> None:
    layers = (
        CompiledLayer(name="InputOperator:x", op="InputOperator", target="CPU"),
        CompiledLayer(name="Conv:a", op="Conv", target="NPU"),
        CompiledLayer(name="Softmax:b", op="exSoftmax13", target="CPU"),
    )
    output = OutputAgreement(name="y", samples=1, cosine=1.0, equal=1.0, sqnr_db=30.0)
    one = Compiled(
        chip="rk3588",
        layers=layers,
        internal_bytes=1000,
        weight_bytes=24,
        outputs=(output,),
    )
    for limits, model, kept in (
        (Limits(cpu=1, memory=1024, under=30.0), one, [True] * 3),
        (Limits(cpu=0, memory=1023, under=30.1), one, [False] * 3),
        (Limits(cpu=9, memory=1e9, under=0.0), Compiled(chip="rv1106"), [False] * 3),
        (Limits(), one, []),
    ):
        assert [
            gate.ok for gate in gates_of(limits, CompiledModels(model="net", chips=(model,)))
        ] == kept
