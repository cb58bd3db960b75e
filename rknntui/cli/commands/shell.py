"""``rknntui script``, ``schema``, ``completion``: what stands beside the work of this program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from engine import SourceModelError, sanitize, script_environment, verb_schema
from rknntui.cli.flags import json_flag
from rknntui.cli.output import emit

VARIABLE = "_RKNNTUI_COMPLETE"


@click.command(
    "script",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: rknntui script --generation 1 test.py --input photo.jpg",
)
@click.option(
    "--generation",
    type=click.Choice(["1", "2"]),
    help="Whose rules hold for RKNN(): 1 (RKNN-Toolkit) or 2 (RKNN-Toolkit2). Without it the "
    "script's first config decides.",
)
@click.option(
    "--compiler",
    type=click.Choice(["open", "rockchip"]),
    help="What export_rknn writes: open (default), a container of ours for simulation; rockchip, a "
    "model that runs on the NPU, by the vendor's toolkit (rknntui vendor).",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def script(
    generation: str | None, compiler: str | None, file: Path, arguments: tuple[str, ...]
) -> int:
    """Run FILE with ARGUMENTS: from rknn.api import RKNN, rknn.api.custom_op, rknn.utils and
    rknnlite.api give this program's.

    The script keeps its own output, keyboard, signals and exit code; nothing is added. It must be
    your own or one that you trust: it runs with your rights, as python FILE would.
    """
    if not file.is_file():
        raise SourceModelError(
            f"{sanitize(str(file), 200)} {'is not a file' if file.exists() else 'does not exist'}.",
            remedy="Give the path of a Python script.",
        )
    environment = script_environment(os.environ, generation=generation, compiler=compiler)
    sys.stdout.flush()
    sys.stderr.flush()
    # in place of this process: terminal, signals and exit code are the script's, nothing between
    os.execve(  # noqa: S606 - a list of words, no shell
        sys.executable, [sys.executable, str(file), *arguments], environment
    )


@click.command("schema", epilog="Example: rknntui schema hybrid search > search.schema.json")
@click.argument("verb", metavar="VERB", nargs=-1, required=True)
@json_flag
def schema(verb: tuple[str, ...], as_json: bool) -> None:
    """Print the JSON schemas of VERB: parameters, which the worker takes, and result, which
    --json prints. It is JSON with and without --json.

    A verb may print more beside its result, such as the gates of limits.
    """
    emit(verb_schema(" ".join(verb)), "", as_json=True)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  rknntui completion bash > ~/.local/share/bash-completion/completions/rknntui
    zsh:   rknntui completion zsh > "${fpath[1]}/_rknntui"
    fish:  rknntui completion fish > ~/.config/fish/completions/rknntui.fish
    """
    from rknntui.cli.root import cli

    completion_class = get_completion_class(shell)
    if completion_class is None:  # click knows all three shells that are offered above
        raise click.UsageError(f"There is no completion for {shell}.")
    emit(None, completion_class(cli, {}, "rknntui", VARIABLE).source(), as_json=False)
