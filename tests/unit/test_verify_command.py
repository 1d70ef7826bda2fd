"""`./ackgpu verify`: its output and exit code."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from commands.command_line import run
from tests.unit.fake_cluster import HPA, PREDICT, FakeCluster, healthy, running


class Machine:
    """A machine with its own PATH and kubeconfig."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._bin = folder / "bin"
        self._bin.mkdir()
        self.kubeconfig = folder / "kubeconfig"
        monkeypatch.setenv("PATH", f"{self._bin}{os.pathsep}/usr/bin{os.pathsep}/bin")
        monkeypatch.setenv("KUBECONFIG", str(self.kubeconfig))

    def install(self, name: str, script: str) -> None:
        path = self._bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def stack(self, cluster: FakeCluster) -> None:
        """Set up a pulumi that prints the stack's outputs, and a kubeconfig of its cluster."""
        outputs = {**cluster.raw_outputs, "prometheusUrl": "[secret]"}
        expected = "stack output --json --stack dev --non-interactive --color never"
        self.install("pulumi", f'test "$*" = "{expected}" && printf %s {shlex.quote(json.dumps(outputs))}')
        self.kubeconfig.write_text(cluster.kubeconfig)

    def verify(self, *arguments: str) -> int:
        return run(["verify", "--stack", "dev", *arguments])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_uses_the_stacks_endpoint_instead_of_the_kubeconfigs_server(machine: Machine) -> None:
    with running(healthy()) as cluster:
        outputs = {**cluster.raw_outputs, "apiServer": cluster.host}
        machine.stack(cluster)
        machine.install("pulumi", f"printf %s {shlex.quote(json.dumps(outputs))}")
        machine.kubeconfig.write_text(cluster.kubeconfig.replace(cluster.host, "http://127.0.0.1:1"))
        assert machine.verify() == 0


def test_prints_the_expected_and_observed_result_of_each_step(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(healthy()) as cluster:
        machine.stack(cluster)
        assert machine.verify() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:] == [
        "ok      6. HPA default/gpu-hpa",
        "           expected: a target of 20, ScalingActive",
        "           observed: 0/20 at 1 replica(s), ScalingActive",
        "all steps passed",
    ]
    assert "secret" not in "".join(lines)


def test_a_failed_step_gives_exit_code_1(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    with running({**healthy(), HPA: None}) as cluster:
        machine.stack(cluster)
        assert machine.verify() == 1
    out = capsys.readouterr().out
    assert "FAILED  6. HPA default/gpu-hpa" in out
    assert out.endswith("1 step(s) failed\n")


def test_starts_no_load_if_a_check_fails(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    with running({**healthy(), PREDICT: "BookFlight"}) as cluster:
        machine.stack(cluster)
        machine.install("hey", 'touch "$0.ran"')
        assert machine.verify("--load") == 1
    assert "not started: a check failed" in capsys.readouterr().out
    assert not (machine.kubeconfig.parent / "bin" / "hey.ran").exists()


def pulumi_fails(machine: Machine) -> None:
    machine.install(
        "pulumi", "echo \"error: no stack named 'dev' found\" >&2; echo 'warning: old pulumi' >&2; exit 255"
    )


def no_pulumi(machine: Machine) -> None:
    (machine.kubeconfig.parent / "bin" / "pulumi").unlink()


def no_outputs(machine: Machine) -> None:
    machine.install("pulumi", "echo '{}'")


def no_kubeconfig(machine: Machine) -> None:
    machine.kubeconfig.unlink()


def invalid_token(machine: Machine) -> None:
    machine.kubeconfig.write_text(machine.kubeconfig.read_text().replace("token: t", 'token: "c2VjcmV0\\n"'))


def kubeconfig(content: str) -> Any:
    return lambda machine: machine.kubeconfig.write_text(content)


@pytest.mark.parametrize(
    ("break_machine", "arguments", "sentence"),
    [
        (pulumi_fails, [], "Could not read the outputs of stack dev: no stack named 'dev' found."),
        (no_pulumi, [], "pulumi is not on PATH. Install pulumi"),
        (no_outputs, [], "Stack dev has no outputs: run `pulumi up` on that stack first."),
        (no_kubeconfig, [], "The cluster can't be reached: the file in KUBECONFIG, or ~/.kube/config, does not"),
        (kubeconfig(""), [], "The cluster can't be reached: the kubeconfig's current context, server,"),
        (kubeconfig("[]"), [], "The cluster can't be reached: the kubeconfig's current context, server,"),
        (kubeconfig("a: [b"), [], "The cluster can't be reached: the kubeconfig's current context, server,"),
        (lambda machine: None, ["--load"], "--load needs hey, which is not on PATH"),
        (lambda machine: None, [], "can't be reached"),
        (
            invalid_token,
            [],
            "can't be reached: the kubeconfig's token has a line break or another invalid character. Set KUBECONFIG",
        ),
    ],
)
def test_reports_a_missing_requirement_in_a_sentence_with_exit_code_2(
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    break_machine: Any,
    arguments: list[str],
    sentence: str,
) -> None:
    with running(healthy()) as cluster:
        machine.stack(cluster)
    break_machine(machine)
    assert machine.verify(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert sentence in line
    assert "c2VjcmV0" not in line
