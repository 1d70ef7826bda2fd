"""The command line `ackgpu`: commands, messages and exit codes.

Every `--help` and every completion imports all commands, so a command imports heavy modules only when it runs.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import click

from commands import CHECKOUT

COMMANDS = (
    "adopt",
    "check",
    "check-exporter",
    "completion",
    "destroy",
    "down",
    "refresh",
    "rehearse",
    "tools",
    "up",
    "verify",
)
"""Module and function have the name of the command, with `_` for `-`."""

INTERRUPTED = 130
COMPLETION_VARIABLE = "_ACKGPU_COMPLETE"


class CommandError(Exception):
    """An error that ends the command with a message and an exit code."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        0 for success, 1 for a failure, 2 for wrong arguments or a check that could not run, 130 for an interrupt.
    """
    # Print each line immediately, also into a pipe.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        code: int | None = command_line().main(
            arguments, prog_name="./ackgpu", complete_var=COMPLETION_VARIABLE, standalone_mode=False
        )
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except click.ClickException as error:
        print(_sentence(error), file=sys.stderr)
        return error.exit_code
    except click.Abort:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return code or 0


def command_line() -> click.Group:
    """Return the group of all commands."""
    functions = {name: name.replace("-", "_") for name in COMMANDS}
    return click.Group(
        "ackgpu",
        {name: getattr(import_module(f"commands.{function}"), function) for name, function in functions.items()},
        help="GPU autoscaling on ACK: check, adopt, verify and destroy a stack, and rehearse it on this machine.",
        epilog=examples("check --stack dev", "verify --help"),
        no_args_is_help=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def examples(*lines: str) -> str:
    """Return the examples at the end of a help text."""
    # \b tells Click to keep the line breaks of the paragraph.
    return "\n".join(["\b", "Examples:" if len(lines) > 1 else "Example:", *(f"  ./ackgpu {line}" for line in lines)])


@contextmanager
def explained(*errors: type[Exception], exit_code: int = 1) -> Iterator[None]:
    """Turn these errors into a CommandError with the same message."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error), exit_code) from None


def stack_file(stack: str) -> Path:
    """Return the settings file of a stack; `<organisation>/<project>/<stack>` is also a valid name."""
    return CHECKOUT / f"Pulumi.{stack.rpartition('/')[2]}.yaml"


def _stacks(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    names = (path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in CHECKOUT.glob("Pulumi.*.yaml"))
    return sorted(name for name in names if name.startswith(incomplete))


def _not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    # With an empty name, such as from an unset shell variable, Pulumi would use the selected stack.
    if not value.rpartition("/")[2]:
        raise click.BadParameter(f"{value!r} is not a stack name: use a name such as dev")
    return value


stack_option = click.option(
    "--stack",
    required=True,
    metavar="NAME",
    help="Name of the stack.",
    callback=_not_empty,
    shell_complete=_stacks,
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def _sentence(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx:
        end = "" if message.endswith((".", "?")) else "."
        return f"{message}{end} See `{error.ctx.command_path} --help`."
    return message
