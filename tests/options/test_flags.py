"""Options of tensors as flags that are repeated; what is refused has no flag."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click
from click.testing import CliRunner

from engine.options import OPTIONS, option
from engine.quantize import QuantizeSettings
from rknntui.cli.flags import recipe_flags, values_of


def parsed(*words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the recipe's options, and what was printed."""
    found: dict[str, Any] = {}

    @click.command()
    @recipe_flags
    def command(**arguments: Any) -> None:
        found.update(values_of(arguments))

    result = CliRunner().invoke(command, list(words))
    return result.exit_code, found, result.output


def test_a_mapping_is_given_an_entry_at_a_time() -> None:
    code, found, _ = parsed(
        "--quantized-layers", "conv1=float16", "--quantized-layers", "a;b=int8; c=fp16",
        "--quantized-ranges", "128=-1,6", "--op-target", "x=cpu", "--op-target", "x=npu",
    )  # fmt: skip
    assert code == 0
    assert found == {
        "quantized_layers": {"conv1": "float16", "a;b": "int8", "c": "float16"},
        "quantized_ranges": {"128": [-1.0, 6.0]},
        "op_target": {"x": "npu"},
    }


def test_a_slip_in_an_entry_is_a_usage_error() -> None:
    code, _, told = parsed("--quantized-layers", "conv1=float17")
    assert code == 2
    assert "quantized_layers of conv1" in told
    assert "float16" in told


def test_a_rendered_mapping_is_one_flag_that_reads_back() -> None:
    """Command lines that the workbench shows hold a mapping in one word."""
    for name, value in (
        ("quantized_layers", {"a;b": "int8", "c": "float16"}),
        ("op_target", {"a=b": "cpu", "c": "auto"}),
        ("quantized_ranges", {"x": [-1.5, 1e-7], "y": [0.0, 6.0]}),
    ):
        (option,) = (o for o in OPTIONS if o.name == name)
        assert parsed(option.flag, option.render(value))[:2] == (0, {name: value})
        assert parsed(option.flag, "")[:2] == (0, {name: {}}), "not the ones of the recipe's file"


def test_what_is_refused_has_no_flag_and_the_compilers_options_say_so() -> None:
    _, _, help_text = parsed("--help-options")
    words = help_text.split()
    for o in OPTIONS:
        if o.name not in ("model", "do_quantization"):
            assert (o.flag in words) == (o.role != "refused"), o.name
    assert "vendor compiler" in " ".join(words)


def test_settings_of_the_name_of_an_option_have_its_default() -> None:
    settings = QuantizeSettings()
    shared = {o.name for o in OPTIONS} & {field.name for field in fields(settings)}
    assert "bias_correction" in shared
    for name in shared:
        assert getattr(settings, name) == option(name).default, name
