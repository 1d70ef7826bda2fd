"""What the toolchain builds, with a shell script for `go`, and its errors."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import psutil
import pytest

from rehearsal.errors import RehearsalError
from rehearsal.layout import CHECKOUT, cache_folder
from rehearsal.toolchain import build as toolchain
from rehearsal.toolchain.groups import Group, read_groups
from tests.unit.fake_tools import GO, builds, ensure, fake_group, fresh, install_go, timeless


@pytest.fixture(autouse=True)
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a fake `go` first on PATH; returns the file that records its calls."""
    return install_go(tmp_path, monkeypatch)


@pytest.fixture
def groups(tmp_path: Path) -> list[Group]:
    return [
        dataclasses.replace(fake_group(tmp_path, "one", "alpha"), version_of=None, variables={}),
        fake_group(tmp_path, "two", "beta", "gamma", beside=["schema.json"]),
    ]


def test_one_folder_has_all_executables_and_the_files_they_read(groups: list[Group], tmp_path: Path) -> None:
    folder, output = ensure(groups, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["alpha", "beta", "gamma", "schema.json"]
    assert folder.name == "bin", "the Automation API looks for bin/pulumi"
    assert json.loads((folder / "schema.json").read_text()) == {"name": "kubernetes", "version": "v2.7.1"}
    executable = (folder / "beta").resolve()
    assert (executable.parent / "schema.json").is_file(), "an executable resolves links and looks in its own folder"
    assert "[1/3] alpha ... built in N s\n[2/3] beta ... built in N s\n[3/3] gamma ... built in N s\n" in output
    assert output.endswith("tools: ready (3 built in N s)\n")


def test_a_second_run_does_not_need_go(groups: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = ensure(groups, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert ensure(groups, tmp_path) == (first, "tools: ready\n")


def test_a_changed_go_sum_rebuilds_its_group_and_keeps_the_former_one(
    groups: list[Group], go: Path, tmp_path: Path
) -> None:
    first, _ = ensure(groups, tmp_path)
    (groups[0].source / "go.sum").write_text("example.com/two v2.7.1 h1:b=\n")
    go.unlink()
    second, _ = ensure(groups, tmp_path)
    assert builds(go) == ["alpha"]
    assert second != first
    assert (first / "alpha").read_text() == "built\n", "another checkout may still have the former pins"


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go", "command/main.go"])
def test_each_file_of_a_module_changes_its_key(groups: list[Group], name: str) -> None:
    before = fresh(groups)[0].key
    (groups[0].source / name).parent.mkdir(exist_ok=True)
    with (groups[0].source / name).open("a") as file:
        file.write("// changed\n")
    assert fresh(groups)[0].key != before


def test_unoptimised_packages_have_compiler_flags_of_their_own_and_another_key(groups: list[Group]) -> None:
    slow = dataclasses.replace(groups[0], unoptimised=["example.com/sdk/..."])
    all_packages, sdk = [flag for flag in slow.flags if flag.startswith("-gcflags=")]
    assert all_packages == "-gcflags=all=-dwarf=false"
    assert sdk == "-gcflags=example.com/sdk/...=-dwarf=false -N -l", "go takes the last pattern that matches"
    assert slow.key != groups[0].key


def test_the_linker_sets_the_version_of_go_mod(groups: list[Group]) -> None:
    assert groups[1].flags[-1] == "-ldflags=-s -w -X main.minor=7 -X main.version=v2.7.1"


def test_the_provider_has_the_version_that_the_requirements_pin() -> None:
    pinned = [line for line in (CHECKOUT / "requirements.in").read_text().splitlines() if "pulumi-kubernetes" in line]
    assert pinned == [f"pulumi-kubernetes=={metadata.version('pulumi-kubernetes')}"]
    provider = next(group for group in read_groups() if "pulumi-resource-kubernetes" in group.binaries)
    assert pinned[0].endswith(f"=={provider.version}")


def test_builds_exactly_the_tool_packages_of_each_go_mod() -> None:
    for group in read_groups():
        lines = (group.source / "go.mod").read_text().replace("tool (", "").splitlines()
        tools = {
            line.removeprefix("tool ").strip()
            for line in lines
            if line.startswith(("tool ", "\t")) and " v" not in line
        }
        assert {package for package in group.binaries.values() if not package.startswith(".")} == tools


def test_a_missing_go_is_an_error(groups: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(RehearsalError) as refused:
        ensure(groups, tmp_path)
    assert str(refused.value) == (
        "Go 1.26.8 or newer is needed (found none): install it from go.dev and put it on PATH."
    )


@pytest.mark.parametrize("version", ["1.19", "1.26.7", "1.9.9"])
def test_refuses_a_go_older_than_go_mod_requires(
    groups: list[Group], go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("GO_VERSION", version)
    with pytest.raises(RehearsalError, match=rf"^Go 1\.26\.8 or newer is needed \(found {version}\): install"):
        ensure(groups, tmp_path)
    assert builds(go) == []


@pytest.mark.parametrize("version", ["1.26.8", "1.26.10", "1.27", "2.0"])
def test_accepts_the_go_that_go_mod_requires_and_newer(
    groups: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("GO_VERSION", version)
    assert "3 built" in ensure(groups, tmp_path)[1]


def test_a_failed_build_names_its_log_and_the_next_run_continues(
    groups: list[Group], go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", "example.com/gamma")
    with pytest.raises(RehearsalError, match=r"gamma could not be built .*x\.go:2: undefined: y") as failed:
        ensure(groups, tmp_path)
    log = tmp_path / "cache" / "build" / "gamma.log"
    assert str(log) in str(failed.value)
    assert log.read_text() == "x.go:1: first\nx.go:2: undefined: y\n"
    assert not list((tmp_path / "cache" / "tools").rglob("gamma"))

    monkeypatch.delenv("BROKEN")
    go.unlink()
    _, output = ensure(groups, tmp_path)
    assert builds(go) == ["gamma"]
    assert "[1/1] gamma" in output
    assert not (tmp_path / "cache" / "build").exists(), "Go's caches take many GB"


@pytest.fixture
def interrupted(
    groups: list[Group], go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[subprocess.Popen[str]]:
    """`python -m rehearsal.toolchain.build`, while `go build` of beta hangs."""
    monkeypatch.setenv("ENDLESS", "example.com/beta")
    os.mkfifo(f"{go}.started")
    program = (
        "import sys, rehearsal.toolchain.build as t; from rehearsal.toolchain.groups import *; from pathlib import *; "
        f"t.read_groups = lambda: {groups!r}; sys.exit(t.exit_code_of(t.main))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=CHECKOUT,
        env={**os.environ, "ACKGPU_CACHE": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Also open it for writing: otherwise the end of file comes before `go` has written the executable.
    started = os.open(f"{go}.started", os.O_RDWR)
    try:
        assert select.select([started], [], [], 20)[0], "go build of beta was started"
        yield process
    finally:
        os.close(started)
        process.terminate()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_stops_go_and_leaves_no_partial_executable(
    interrupted: subprocess.Popen[str], groups: list[Group], go: Path, tmp_path: Path, number: signal.Signals
) -> None:
    interrupted.send_signal(number)
    output, complaint = interrupted.communicate(timeout=10)
    assert interrupted.returncode == 130
    assert timeless(output).endswith("[1/3] alpha ... built in N s\n[2/3] beta ... not built\n")
    assert complaint == "interrupted\n"
    cache = tmp_path / "cache"
    assert sorted(path.name for path in cache.rglob("*") if path.is_file()) == ["alpha", "lock", "schema.json"]


def test_a_killed_build_stops_go_and_the_next_run_continues(
    interrupted: subprocess.Popen[str], groups: list[Group], go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = psutil.Process(interrupted.pid).children()
    assert running, "go build of beta"
    interrupted.kill()
    _, alive = psutil.wait_procs(running, timeout=10)
    assert alive == []
    monkeypatch.delenv("ENDLESS")
    go.unlink()
    folder, output = ensure(groups, tmp_path)
    assert builds(go) == ["beta", "gamma"]
    assert output.endswith("tools: ready (2 built in N s)\n")
    assert sorted(path.name for path in folder.iterdir()) == ["alpha", "beta", "gamma", "schema.json"]
    assert not (tmp_path / "cache" / "build").exists()


def test_a_second_process_reports_that_it_waits(groups: list[Group], tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "tools"
    folder.mkdir(parents=True)
    waiting = threading.Event()

    class Output(io.StringIO):
        def write(self, text: str) -> int:
            if "waiting" in text:
                waiting.set()
            return super().write(text)

    output = Output()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(
            target=toolchain.ensure_tools, args=(output,), kwargs={"groups": groups, "cache": tmp_path / "cache"}
        )
        second.start()
        assert waiting.wait(10)
        second.join(0.3)
        assert second.is_alive() and not (folder / groups[0].key).exists(), "it does not build while it waits"
    second.join(10)
    assert f"tools: waiting for another process, which is building into {folder}\n" in output.getvalue()
    assert timeless(output.getvalue()).endswith("tools: ready (3 built in N s)\n")


def test_a_checkout_with_ready_tools_does_not_wait_for_a_build(groups: list[Group], tmp_path: Path) -> None:
    ensure(groups, tmp_path)
    with (tmp_path / "cache" / "tools" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert ensure(groups, tmp_path)[1] == "tools: ready\n"


def test_a_cache_folder_that_cannot_be_written_is_an_error(groups: list[Group], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(RehearsalError, match=r"can't be kept in .*cache \(.+\): .* set ACKGPU_CACHE"):
        ensure(groups, tmp_path)


def test_go_writes_only_into_the_cache_folder_and_keeps_the_users_proxy_settings(
    groups: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOPROXY", "https://proxy.example")
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    monkeypatch.setenv("GOCACHE", "/elsewhere")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/users/config")
    (tmp_path / "path" / "go").write_text(GO.replace('case "$1"', 'env > "$CALLS.env"; case "$1"', 1))
    ensure(groups, tmp_path)
    environment = dict(line.split("=", 1) for line in (tmp_path / "calls.env").read_text().splitlines() if "=" in line)
    assert environment["GOPROXY"] == "https://proxy.example"
    assert environment["GOENV"] == "/users/config/go/env"
    assert (environment["GOFLAGS"], environment["GOTOOLCHAIN"], environment["GOWORK"], environment["CGO_ENABLED"]) == (
        "-modcacherw",
        "local",
        "off",
        "0",
    )
    work = tmp_path / "cache" / "build"
    for name in ("GOPATH", "GOMODCACHE", "GOCACHE", "GOTMPDIR", "TMPDIR", "XDG_CONFIG_HOME"):
        assert Path(environment[name]).is_relative_to(work), name


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"ACKGPU_CACHE": "/a/cache", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/a/cache"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/ackgpu"),
        ({"HOME": "/home/me"}, "/home/me/.cache/ackgpu"),
    ],
)
def test_the_cache_folder_follows_ackgpu_cache_then_xdg_then_home(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str
) -> None:
    for name in ("ACKGPU_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)
