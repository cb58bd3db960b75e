"""The root command: verbs are listed from a table and imported only when run."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click

from rknntui.cli.errors import failed
from rknntui.cli.verbs import GROUPS, OF_GROUPS, VERBS, Place

_COMMANDS = Path(__file__).with_name("commands")
_SHARED = {
    **dict.fromkeys(("inspect", "dataset"), "recipe"),
    **dict.fromkeys(("export", "sweep"), "build"),
    **dict.fromkeys(("simulate", "evaluate", "accuracy", "compare"), "judge"),
    "check": "chips",
    **dict.fromkeys(("run", "memory"), "devices"),
    **dict.fromkeys(("encrypt", "decrypt", "segment", "codegen"), "files"),
    **dict.fromkeys(("script", "schema", "completion"), "shell"),
}
"""Verb -> the module of ``commands`` that it shares with others; else that of its name."""

EXIT_CODES = """\b
Exit codes:
    0  done                      8  simulation failed
    1  error                     9  corrupt or foreign .rknn file
    2  wrong usage              10  output could not be written
    3  recipe or option         11  output exists already
    4  model file               12  worker process ended
    5  unsupported operator     13  a board cannot be reached or used
    6  dataset                  14  a gate failed (--fail-...)
    7  quantization             15  a toolkit of the vendor is not set up, or broken
   70  internal error           16  the vendor's compiler refused the model, or crashed
  130  cancelled
"""

EXAMPLES = """\b
Examples:
    rknntui                                     open the workbench
    rknntui model.onnx                          open it on a model, recipe or .rknn
    rknntui net.prototxt --weights x.caffemodel the same, with options of its source
    rknntui build model.onnx --dataset photos/ --mean-values 127,127,127 --std-values 128,128,128
    rknntui build recipe.yaml --json | jq .outputs
    rknntui export recipe.yaml -o model.rknn
    rknntui compile recipe.yaml --chip rk3588 -o out/
"""


class Verbs(click.Group):
    """A group whose commands live in modules of their own, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its command; else make it from the method."""
        if cmd_name not in VERBS:
            return None
        if (_COMMANDS / f"{_SHARED.get(cmd_name, cmd_name)}.py").exists():
            module = import_module(f"rknntui.cli.commands.{_SHARED.get(cmd_name, cmd_name)}")
            command: click.Command = getattr(module, cmd_name, None) or module.command
        else:
            command = _plain(cmd_name, VERBS[cmd_name])
        if isinstance(command, click.Group):
            for words, place in OF_GROUPS.items():
                group, _, name = words.partition(" ")
                if group == cmd_name and name not in command.commands:
                    command.add_command(_plain(words, place))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with a suggestion for a verb that does not exist."""
        if args and args[0] not in VERBS:
            from engine import did_you_mean

            if Path(args[0]).is_file():
                ctx.fail(
                    f"{args[0]} is a file. Options of the workbench follow the file name; a verb "
                    f"comes before it (rknntui build FILE)."
                )
            near = did_you_mean(args[0], VERBS)
            ctx.fail(f"There is no verb {args[0]!r}. {near}".strip())
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs under their headings, without importing them."""
        width = max(map(len, VERBS))
        for title, names in GROUPS.items():
            if names:
                with formatter.section(title):
                    rows = [(name.ljust(width), VERBS[name].about) for name in names]
                    formatter.write_dl(rows)


def _plain(words: str, place: Place) -> click.Command:
    """The command of a method that has no more to say than the text of its answer."""
    from rknntui.cli.verb import verb

    declared = vars(import_module(f"engine.wire.{place.wire}")).values()
    method = next(one for one in declared if getattr(one, "verb", "") == words)
    return verb(method)(lambda: None)


@click.command(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{EXAMPLES}\n{EXIT_CODES}",
)
@click.option("--version", is_flag=True, help="Print the version.")
@click.pass_context
def cli(ctx: click.Context, version: bool) -> None:
    """Load, quantize, simulate and export models for Rockchip NPUs.

    Without a verb: the workbench, on a model, recipe or .rknn file where one is given.
    Standard output is data, standard error is narration; every verb but script
    and completion has --json.
    """
    if version:
        from engine import __version__

        click.echo(f"rknntui {__version__}")
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code; no error is told as a traceback."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        result = cli.main(arguments, prog_name="rknntui", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.ClickException, click.Abort, KeyboardInterrupt, BrokenPipeError) as error:
        return failed(error, as_json="--json" in arguments)
    except Exception as error:  # noqa: BLE001 - the last door: nobody else would tell the user
        return failed(error, as_json="--json" in arguments)
    return result if isinstance(result, int) else 0
