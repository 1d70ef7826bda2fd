"""Kill or interrupt rehearsals, then run the rehearsals of two unprivileged users in parallel.

A rehearsal leaves nothing behind, and the next rehearsal works. The two users have no root, no network and awkward
paths. They run in `sandbox.py`, where only their checkouts and homes are writable, and empty folders replace the
machine's temporary folders. All tests are in this module because they share these rehearsals.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from rehearsal.cloud import running_supervisor
from rehearsal.layout import CHECKOUT, Layout
from rehearsal.leftovers import machine_leftovers
from rehearsal.processes import stray_processes
from rehearsal.toolchain.build import ensure_tools
from tests.engine import secret_search
from tests.engine.checkout import fresh_checkout
from tests.engine.command import ACKGPU, WITHOUT_LOAD, Command, wait_until
from tests.engine.conftest import Rehearsal, only_load_on_this_machine
from tests.engine.secret_search import Secret

pytestmark = pytest.mark.usefixtures("tools")


@dataclass(frozen=True)
class User:
    """A user with a checkout, a home folder and an environment."""

    layout: Layout
    home: Path
    cache: Path
    variables: Mapping[str, str]

    @property
    def output(self) -> Path:
        """The file with the output of the user's rehearsal."""
        return self.layout.checkout / "build" / "output"

    def has_printed(self, text: str) -> bool:
        return self.output.exists() and text in self.output.read_text()


@dataclass
class ParallelRehearsals:
    """Parallel rehearsals of two unprivileged users without a network.

    The first is the whole main job. The second runs without make and without the load, since two loads need more than
    two cores.
    """

    users: list[User]
    system: dict[str, Path]
    """The folders that replace the machine's temporary folders, by path."""
    exit_code: int = -1
    secrets: list[Secret] = field(default_factory=list)
    """The secrets of the first user's rehearsal."""
    under_load: set[tuple[str, str]] = field(default_factory=set)
    """The places and names of secrets found under load."""
    before_destroy: set[tuple[str, str]] = field(default_factory=set)
    """The places and names of secrets in the state before destroy."""
    afterwards: set[tuple[str, str]] = field(default_factory=set)
    """The places and names of secrets found after the rehearsals."""


@pytest.fixture(scope="module")
def checkout() -> Layout:
    """A copy of the checkout. Its first rehearsals are interrupted; the last is complete."""
    return fresh_checkout("premier à Hangzhou 杭州")


@pytest.fixture(scope="module")
def parallel(checkout: Layout) -> ParallelRehearsals:
    tools = ensure_tools().parents[1]
    first = _user(checkout, tools, cache=".cache/ackgpu")
    # Unreachable proxies, a folder for each kind of file, and credentials of another cluster.
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
    rehearsals = ParallelRehearsals([first, second], system)
    specification = {
        "writable": [str(folder) for user in rehearsals.users for folder in (user.layout.checkout, user.home)],
        "stand_ins": {place: str(folder) for place, folder in system.items()},
        "kept": [str(CHECKOUT), str(tools)],
        "commands": [
            {
                "arguments": arguments,
                "cwd": str(user.layout.checkout),
                # Without Go, which only the first build needs.
                "env": {"PATH": os.defpath, "HOME": str(user.home), **user.variables},
                "output": str(user.output),
            }
            for user, arguments in zip(rehearsals.users, (["make", "rehearse"], WITHOUT_LOAD), strict=True)
        ],
    }
    sandbox = Path(__file__).with_name("sandbox.py")
    command = [sys.executable, str(sandbox), json.dumps(specification)]
    with only_load_on_this_machine(), Command(command, cwd=CHECKOUT) as sandbox_job:

        def wait_for(text: str) -> None:
            ended = sandbox_job.process.poll
            wait_until(lambda: first.has_printed(text) or ended() is not None, f"{text!r} printed", seconds=300)
            printed = first.output.read_text() if first.output.exists() else sandbox_job.output
            assert text in printed, f"{text!r} is not in the output:\n{printed}"

        wait_for("== load:")
        rehearsals.secrets = secret_search.secrets_of(first.layout)
        rehearsals.under_load = _leaks(rehearsals) | set(secret_search.in_processes(rehearsals.secrets))
        wait_for("== pulumi destroy")
        rehearsals.before_destroy = {
            (str(path), name) for path, name in secret_search.in_files(first.layout.backend, rehearsals.secrets)
        }
        rehearsals.exit_code = sandbox_job.end(300)
    rehearsals.afterwards = _leaks(rehearsals)
    return rehearsals


def _user(layout: Layout, tools: Path, *, cache: str, **variables: str) -> User:
    home = CHECKOUT / "build" / "engine" / f"home of {layout.checkout.name}"
    shutil.rmtree(home, ignore_errors=True)
    (home / cache).mkdir(parents=True)
    (home / cache / "tools").symlink_to(tools)
    environment = {name: value if ":" in value else str(home / value) for name, value in variables.items()}
    return User(layout, home, home / cache, environment)


def _leaks(rehearsals: ParallelRehearsals) -> set[tuple[str, str]]:
    """Return the places and names of the first user's secrets in all writable folders."""
    folders = [
        *rehearsals.system.values(),
        *(folder for user in rehearsals.users for folder in (user.layout.checkout, user.home)),
    ]
    return {
        (str(path.relative_to(CHECKOUT / "build" / "engine")), name)
        for folder in folders
        for path, name in secret_search.in_files(folder, rehearsals.secrets)
    }


def at_the_start(job: Command, layout: Layout) -> None:
    job.wait_for("== starting the control plane")
    wait_until(lambda: stray_processes(layout), "the supervisor starts")


def while_the_control_plane_starts(job: Command, layout: Layout) -> None:
    wait_until((layout.cloud / "control-plane" / "etcd").exists, "etcd starts")
    assert not layout.ready_file.exists()


def during_up(job: Command, layout: Layout) -> None:
    job.wait_for("== pulumi up", "Release", "creating")
    assert list(layout.backend.rglob("locks/**/*.json")), "the state is locked"


def during_destroy(job: Command, layout: Layout) -> None:
    job.wait_for("== pulumi destroy", "deleting")


def wait_for_cleanup(layout: Layout) -> None:
    wait_until(lambda: not machine_leftovers(layout), "processes, ports and folder are released")


@pytest.mark.parametrize("moment", [at_the_start, while_the_control_plane_starts, during_up, during_destroy])
def test_a_killed_rehearsal_leaves_no_processes(checkout: Layout, moment: Callable[[Command, Layout], None]) -> None:
    with Command(WITHOUT_LOAD, checkout.checkout) as job:
        moment(job, checkout)
        job.process.kill()
        job.process.wait()
        wait_for_cleanup(checkout)


def test_the_next_start_ends_processes_that_lost_their_supervisor(checkout: Layout) -> None:
    with only_load_on_this_machine(), Command([*ACKGPU, "rehearse"], checkout.checkout) as job:
        job.wait_for("== load:")
        wait_until(lambda: "hey" in {process.name() for process in stray_processes(checkout)}, "the load runs")
        running = stray_processes(checkout)
        supervisor = running_supervisor(checkout)
        assert supervisor in running
        job.process.kill()
        supervisor.kill()
    with Command([*ACKGPU, "up"], checkout.checkout) as up:
        assert up.end() == 0, up.output
    assert [process for process in running if process.is_running()] == []


def test_up_and_down_work_after_the_supervisor_of_a_running_cloud_is_killed(checkout: Layout) -> None:
    for command, message in (("up", "The rehearsal cloud is up"), ("down", "The rehearsal cloud is down.")):
        supervisor = running_supervisor(checkout)
        assert supervisor is not None
        supervisor.kill()
        with Command([*ACKGPU, command], checkout.checkout) as next_command:
            assert next_command.end() == 0, next_command.output
        assert message in next_command.output
    assert machine_leftovers(checkout) == []


def test_a_killed_make_ends_its_rehearsal(checkout: Layout) -> None:
    with Command(["make", "rehearse"], checkout.checkout) as make:
        at_the_start(make, checkout)
        [job] = psutil.Process(make.process.pid).children()
        make.process.kill()
        make.process.wait()
        wait_until(lambda: not job.is_running(), "the rehearsal has ended")
        wait_for_cleanup(checkout)


@pytest.mark.parametrize("moment", [at_the_start, during_up])
def test_ctrl_c_ends_the_rehearsal_cleanly(checkout: Layout, moment: Callable[[Command, Layout], None]) -> None:
    with Command(["make", "rehearse"], checkout.checkout) as make:
        moment(make, checkout)
        make.interrupt()
        assert make.end() != 0
    assert machine_leftovers(checkout) == []
    assert "\ninterrupted\n" in make.output
    assert "Traceback" not in make.output


def test_the_main_job_passes_after_interrupted_rehearsals(checkout: Layout, parallel: ParallelRehearsals) -> None:
    assert parallel.users[0].layout == checkout
    assert "== all steps passed" in parallel.users[0].output.read_text()
    assert machine_leftovers(checkout) == []


def test_two_checkouts_rehearse_in_parallel(parallel: ParallelRehearsals) -> None:
    for user in parallel.users:
        output = user.output.read_text()
        assert "== all steps passed" in output, output
        result = json.loads((user.layout.output / "result.json").read_text())
        assert all(step["ok"] for step in result["steps"])
        assert result["leftovers"] == []
    assert parallel.exit_code == 0


@pytest.mark.parametrize("number", [0, 1])
def test_a_rehearsal_writes_only_the_cache_folder_in_a_home(parallel: ParallelRehearsals, number: int) -> None:
    user = parallel.users[number]
    assert (user.cache / "matplotlib").is_dir(), "the rehearsal used this home"
    written = [
        path for path in user.home.rglob("*") if not (path.is_relative_to(user.cache) or path in user.cache.parents)
    ]
    assert written == []


def test_a_rehearsal_writes_nothing_to_temporary_folders(parallel: ParallelRehearsals) -> None:
    # The sandbox creates the parent folders of a checkout below a temporary folder.
    for place, folder in parallel.system.items():
        written = [Path(place) / path.relative_to(folder) for path in folder.rglob("*")]
        assert [path for path in written if path != CHECKOUT and path not in CHECKOUT.parents] == []


def test_using_the_cloud_by_hand_writes_nothing_to_a_home(rehearsal: Rehearsal, tmp_path: Path) -> None:
    shell = subprocess.run(
        ["sh", "-ec", '. "$1"; pulumi preview; kubectl get nodes', "sh", rehearsal.layout.environment_file],
        cwd=rehearsal.layout.checkout,
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shell.returncode == 0, shell.stdout + shell.stderr
    assert "cn-hangzhou.10.0.0.1" in shell.stdout
    assert list(tmp_path.rglob("*")) == []


def places(found: set[tuple[str, str]], checkout: Path) -> set[tuple[str, str]]:
    """Return the places by their names in docs/rehearsal.md; a slash marks a folder whose files have no names there."""
    cloud = f"{checkout.name}/build/rehearsal/cloud/"
    documented = set()
    for place, secret in found:
        place = place.removeprefix(cloud)
        folder = next((folder for folder in ("tmp/", "control-plane/etcd/") if place.startswith(folder)), place)
        documented.add((folder, secret))
    return documented


def test_under_load_secrets_are_only_in_the_documented_places(parallel: ParallelRehearsals) -> None:
    assert places(parallel.under_load, parallel.users[0].layout.checkout) == {
        ("kubeconfig", "key"),
        ("tmp/", "key"),
        ("prometheus_api_url", "token"),
        ("control-plane/etcd/", "token"),
        ("arguments of prometheus-adapter", "token"),
    }


def test_the_state_and_its_history_contain_no_secret(parallel: ParallelRehearsals) -> None:
    assert parallel.before_destroy == set()


def test_the_files_after_a_rehearsal_contain_no_secret(parallel: ParallelRehearsals) -> None:
    for name in ("result.json", "timeline.png", "supervisor.log", "logs/prometheus-adapter.log"):
        assert (parallel.users[0].layout.output / name).exists(), "the search covers this file"
    assert parallel.afterwards == set()
