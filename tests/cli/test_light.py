"""Help, completion and doctor: quick, and without the weight of the engine."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from engine import OPTIONS
from engine.wire.method import Method
from rknntui.cli.verbs import GROUPS, OF_GROUPS, VERBS
from rknntui.keys.commandline import methods
from tests.cli.conftest import Run, python, start

HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "yaml", "PIL", "textual", "adbutils")


def test_help_lists_every_verb_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom rknntui.cli import main\ncode = main(['--help'])\n"
        f"print(code, [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = python(code)
    assert done.stdout.splitlines()[-1] == "0 []"
    for verb in VERBS:
        assert f"\n  {verb} " in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    from click.testing import CliRunner

    from rknntui.cli.root import cli

    result = CliRunner().invoke(cli, [verb, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_the_verbs_that_are_read_as_text_are_those_of_the_methods() -> None:
    """Verbs are listed without importing the wire; flags behind a verb make no verb."""
    declared = {
        method.verb: (method.about, method.after)
        for method in methods().values()
        if method.about and "--" not in method.verb
    }
    listed = {name: place for name, place in {**VERBS, **OF_GROUPS}.items() if place.wire}
    assert len(declared) > 35
    assert declared.keys() == listed.keys()
    for name, place in listed.items():
        after = "Others" if " " in name else place.after
        assert (place.about, after) == (declared[name][0], declared[name][1] or "Others")
        module = import_module(f"engine.wire.{place.wire}")
        assert name in [one.verb for one in vars(module).values() if isinstance(one, Method)]
    assert all(
        method.about
        for method in methods().values()
        if method.verb and "--" not in method.verb and method.name != "monitor.replay"
    )


def test_every_verb_is_in_one_group() -> None:
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(VERBS)


@pytest.mark.parametrize(
    "verb",
    ["build", "accuracy", "evaluate", "codegen", "perf estimate", "hybrid propose", "inspect"],
)
def test_seldom_options_are_in_a_help_of_their_own(verb: str) -> None:
    """--help fits on a screen or two; --help-options has every option, under its heading."""
    from click.testing import CliRunner

    from rknntui.cli.root import cli

    short, full = (
        CliRunner().invoke(cli, [*verb.split(), words]) for words in ("--help", "--help-options")
    )
    assert short.exit_code == full.exit_code == 0
    assert "--help-options" in short.output
    own, _, rest = short.output.partition("\nOptions of the ")
    usual = rest.partition("\nLimits:\n")[0]
    assert "--json" in own
    assert "--json" not in rest
    assert all(flag in usual for flag in ("--help-options", "--input-size-list", "--weights"))
    assert "--fail-" not in own.partition("\nOptions:\n")[2] + usual
    assert "--darknet-epsilon" not in short.output
    assert "\nSource model:\n" in full.output
    options = [o for o in OPTIONS if o.name != "model" and o.role != "refused"]
    for option in [o for o in options if verb != "inspect" or o.section == "source"]:
        assert option.flag in full.output or option.name == "do_quantization"
    # Hidden there, and taken all the same.
    given = [*verb.split(), "none.onnx", "--darknet-epsilon", "wrong"]
    wrong = CliRunner().invoke(cli, given, standalone_mode=False).exception
    assert "darknet_epsilon is 'wrong'" in str(wrong)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(rknntui: Run, shell: str) -> None:
    rknntui("completion", shell, exit=0, says="_RKNNTUI_COMPLETE")


def test_completion_completes_verbs_and_choices(tmp_path: Path) -> None:
    def complete(words: str, index: int) -> str:
        asked = {"_RKNNTUI_COMPLETE": "bash_complete", "COMP_WORDS": words}
        return start(cwd=tmp_path, COMP_CWORD=str(index), **asked).communicate()[0]

    assert "build" in complete("rknntui bu", 1)
    assert "layer" in complete("rknntui build m.onnx --quantized-method l", 4)


def test_doctor(rknntui: Run) -> None:
    ran = rknntui("doctor", "--json")
    assert ran.code == 0, ran.out
    states = {check["name"]: check["state"] for check in ran.json["checks"]}
    assert states["Python"] == "ok"
    assert states["worker"] == "ok"
    assert states["library onnxruntime"] == "ok"


def test_version(rknntui: Run) -> None:
    from engine import __version__

    assert rknntui("--version").out == f"rknntui {__version__}\n"
