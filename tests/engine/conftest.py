"""A rehearsal cloud for the tests, in a copy of the checkout whose path is as awkward as a user's can be."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
from tests.engine import secret_search
from tests.engine.checkout import fresh_checkout
from tests.engine.command import WITHOUT_LOAD, Command, wait_until
from tests.engine.secret_search import Secret
from tests.engine.shown import Shown, recorded


@dataclass
class Rehearsal:
    """The program on a running cloud."""

    layout: Layout
    tools: Path
    stack: automation.Stack
    kubeconfig: Path

    @cached_property
    def api(self) -> client.ApiClient:
        """For what a test does to the cluster."""
        return config.new_client_from_config(str(self.kubeconfig))

    @cached_property
    def client(self) -> ClusterClient:
        """For the checks."""
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


WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
ORDINARY_USERS = {"test_interruption.py", "test_ordinary_user.py", "test_secrets.py"}
"""Modules that look at the same two rehearsals."""


# Before pytest-xdist, which reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a module on the same worker, since they share a stack."""
    for item in items:
        group = "ordinary users" if item.path.name in ORDINARY_USERS else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))


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
def shown() -> Iterator[Shown]:
    with recorded() as output:
        yield output


@pytest.fixture(scope="session")
def rehearsal(tools: Path) -> Iterator[Rehearsal]:
    layout = fresh_checkout(f"un été à Hangzhou 杭州 {WORKER}".strip())
    with running_cloud(layout, tools), recorded() as printed:
        stack = select_stack(layout)
        yield Rehearsal(layout, tools, stack, layout.kubeconfig)
        # Of all tests on this cloud, in all that they ran and left.
        assert printed.in_the_open(layout) == []


@pytest.fixture(scope="module")
def deployed(rehearsal: Rehearsal) -> Iterator[None]:
    """The stack is up while the tests of a module run."""
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


@dataclass(frozen=True)
class User:
    """Somebody with a checkout, a home, and an environment."""

    layout: Layout
    home: Path
    cache: Path
    variables: Mapping[str, str]

    @property
    def output(self) -> Path:
        """What the user's rehearsal printed."""
        return self.layout.checkout / "build" / "output"

    def printed(self, text: str) -> bool:
        return self.output.exists() and text in self.output.read_text()


@dataclass
class SideBySide:
    """Rehearsals at the same time, of two ordinary users on a machine without a network.

    The first is the whole main job. The second goes without make and without the load, since two loads at once are
    more than two cores carry as the guide has it.
    """

    users: list[User]
    system: dict[str, Path]
    """The machine's temporary folders, and what stood there instead."""
    exit_code: int = -1
    secrets: list[Secret] = field(default_factory=list)
    """Of the first user's rehearsal."""
    under_load: set[tuple[str, str]] = field(default_factory=set)
    """Where they were found under load, with their names."""
    before_destroy: set[tuple[str, str]] = field(default_factory=set)
    """Where they were found in the state at its end."""
    afterwards: set[tuple[str, str]] = field(default_factory=set)
    """Where they were found when all had ended."""


@pytest.fixture(scope="session")
def checkout() -> Layout:
    """A copy of the checkout whose rehearsals are interrupted, before one of them is carried through."""
    return fresh_checkout("premier à Hangzhou 杭州")


@pytest.fixture(scope="session")
def side_by_side(checkout: Layout) -> SideBySide:
    tools = ensure_tools().parents[1]
    first = _user(checkout, tools, cache=".cache/ackgpu")
    # Proxies that can't be reached, a folder for each kind of file, and credentials of another cluster.
    second = _user(
        fresh_checkout("second à Hangzhou 杭州"),
        tools,
        cache="caches/ackgpu",
        XDG_CACHE_HOME="caches",
        XDG_CONFIG_HOME="configuration",
        XDG_DATA_HOME="data",
        XDG_STATE_HOME="state",
        KUBECONFIG="another cluster",
        PULUMI_HOME="pulumi",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
    )
    system = {}
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        system[place] = CHECKOUT / "build" / "engine" / f"instead of {place.replace('/', ' ').strip()}"
        shutil.rmtree(system[place], ignore_errors=True)
        system[place].mkdir()
    seen = SideBySide([first, second], system)
    specification = {
        "writable": [str(folder) for user in seen.users for folder in (user.layout.checkout, user.home)],
        "stand_ins": {place: str(folder) for place, folder in system.items()},
        "kept": [str(CHECKOUT), str(tools)],
        "commands": [
            {
                "arguments": arguments,
                "cwd": str(user.layout.checkout),
                # No Go: it is needed for the first build only.
                "env": {"PATH": os.defpath, "HOME": str(user.home), **user.variables},
                "output": str(user.output),
            }
            for user, arguments in zip(seen.users, (["make", "rehearse"], WITHOUT_LOAD), strict=True)
        ],
    }
    sandbox = Path(__file__).with_name("sandbox.py")
    command = [sys.executable, str(sandbox), json.dumps(specification)]
    with only_load_on_this_machine(), Command(command, cwd=CHECKOUT) as both:

        def wait_for(text: str) -> None:
            ended = both.process.poll
            wait_until(lambda: first.printed(text) or ended() is not None, f"{text!r} printed", seconds=300)
            printed = first.output.read_text() if first.output.exists() else both.output
            assert text in printed, f"{text!r} is not in the output:\n{printed}"

        wait_for("== load:")
        seen.secrets = secret_search.secrets_of(first.layout)
        seen.under_load = _found(seen) | set(secret_search.in_processes(seen.secrets))
        wait_for("== pulumi destroy")
        seen.before_destroy = {
            (str(path), name) for path, name in secret_search.in_files(first.layout.backend, seen.secrets)
        }
        seen.exit_code = both.end(300)
    seen.afterwards = _found(seen)
    return seen


def _user(layout: Layout, tools: Path, *, cache: str, **variables: str) -> User:
    home = CHECKOUT / "build" / "engine" / f"home of {layout.checkout.name}"
    shutil.rmtree(home, ignore_errors=True)
    (home / cache).mkdir(parents=True)
    (home / cache / "tools").symlink_to(tools)
    inside = {name: value if ":" in value else str(home / value) for name, value in variables.items()}
    return User(layout, home, home / cache, inside)


def _found(seen: SideBySide) -> set[tuple[str, str]]:
    """Where the first user's secrets are, of all files that could be written."""
    folders = [*seen.system.values(), *(folder for user in seen.users for folder in (user.layout.checkout, user.home))]
    return {
        (str(path.relative_to(CHECKOUT / "build" / "engine")), name)
        for folder in folders
        for path, name in secret_search.in_files(folder, seen.secrets)
    }
