"""The engine, asked by its command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from commands.adopt.part import AdoptionError
from commands.throwaway import reasons, scratch


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


def owned(stack: str) -> Collection[tuple[str, str]]:
    """Type and id of each resource that the stack has in its state.

    Raises:
        AdoptionError: there is no such stack, or no way to its state.
    """
    result = pulumi("stack", "export", "--stack", stack)
    if result.returncode:
        [reason, *_] = reasons(result.stderr)
        raise AdoptionError(
            f"the state of stack {stack} can't be read: {reason.rstrip('.')}. A new stack begins with "
            f"`pulumi stack init {stack}`."
        )
    resources = json.loads(result.stdout)["deployment"].get("resources") or []
    return {(one["type"], one["id"]) for one in resources if "id" in one}
