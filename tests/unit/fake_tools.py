"""Groups of tools with a fake `go`, and fake released tools."""

from __future__ import annotations

import dataclasses
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from rehearsal.toolchain import build as toolchain
from rehearsal.toolchain.groups import Group, ModuleFile

# Writes the file after -o, knows one module and records its calls.
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
HANGS = "exec tail -f /dev/null"


def install_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the fake `go` first on PATH and return the file that records its calls."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "go").write_text(GO)
    (folder / "go").chmod(0o755)
    module = tmp_path / "module"
    (module / "cmd").mkdir(parents=True)
    (module / "cmd" / "schema.json").write_text('{"name": "kubernetes"}')
    (module / "cmd" / "pulumi-language-python-exec").write_text("#!/usr/bin/env python3\n")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("MODULE", str(module))
    monkeypatch.delenv("ACKGPU_TOOLS", raising=False)
    monkeypatch.delenv("ACKGPU_TOOLS_URL", raising=False)
    return tmp_path / "calls"


def fake_group(
    tmp_path: Path, name: str, *binaries: str, beside: Sequence[str] = (), version_of: str = "go:example.com/two"
) -> Group:
    """Return a group of tools with a Go module of its own."""
    source = tmp_path / "tools" / name
    source.mkdir(parents=True)
    (source / "go.mod").write_text("module x\n\ngo 1.26.8\n\nrequire (\n\texample.com/two v2.7.1 // indirect\n)\n")
    (source / "go.sum").write_text("example.com/two v2.7.1 h1:a=\n")
    return Group(
        source,
        {binary: f"example.com/{binary}" for binary in binaries},
        version_of=version_of,
        variables={"main.version": "{version}", "main.minor": "{minor}"},
        beside=[ModuleFile("example.com/two", f"cmd/{file}", file.endswith(".json")) for file in beside],
    )


def fresh(groups: Sequence[Group]) -> list[Group]:
    """Return the groups without cached properties, as another process reads them."""
    return [dataclasses.replace(group) for group in groups]


def ensure(groups: Sequence[Group], tmp_path: Path) -> tuple[Path, str]:
    """Make the tools ready; return their folder and the output without durations."""
    output = io.StringIO()
    folder = toolchain.ensure_tools(output, groups=fresh(groups), cache=tmp_path / "cache")
    return folder, timeless(output.getvalue())


def timeless(output: str) -> str:
    """Return output without durations."""
    return re.sub(r"built in \d+ s", "built in N s", output)


def builds(calls: Path) -> list[str]:
    """Return the packages that `go build` was called for, in order."""
    lines = calls.read_text().splitlines() if calls.exists() else []
    return [line.rpartition("/")[2] for line in lines if " build " in line]


def program(path: Path, script: str) -> Path:
    """Write a shell script that stands for a released tool."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def prints(text: str) -> str:
    """Return a script that prints a text."""
    return f"cat <<'END'\n{text}\nEND"
