"""The toolchain, with a `go` that is a shell script: what is built when, and what is said where that fails."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import json
import os
import re
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
from rehearsal.toolchain.groups import Group, ModuleFile, read_groups

# Answers as `go` does: writes what is asked for with -o, knows one module, and keeps a list of its calls.
GO = r"""#!/bin/sh
echo "$PWD $*" >> "$CALLS"
case "$1" in
  version) echo "go version go${GO_VERSION:-1.26.8} linux/amd64" ;;
  list) echo "$MODULE" ;;
  build)
    while [ $# -gt 1 ]; do if [ "$1" = -o ]; then out=$2; fi; shift; done
    echo built > "$out"
    if [ "$1" = "$BROKEN" ]; then printf 'x.go:1: first\nx.go:2: undefined: y\n' >&2; exit 1; fi
    if [ "$1" = "$ENDLESS" ]; then echo "$out" > "$CALLS.started"; exec tail -f /dev/null; fi ;;
esac
"""


@pytest.fixture(autouse=True)
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fake `go`, first on PATH; returns the file that lists its calls."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "go").write_text(GO)
    (folder / "go").chmod(0o755)
    module = tmp_path / "module"
    (module / "cmd").mkdir(parents=True)
    (module / "cmd" / "schema.json").write_text('{"name": "kubernetes"}')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("MODULE", str(module))
    return tmp_path / "calls"


@pytest.fixture
def groups(tmp_path: Path) -> list[Group]:
    for name in ("one", "two"):
        source = tmp_path / "tools" / name
        source.mkdir(parents=True)
        (source / "go.mod").write_text("module x\n\ngo 1.26.8\n\nrequire (\n\texample.com/two v2.7.1 // indirect\n)\n")
        (source / "go.sum").write_text("example.com/two v2.7.1 h1:a=\n")
    return [
        Group(tmp_path / "tools" / "one", {"alpha": "example.com/alpha"}),
        Group(
            tmp_path / "tools" / "two",
            {"beta": "example.com/beta", "gamma": "example.com/gamma"},
            version_of="go:example.com/two",
            variables={"main.version": "{version}", "main.minor": "{minor}"},
            beside=(ModuleFile("example.com/two", "cmd/schema.json", set_version=True),),
        ),
    ]


def fresh(groups: list[Group]) -> list[Group]:
    """The same groups with nothing remembered, as another process reads them."""
    return [dataclasses.replace(group) for group in groups]


def ensure(groups: list[Group], tmp_path: Path) -> tuple[Path, str]:
    said = io.StringIO()
    return toolchain.ensure_tools(said, groups=fresh(groups), cache=tmp_path / "cache"), timeless(said.getvalue())


def timeless(said: str) -> str:
    return re.sub(r"built in \d+ s", "built in N s", said)


def builds(calls: Path) -> list[str]:
    """The packages that `go build` was called for, in order."""
    lines = calls.read_text().splitlines() if calls.exists() else []
    return [line.rpartition("/")[2] for line in lines if " build " in line]


def test_one_folder_holds_every_executable_and_the_files_beside_them(groups: list[Group], tmp_path: Path) -> None:
    folder, said = ensure(groups, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["alpha", "beta", "gamma", "schema.json"]
    assert folder.name == "bin", "the Automation API looks for bin/pulumi"
    assert json.loads((folder / "schema.json").read_text()) == {"name": "kubernetes", "version": "v2.7.1"}
    executable = (folder / "beta").resolve()
    assert (executable.parent / "schema.json").is_file(), "an executable looks beside itself, links resolved"
    assert "[1/3] alpha ... built in N s\n[2/3] beta ... built in N s\n[3/3] gamma ... built in N s\n" in said
    assert said.endswith("tools: ready (3 built in N s)\n")


def test_a_second_run_needs_no_go_and_says_only_that_the_tools_are_ready(
    groups: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = ensure(groups, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert ensure(groups, tmp_path) == (first, "tools: ready\n")


def test_only_the_group_whose_sums_changed_is_built_again_and_the_old_one_stays(
    groups: list[Group], go: Path, tmp_path: Path
) -> None:
    first, _ = ensure(groups, tmp_path)
    (groups[0].source / "go.sum").write_text("example.com/two v2.7.1 h1:b=\n")
    go.unlink()
    second, _ = ensure(groups, tmp_path)
    assert builds(go) == ["alpha"]
    assert second != first
    assert (first / "alpha").read_text() == "built\n", "another checkout may still have the old pins"


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go", "command/main.go"])
def test_the_key_follows_each_file_of_the_module(groups: list[Group], name: str) -> None:
    before = fresh(groups)[0].key
    (groups[0].source / name).parent.mkdir(exist_ok=True)
    with (groups[0].source / name).open("a") as file:
        file.write("// changed\n")
    assert fresh(groups)[0].key != before


def test_what_need_not_be_fast_is_compiled_without_optimisation_and_is_another_tool(groups: list[Group]) -> None:
    slow = dataclasses.replace(groups[0], unoptimised=["example.com/sdk/..."])
    everything, of_the_sdk = [flag for flag in slow.flags if flag.startswith("-gcflags=")]
    assert everything == "-gcflags=all=-dwarf=false"
    assert of_the_sdk == "-gcflags=example.com/sdk/...=-dwarf=false -N -l", "go takes the last pattern that matches"
    assert slow.key != groups[0].key


def test_the_version_in_go_mod_is_what_the_linker_is_given(groups: list[Group]) -> None:
    assert groups[1].flags[-1] == "-ldflags=-s -w -X main.minor=7 -X main.version=v2.7.1"


def test_the_provider_is_built_as_the_version_that_the_requirements_pin() -> None:
    pinned = [line for line in (CHECKOUT / "requirements.in").read_text().splitlines() if "pulumi-kubernetes" in line]
    assert pinned == [f"pulumi-kubernetes=={metadata.version('pulumi-kubernetes')}"]
    provider = next(group for group in read_groups() if "pulumi-resource-kubernetes" in group.binaries)
    assert pinned[0].endswith(f"=={provider.version}")


def test_every_package_that_a_go_mod_names_as_a_tool_is_built_and_no_other() -> None:
    for group in read_groups():
        lines = (group.source / "go.mod").read_text().replace("tool (", "").splitlines()
        tools = {
            line.removeprefix("tool ").strip()
            for line in lines
            if line.startswith(("tool ", "\t")) and " v" not in line
        }
        assert {package for package in group.binaries.values() if not package.startswith(".")} == tools


def test_a_missing_go_is_one_sentence(groups: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(RehearsalError) as refused:
        ensure(groups, tmp_path)
    assert str(refused.value) == (
        "Go 1.26.8 or newer is needed (found none): install it from go.dev and put it on PATH."
    )


@pytest.mark.parametrize("version", ["1.19", "1.26.7", "1.9.9"])
def test_an_older_go_than_go_mod_asks_for_is_refused_by_its_version(
    groups: list[Group], go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("GO_VERSION", version)
    with pytest.raises(RehearsalError, match=rf"^Go 1\.26\.8 or newer is needed \(found {version}\): install"):
        ensure(groups, tmp_path)
    assert builds(go) == []


@pytest.mark.parametrize("version", ["1.26.8", "1.26.10", "1.27", "2.0"])
def test_a_go_as_new_as_go_mod_asks_for_builds(
    groups: list[Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("GO_VERSION", version)
    assert "3 built" in ensure(groups, tmp_path)[1]


def test_a_failed_build_names_the_log_and_the_next_run_goes_on_from_there(
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
    _, said = ensure(groups, tmp_path)
    assert builds(go) == ["gamma"]
    assert "[1/1] gamma" in said
    assert not (tmp_path / "cache" / "build").exists(), "the caches of Go take many GB"


@pytest.fixture
def interrupted(
    groups: list[Group], go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[subprocess.Popen[str]]:
    """`python -m rehearsal.toolchain.build` on the groups, while `go build` of beta runs without end."""
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
    # Open for writing too: there must be no end of file before `go` has written the executable.
    started = os.open(f"{go}.started", os.O_RDWR)
    try:
        assert select.select([started], [], [], 20)[0], "go build of beta was started"
        yield process
    finally:
        os.close(started)
        process.terminate()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_ends_go_and_leaves_no_half_made_executable(
    interrupted: subprocess.Popen[str], groups: list[Group], go: Path, tmp_path: Path, number: signal.Signals
) -> None:
    interrupted.send_signal(number)
    said, complaint = interrupted.communicate(timeout=10)
    assert interrupted.returncode == 130
    assert timeless(said).endswith("[1/3] alpha ... built in N s\n[2/3] beta ... not built\n")
    assert complaint == "interrupted\n"
    cache = tmp_path / "cache"
    assert sorted(path.name for path in cache.rglob("*") if path.is_file()) == ["alpha", "lock", "schema.json"]


def test_a_killed_build_ends_go_and_the_next_one_goes_on_from_there(
    interrupted: subprocess.Popen[str], groups: list[Group], go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = psutil.Process(interrupted.pid).children()
    assert running, "go build of beta"
    interrupted.kill()
    _, alive = psutil.wait_procs(running, timeout=10)
    assert alive == []
    monkeypatch.delenv("ENDLESS")
    go.unlink()
    folder, said = ensure(groups, tmp_path)
    assert builds(go) == ["beta", "gamma"]
    assert said.endswith("tools: ready (2 built in N s)\n")
    assert sorted(path.name for path in folder.iterdir()) == ["alpha", "beta", "gamma", "schema.json"]
    assert not (tmp_path / "cache" / "build").exists()


def test_a_second_process_says_that_it_waits(groups: list[Group], tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "tools"
    folder.mkdir(parents=True)
    waiting = threading.Event()

    class Said(io.StringIO):
        def write(self, text: str) -> int:
            if "waiting" in text:
                waiting.set()
            return super().write(text)

    said = Said()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(
            target=toolchain.ensure_tools, args=(said,), kwargs={"groups": groups, "cache": tmp_path / "cache"}
        )
        other.start()
        assert waiting.wait(10)
        other.join(0.3)
        assert other.is_alive() and not (folder / groups[0].key).exists(), "nothing is built before its turn"
    other.join(10)
    assert f"tools: waiting for another process, which is building into {folder}\n" in said.getvalue()
    assert timeless(said.getvalue()).endswith("tools: ready (3 built in N s)\n")


def test_a_checkout_whose_tools_are_ready_does_not_wait_for_another_ones_build(
    groups: list[Group], tmp_path: Path
) -> None:
    ensure(groups, tmp_path)
    with (tmp_path / "cache" / "tools" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert ensure(groups, tmp_path)[1] == "tools: ready\n"


def test_a_cache_folder_that_cannot_be_written_is_one_sentence(groups: list[Group], tmp_path: Path) -> None:
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
    seen = dict(line.split("=", 1) for line in (tmp_path / "calls.env").read_text().splitlines() if "=" in line)
    assert seen["GOPROXY"] == "https://proxy.example"
    assert seen["GOENV"] == "/users/config/go/env"
    assert (seen["GOFLAGS"], seen["GOTOOLCHAIN"], seen["GOWORK"], seen["CGO_ENABLED"]) == (
        "-modcacherw",
        "local",
        "off",
        "0",
    )
    work = tmp_path / "cache" / "build"
    for name in ("GOPATH", "GOMODCACHE", "GOCACHE", "GOTMPDIR", "TMPDIR", "XDG_CONFIG_HOME"):
        assert Path(seen[name]).is_relative_to(work), name


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"ACKGPU_CACHE": "/a/cache", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/a/cache"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/ackgpu"),
        ({"HOME": "/home/me"}, "/home/me/.cache/ackgpu"),
    ],
)
def test_the_cache_folder_is_the_users_choice_then_the_desktops_then_the_homes(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str
) -> None:
    for name in ("ACKGPU_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)
