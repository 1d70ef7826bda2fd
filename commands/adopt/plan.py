"""What the stack has, and what the program would register: asked of the engine, so that no name is known twice."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands.adopt.proposal import AdoptionError
from commands.pulumi_cli import answer_of, reasons, scratch


@dataclass(frozen=True)
class Step:
    """What a preview would do with one resource."""

    op: str
    """`create` where the stack does not have it yet."""
    type: str
    inputs: Mapping[str, Any]
    """What the program gives it; secrets are masked."""


@dataclass(frozen=True)
class Plan:
    """A preview."""

    steps: Mapping[str, Step]
    """By URN."""
    entries: Sequence[Mapping[str, Any]]
    """For what would be created, as `pulumi import --file` takes them, with placeholders as ids."""
    names: Mapping[str, str]
    """URNs of what the entries name and the stack has."""

    def urn(self, entry: Mapping[str, Any]) -> str:
        """The URN of an entry."""
        ends = [f"{before}{entry['type']}::{entry.get('logicalName', entry['name'])}" for before in ("::", "$")]
        return next(urn for urn in self.steps if urn.endswith(tuple(ends)))


def owned(stack: str) -> Collection[tuple[str, str]]:
    """Type and id of each resource in the stack's state.

    Raises:
        AdoptionError: there is no such stack, or its state can't be read.
    """
    result = answer_of("stack", "export", "--stack", stack)
    if result.returncode:
        [reason, *_] = reasons(result.stderr)
        raise AdoptionError(
            f"The state of stack {stack} can't be read: {reason.rstrip('.')}. For a new stack run "
            f"`pulumi stack init {stack}` first."
        )
    resources = json.loads(result.stdout)["deployment"].get("resources") or []
    return {(resource["type"], resource["id"]) for resource in resources if "id" in resource}


def preview(stack: str, settings: Path) -> Plan:
    """Preview the stack with another settings file.

    Raises:
        AdoptionError: the preview fails.
    """
    with scratch() as folder:
        # It has the providers with their secrets, encrypted as in the state.
        file = folder / "import.json"
        result = answer_of(*("preview", "--stack", stack, "--config-file", settings, "--import-file", file, "--json"))
        try:
            answer = json.loads(result.stdout)
        except ValueError:
            answer = {}
        if result.returncode:
            messages = [
                item["message"].strip() for item in answer.get("diagnostics", []) if item["severity"] == "error"
            ]
            errors = messages or reasons(f"{result.stderr}\n{result.stdout}")
            raise AdoptionError("\n".join(["A preview with these settings fails:", *dict.fromkeys(errors)]))
        entries = json.loads(file.read_text()) if file.exists() else {}
    steps = {
        step["urn"]: Step(step["op"], state["type"], state.get("inputs") or {})
        for step in answer["steps"]
        # A deletion has only the old state.
        if (state := step.get("newState") or step.get("oldState"))
    }
    return Plan(steps, entries.get("resources") or [], entries.get("nameTable") or {})
