"""The engine, asked by its command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from adoption.part import AdoptionError


def pulumi(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `pulumi` and wait for it.

    Raises:
        AdoptionError: there is none.
    """
    if shutil.which("pulumi") is None:
        raise AdoptionError(
            "pulumi is not on PATH: install it, or `source build/rehearsal/cloud/env.sh` on a rehearsal."
        )
    with scratch() as folder:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            env={**os.environ, "TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for temporary files: the Kubernetes provider leaves a kubeconfig with its key at each preview."""
    with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
        yield Path(folder)


def said(output: str) -> list[str]:
    """The errors in what the engine printed, each once."""
    lines = re.findall(r"error: (.+)", output)
    told = [line.removeprefix("Exception calling application: ") for line in lines]
    return list(dict.fromkeys(told)) or ["pulumi failed and gave no reason."]


def owned(stack: str) -> Collection[tuple[str, str]]:
    """Type and id of each resource that the stack has in its state.

    Raises:
        AdoptionError: there is no such stack, or no way to its state.
    """
    result = pulumi("stack", "export", "--stack", stack)
    if result.returncode:
        [reason, *_] = said(result.stderr)
        raise AdoptionError(
            f"the state of stack {stack} can't be read: {reason.rstrip('.')}. A new stack begins with "
            f"`pulumi stack init {stack}`."
        )
    resources = json.loads(result.stdout)["deployment"].get("resources") or []
    return {(one["type"], one["id"]) for one in resources if "id" in one}
