"""``rknntui completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from rknntui.cli.output import emit

VARIABLE = "_RKNNTUI_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  rknntui completion bash > ~/.local/share/bash-completion/completions/rknntui
    zsh:   rknntui completion zsh > "${fpath[1]}/_rknntui"
    fish:  rknntui completion fish > ~/.config/fish/completions/rknntui.fish
    """
    from rknntui.cli.root import cli

    found = get_completion_class(shell)
    if found is None:  # click knows all three shells that are offered above
        raise click.UsageError(f"There is no completion for {shell}.")
    emit(None, found(cli, {}, "rknntui", VARIABLE).source(), as_json=False)
