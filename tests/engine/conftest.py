"""A rehearsal cloud for the tests, in a copy of the checkout whose path is as awkward as a user's can be."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from pulumi import automation

from rehearsal.alicloud.store import CloudStore
from rehearsal.checkout_copy import copy_checkout
from rehearsal.cloud import running_cloud
from rehearsal.engine import select_stack
from rehearsal.layout import CHECKOUT, STACK, Layout
from rehearsal.toolchain import ensure_tools
from verify import StackOutputs


@dataclass
class Rehearsal:
    """The program on a running cloud."""

    layout: Layout
    tools: Path
    stack: automation.Stack
    api: client.ApiClient

    @property
    def store(self) -> CloudStore:
        return CloudStore(self.layout.store)

    @property
    def stack_file(self) -> Path:
        return self.layout.checkout / f"Pulumi.{STACK}.yaml"

    def up(self) -> automation.UpResult:
        return self.stack.up(color="never")

    def outputs(self) -> StackOutputs:
        return StackOutputs.of(STACK, {name: one.value for name, one in self.stack.outputs().items()})

    def edit(self, **changes: Any) -> None:
        """Change settings of the copy's stack file."""
        content = yaml.safe_load(self.stack_file.read_text())
        content["config"].update({f"ackgpu:{key}": value for key, value in changes.items()})
        self.stack_file.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False))

    def reset(self) -> None:
        """Undo all edits."""
        shutil.copyfile(CHECKOUT / self.stack_file.name, self.stack_file)

    def setting(self, key: str) -> Any:
        return yaml.safe_load(self.stack_file.read_text())["config"].get(f"ackgpu:{key}")


@pytest.fixture(scope="session")
def rehearsal() -> Iterator[Rehearsal]:
    tools = ensure_tools()
    copy = CHECKOUT / "build" / "engine" / "un été à Hangzhou 杭州"
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy_checkout(copy)
    layout = Layout(copy)
    with running_cloud(layout, tools):
        stack = select_stack(layout)
        yield Rehearsal(layout, tools, stack, config.new_client_from_config(str(layout.kubeconfig)))
