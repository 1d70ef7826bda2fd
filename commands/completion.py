"""`./ackgpu completion`: completion of commands, options and stacks in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from commands.command_line import COMPLETION_VARIABLE, examples


@click.command(epilog=examples("completion bash", "completion zsh > ~/.ackgpu-completion"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for completion in bash, zsh or fish.

    It completes commands, options and names of stacks. For this terminal: eval "$(./ackgpu completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind, "click knows each of the shells above"
    print(kind(context.find_root().command, {}, "ackgpu", COMPLETION_VARIABLE).source())
