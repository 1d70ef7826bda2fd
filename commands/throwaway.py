"""A program that only asks, run by the engine on a state that is thrown away: nothing is made, and nothing is kept."""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pulumi import automation


class AskError(Exception):
    """The program failed, or the engine can't run it."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("\n".join(reasons))


def ask(program: Callable[[], None]) -> None:
    """Preview a program in this process; what it learns it hands on itself, from an `apply`.

    Raises:
        AskError: with what the engine said.
    """
    with scratch() as folder:
        backend = folder / "backend"
        backend.mkdir()
        variables = {
            "PULUMI_BACKEND_URL": f"file://{backend}",
            "PULUMI_CONFIG_PASSPHRASE": secrets.token_hex(16),
            "TMPDIR": str(folder),
        }
        options = automation.LocalWorkspaceOptions(work_dir=str(folder), env_vars=variables)
        try:
            stack = automation.create_stack("question", "question", program, opts=options)
            stack.preview(color="never")
        except automation.CommandError as error:
            raise AskError(reasons(str(error))) from None


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for temporary files: the Kubernetes provider leaves a kubeconfig with its key at each preview."""
    with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
        yield Path(folder)


def reasons(output: str) -> list[str]:
    """The errors in what the engine printed, each once."""
    lines = re.findall(r"error: (.+)", output)
    told = [line.removeprefix("Exception calling application: ") for line in lines]
    return list(dict.fromkeys(told)) or ["pulumi failed and gave no reason."]
