"""`./ackgpu tools`: the commands of the page about the first run, with a fake `go` and a fake kubectl."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from commands.command_line import run
from rehearsal.toolchain.estimate import CPU_SECONDS, build_estimate
from rehearsal.toolchain.groups import read_groups
from rehearsal.toolchain.released import RELEASES
from tests.readme import CHECKOUT, section
from tests.unit.fake_tools import install_go, prints, program


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, two cores, and nothing on PATH but `go` and kubectl."""
    install_go(tmp_path, monkeypatch)
    program(tmp_path / "path" / "kubectl", prints("Client Version: v1.36.3"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    monkeypatch.setenv("ACKGPU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    for group in read_groups():
        for file in group.beside:
            copy = tmp_path / "module" / file.path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text("{}")


def test_the_commands_of_the_page_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in section("docs/rehearsal.md", "The first run"):
        _, *arguments = shlex.split(command.line)
        assert run(arguments) == 0
        output = capsys.readouterr().out
        assert command.matches(output), output
    assert len(list((tmp_path / "build" / "tools").iterdir())) == 2


def test_the_page_names_the_accepted_versions() -> None:
    page = (CHECKOUT / "docs" / "rehearsal.md").read_text()
    for name, release in RELEASES.items():
        versions = release.accepted.replace(".x", "")
        assert f"`{name}` {versions}" in page or name.startswith("kube-"), name
    assert f"`kube-scheduler` {RELEASES['kube-scheduler'].accepted.removesuffix('.x')}" in page


def test_the_estimate_has_a_cost_for_each_group() -> None:
    assert list(CPU_SECONDS) == [group.source.name for group in read_groups()]


def test_the_estimate_is_the_share_of_what_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rehearsal.toolchain.estimate.CPU_SECONDS", {"one": 100, "two": 300})
    monkeypatch.setattr("rehearsal.toolchain.estimate.GIGABYTES", 20)
    assert build_estimate(["two"], 2) == "about 3 min on 2 idle cores, and up to 15 GB of disk meanwhile"
