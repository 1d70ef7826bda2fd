"""A rehearsal cloud for the tests, in a copy of the checkout with spaces and non-ASCII letters in its path."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from pulumi import automation

from live.cluster_client import ClusterClient, connected
from live.verify import StackOutputs
from rehearsal.alicloud.store import CloudStore
from rehearsal.automation import select_stack
from rehearsal.cloud import running_cloud
from rehearsal.layout import CHECKOUT, STACK, Layout
from rehearsal.toolchain.build import ensure_tools
from tests.engine.checkout import fresh_checkout
from tests.engine.engine_output import EngineOutput, recorded_output


@dataclass
class Rehearsal:
    """The program on a running cloud."""

    layout: Layout
    tools: Path
    stack: automation.Stack
    kubeconfig: Path

    @cached_property
    def api(self) -> client.ApiClient:
        """The client for changes by a test."""
        return config.new_client_from_config(str(self.kubeconfig))

    @cached_property
    def client(self) -> ClusterClient:
        """The client for the checks."""
        return connected(self.kubeconfig.read_text())

    @property
    def store(self) -> CloudStore:
        return CloudStore(self.layout.store)

    @property
    def stack_file(self) -> Path:
        return self.layout.checkout / f"Pulumi.{STACK}.yaml"

    def up(self) -> automation.UpResult:
        return self.stack.up(color="never")

    def outputs(self) -> StackOutputs:
        return StackOutputs.of(STACK, {name: output.value for name, output in self.stack.outputs().items()})

    def edit(self, **changes: Any) -> None:
        """Change settings in the copy's settings file."""
        content = yaml.safe_load(self.stack_file.read_text())
        content["config"].update({f"ackgpu:{key}": value for key, value in changes.items()})
        self.stack_file.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False))

    def reset(self) -> None:
        """Undo all edits."""
        shutil.copyfile(CHECKOUT / self.stack_file.name, self.stack_file)

    def setting(self, key: str) -> Any:
        return yaml.safe_load(self.stack_file.read_text())["config"].get(f"ackgpu:{key}")


WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


@contextlib.contextmanager
def only_load_on_this_machine() -> Iterator[None]:
    """Wait until no other worker generates load: two loads need more than two cores."""
    lock = CHECKOUT / "build" / "engine" / "load.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def tools() -> Path:
    return ensure_tools()


@pytest.fixture
def engine_output() -> Iterator[EngineOutput]:
    with recorded_output() as output:
        yield output


@pytest.fixture(scope="session")
def rehearsal(tools: Path) -> Iterator[Rehearsal]:
    layout = fresh_checkout(f"un été à Hangzhou 杭州 {WORKER}".strip())
    with running_cloud(layout, tools), recorded_output() as output:
        stack = select_stack(layout)
        yield Rehearsal(layout, tools, stack, layout.kubeconfig)
        # Search the output and the files of all tests on this cloud.
        assert output.leaks(layout) == []


@pytest.fixture(scope="module")
def deployed(rehearsal: Rehearsal) -> Iterator[None]:
    """Deploy the stack for the tests of a module."""
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()
