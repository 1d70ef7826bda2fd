"""The stack's resources and its preview, as the engine reports them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands.adopt.proposal import AdoptionError
from commands.pulumi_cli import error_messages, run_pulumi, temporary_folder


@dataclass(frozen=True)
class Step:
    """The planned operation on a resource."""

    op: str
    """`create` if the stack does not have the resource yet."""
    type: str
    inputs: Mapping[str, Any]
    """Inputs from the program; secrets are masked."""


@dataclass(frozen=True)
class Plan:
    """A preview."""

    steps: Mapping[str, Step]
    """By URN."""
    entries: Sequence[Mapping[str, Any]]
    """Resources to create, in the format of `pulumi import --file`, with placeholder IDs."""
    names: Mapping[str, str]
    """URNs of existing resources that the entries refer to, by name."""

    def urn(self, entry: Mapping[str, Any]) -> str:
        """Return the URN of an entry."""
        ends = [f"{before}{entry['type']}::{entry.get('logicalName', entry['name'])}" for before in ("::", "$")]
        return next(urn for urn in self.steps if urn.endswith(tuple(ends)))


def owned_resources(stack: str) -> Collection[tuple[str, str]]:
    """Return type and ID of each resource in the stack's state.

    Raises:
        AdoptionError: the stack does not exist or its state can't be read.
    """
    result = run_pulumi("stack", "export", "--stack", stack)
    if result.returncode:
        [reason, *_] = error_messages(result.stderr)
        raise AdoptionError(
            f"Could not read the state of stack {stack}: {reason.rstrip('.')}. For a new stack, first run "
            f"`pulumi stack init {stack}`."
        )
    resources = json.loads(result.stdout)["deployment"].get("resources") or []
    return {(resource["type"], resource["id"]) for resource in resources if "id" in resource}


def preview(stack: str, settings: Path) -> Plan:
    """Preview the stack with another settings file.

    Raises:
        AdoptionError: the preview fails.
    """
    with temporary_folder() as folder:
        # The file has the secrets of the providers, encrypted as in the state.
        file = folder / "import.json"
        result = run_pulumi(*("preview", "--stack", stack, "--config-file", settings, "--import-file", file, "--json"))
        try:
            answer = json.loads(result.stdout)
        except ValueError:
            answer = {}
        if result.returncode:
            messages = [
                item["message"].strip() for item in answer.get("diagnostics", []) if item["severity"] == "error"
            ]
            errors = messages or error_messages(f"{result.stderr}\n{result.stdout}")
            raise AdoptionError("\n".join(["The preview with these settings failed:", *dict.fromkeys(errors)]))
        entries = json.loads(file.read_text()) if file.exists() else {}
    steps = {
        step["urn"]: Step(step["op"], state["type"], state.get("inputs") or {})
        for step in answer["steps"]
        # A deletion only has the old state.
        if (state := step.get("newState") or step.get("oldState"))
    }
    return Plan(steps, entries.get("resources") or [], entries.get("nameTable") or {})
