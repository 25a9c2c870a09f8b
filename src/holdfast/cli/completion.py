"""`holdfast completion`: prints the script with which a shell completes commands, options, sessions and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

VARIABLE = "_HOLDFAST_COMPLETE"
"""Where the script says for which shell the program completes; click reads it."""
SHELLS = ("bash", "zsh", "fish")


def complete(what: Literal["sessions", "models", "agents"]) -> Callable[..., list[CompletionItem]]:
    """A function that completes a value, for `shell_complete`. Its module is imported when a shell asks."""

    def completed(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        from holdfast.cli import completing

        found: list[CompletionItem] = getattr(completing, what)(begun)
        return found

    return completed


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that completes `holdfast` in SHELL: commands, options, ids of sessions, models and agents.

    \b
    bash:  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
    zsh:   holdfast completion zsh > ~/.zfunc/_holdfast       (a directory of your $fpath)
    fish:  holdfast completion fish > ~/.config/fish/completions/holdfast.fish

    For the current shell only: source <(holdfast completion bash)"""
    from click.shell_completion import get_completion_class

    from holdfast.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    completion = found(cli, {}, "holdfast", VARIABLE)
    # Not `source()`: that of bash starts a bash to learn its version, and complains where there is none.
    click.echo(completion.source_template % completion.source_vars())
