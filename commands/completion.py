"""`./ackgpu completion`: print a completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from commands.command_line import COMPLETION_VARIABLE, examples


@click.command(epilog=examples("completion bash", "completion zsh > ~/.ackgpu-completion"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for bash, zsh or fish.

    Completes commands, options and stack names. To enable it in this terminal: eval "$(./ackgpu completion bash)"
    """
    completion_class = get_completion_class(shell)
    assert completion_class, "click supports all the shells above"
    print(completion_class(context.find_root().command, {}, "ackgpu", COMPLETION_VARIABLE).source())
