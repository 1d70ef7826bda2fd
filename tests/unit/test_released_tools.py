"""Released tools: from `ACKGPU_TOOLS`, from PATH, and the Kubernetes provider as a plugin."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.toolchain import plugin, released
from rehearsal.toolchain.build import tool_sources
from rehearsal.toolchain.groups import Group, read_groups
from rehearsal.toolchain.released import RELEASES, NotUsableError
from tests.unit.fake_tools import HANGS, builds, ensure, fake_group, install_go, prints, program

ANSWERS = {
    "pulumi": "v3.273.0",
    "kubectl": "Client Version: v1.36.1\nKustomize Version: v5.8.1",
    "etcd": "etcd Version: 3.6.4\nGit SHA: 5400cdc",
    "kube-apiserver": "Kubernetes v1.36.3",
    "kube-controller-manager": "Kubernetes v1.36.0",
    "kube-scheduler": "Kubernetes v1.36.3",
    "kwok": "kwok version v0.7.0 go1.24.3 (linux/amd64)",
    "prometheus": "prometheus, version 3.16.2 (branch: HEAD, revision: 0e5a)\n  go version: go1.26.1",
}
"""What a released version of each tool prints."""
HOST = "pulumi-language-python"
PROVIDER = "pulumi-resource-kubernetes"
VERSION = metadata.version("pulumi-kubernetes")
USAGE = prints("Usage of it:")


@pytest.fixture(autouse=True)
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi-home"))
    calls = install_go(tmp_path, monkeypatch)
    # The released tools of this machine are not part of a test.
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}{os.pathsep}/usr/bin")
    return calls


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH, before every other."""
    folder = tmp_path / "released"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture
def groups(tmp_path: Path) -> list[Group]:
    return [
        fake_group(tmp_path, HOST, HOST, beside=[f"{HOST}-exec"]),
        fake_group(tmp_path, "kubernetes", "etcd", "kube-apiserver"),
        fake_group(tmp_path, "pulumi", "pulumi"),
        fake_group(
            tmp_path, "kubernetes-provider", PROVIDER, beside=["schema.json"], version_of="python:pulumi-kubernetes"
        ),
    ]


def release_pulumi(folder: Path, script: str = "") -> None:
    """Write `pulumi` with its language host, as a release has them."""
    program(folder / "pulumi", f"if [ $1 = version ]; then echo v3.273.0; exit; fi\n{script}")
    program(folder / HOST, USAGE)
    program(folder / f"{HOST}-exec", "")


@pytest.mark.parametrize("name", RELEASES)
def test_each_tool_reports_its_version(name: str) -> None:
    assert RELEASES[name].version_in(ANSWERS[name]) in ANSWERS[name]


def test_the_pinned_version_of_each_tool_is_accepted() -> None:
    pinned = {group.source.name: group.version for group in read_groups() if group.version}
    assert RELEASES["pulumi"].version_in(pinned["pulumi"])
    assert RELEASES["kubectl"].version_in(f"Client Version: {pinned['kubernetes']}")
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert RELEASES[name].version_in(f"Kubernetes {pinned['kubernetes']}")
    assert set(RELEASES) < {name for group in read_groups() for name in group.binaries}


@pytest.mark.parametrize(
    ("name", "answer", "reason"),
    [
        ("pulumi", "v3.271.0", "its version is 3.271.0; accepted: 3.272.x to 3.274.x"),
        ("pulumi", "v3.275.0", "its version is 3.275.0; accepted: 3.272.x to 3.274.x"),
        ("pulumi", "v3.274.0-alpha.1", "its version is 3.274.0-alpha.1; accepted: 3.272.x to 3.274.x"),
        (
            "kubectl",
            "Client Version: v1.36.4-dispatcher",
            "its version is 1.36.4-dispatcher; accepted: 1.35.x to 1.37.x",
        ),
        ("etcd", "etcd Version: 3.5.9", "its version is 3.5.9; accepted: 3.6.x"),
        ("kube-apiserver", "Kubernetes v1.35.0", "its version is 1.35.0; accepted: 1.36.x"),
        ("kwok", "kwok version v0.8.0", "its version is 0.8.0; accepted: 0.7.x"),
        ("prometheus", "prometheus, version  (branch: , revision: unknown)", "it did not report a version"),
    ],
)
def test_another_version_is_not_accepted(name: str, answer: str, reason: str) -> None:
    with pytest.raises(NotUsableError) as refused:
        RELEASES[name].version_in(answer)
    assert str(refused.value) == reason


def test_accepted_tools_on_path_are_taken_and_named_and_the_rest_is_built(
    groups: list[Group], folder: Path, calls: Path, tmp_path: Path
) -> None:
    release_pulumi(folder)
    program(folder / "etcd", prints(ANSWERS["etcd"]))
    tools, output = ensure(groups, tmp_path)
    assert builds(calls) == ["kube-apiserver", PROVIDER]
    assert f"tools: etcd 3.6.4 from {folder}\n" in output
    assert f"tools: pulumi 3.273.0 from {folder}\ntools: {HOST} 3.273.0 from {folder}\n" in output
    assert tool_sources(tools, groups) == {
        HOST: f"3.273.0 from {folder}",
        "etcd": f"3.6.4 from {folder}",
        "kube-apiserver": "built from tools/kubernetes",
        "pulumi": f"3.273.0 from {folder}",
        PROVIDER: "built from tools/kubernetes-provider",
    }
    (folder / "pulumi").unlink()
    assert (tools / "pulumi").read_text().startswith("#!/bin/sh"), "removing the original changes nothing"
    assert (tools / f"{HOST}-exec").is_file()


def test_ready_tools_are_not_asked_for_their_version_again(groups: list[Group], folder: Path, tmp_path: Path) -> None:
    program(folder / "etcd", f"echo asked >> {tmp_path}/asked\n{prints(ANSWERS['etcd'])}")
    first = ensure(groups, tmp_path)[0]
    assert ensure(groups, tmp_path) == (first, "tools: ready\n")
    assert (tmp_path / "asked").read_text() == "asked\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (prints("etcd Version: 3.5.9"), "its version is 3.5.9; accepted: 3.6.x"),
        (HANGS, "it did not answer within 0.5 s"),
        ("exit 3", "`etcd --version` failed with exit code 3"),
    ],
)
def test_a_tool_that_is_not_usable_is_named_with_the_reason_and_built(
    groups: list[Group],
    folder: Path,
    calls: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    reason: str,
) -> None:
    monkeypatch.setattr(released, "_VERSION_SECONDS", 0.5)
    program(folder / "etcd", script)
    _, output = ensure(groups, tmp_path)
    assert f"tools: {folder}/etcd is not used: {reason}\n" in output
    assert "etcd" in builds(calls)


def test_a_tool_for_another_platform_is_named_and_built(
    groups: list[Group], folder: Path, calls: Path, tmp_path: Path
) -> None:
    program(folder / "etcd", "").write_bytes(b"\x7fELF nothing that runs here")
    _, output = ensure(groups, tmp_path)
    assert f"tools: {folder}/etcd is not used: it does not run (Exec format error)\n" in output
    assert "etcd" in builds(calls)


def test_the_next_folder_of_path_is_tried_after_an_unusable_tool(
    groups: list[Group], folder: Path, tmp_path: Path
) -> None:
    program(folder / "etcd", "exit 1")
    program(tmp_path / "path" / "etcd", prints(ANSWERS["etcd"]))
    assert f"tools: etcd 3.6.4 from {tmp_path / 'path'}\n" in ensure(groups, tmp_path)[1]


def test_the_chosen_folder_comes_before_path(
    groups: list[Group], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(folder / "etcd", prints(ANSWERS["etcd"]))
    program(tmp_path / "chosen" / "etcd", prints("etcd Version: 3.6.9"))
    monkeypatch.setenv("ACKGPU_TOOLS", str(tmp_path / "chosen"))
    assert f"tools: etcd 3.6.9 from {tmp_path / 'chosen'}\n" in ensure(groups, tmp_path)[1]


def test_a_chosen_folder_that_does_not_exist_is_an_error(
    groups: list[Group], calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKGPU_TOOLS", str(tmp_path / "absent"))
    with pytest.raises(RehearsalError) as refused:
        ensure(groups, tmp_path)
    assert str(refused.value) == (
        f"ACKGPU_TOOLS: {tmp_path}/absent is not a folder. Name a folder of executables, or unset the variable."
    )
    assert builds(calls) == []


def test_none_builds_everything_beside_tools_that_were_taken(
    groups: list[Group], folder: Path, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_pulumi(folder)
    taken, _ = ensure(groups, tmp_path)
    monkeypatch.setenv("ACKGPU_TOOLS", "none")
    built, _ = ensure(groups, tmp_path)
    assert builds(calls) == ["etcd", "kube-apiserver", PROVIDER, HOST, "pulumi"]
    assert set(tool_sources(built, groups).values()) == {f"built from tools/{group.source.name}" for group in groups}
    assert tool_sources(taken, groups)["pulumi"] == f"3.273.0 from {folder}", "a cloud may still use this folder"


def test_pulumi_without_its_language_host_is_taken_alone(
    groups: list[Group], folder: Path, calls: Path, tmp_path: Path
) -> None:
    program(folder / "pulumi", "echo v3.273.0")
    _, output = ensure(groups, tmp_path)
    assert f"tools: {folder}/{HOST} is not used: it does not exist, or it is not readable\n" in output
    assert f"tools: pulumi 3.273.0 from {folder}\n" in output
    assert builds(calls)[0] == HOST


def put_provider(pulumi_home: Path, version: str) -> Path:
    return program(pulumi_home / "plugins" / f"resource-kubernetes-v{version}" / PROVIDER, USAGE)


def test_the_users_provider_of_the_right_version_is_taken(groups: list[Group], calls: Path, tmp_path: Path) -> None:
    file = put_provider(tmp_path / "pulumi-home", VERSION)
    tools, output = ensure(groups, tmp_path)
    assert f"tools: {PROVIDER} {VERSION} from {file.parent}\n" in output
    assert PROVIDER not in builds(calls)
    assert not (tools / "schema.json").exists(), "a released provider contains its schema"


def test_other_providers_of_the_user_are_not_taken(groups: list[Group], calls: Path, tmp_path: Path) -> None:
    put_provider(tmp_path / "pulumi-home", "4.24.0")
    partial = put_provider(tmp_path / "pulumi-home", VERSION).parent
    partial.with_name(f"{partial.name}.partial").touch()
    ensure(groups, tmp_path)
    assert PROVIDER in builds(calls)


def test_a_released_pulumi_installs_the_provider(
    groups: list[Group], folder: Path, calls: Path, tmp_path: Path
) -> None:
    release_pulumi(
        folder,
        f'echo "$*" > {tmp_path}/arguments\nplugin=$PULUMI_HOME/plugins/resource-kubernetes-v{VERSION}\n'
        f"mkdir -p $plugin; cp {folder}/{HOST} $plugin/{PROVIDER}",
    )
    _, output = ensure(groups, tmp_path)
    assert f"tools: {PROVIDER} {VERSION} by `pulumi plugin install`\n" in output
    assert PROVIDER not in builds(calls)
    assert (tmp_path / "arguments").read_text() == (
        f"plugin install resource kubernetes {VERSION} --exact --non-interactive\n"
    )
    assert not (tmp_path / "pulumi-home").exists(), "the user's folder does not change"


def test_a_pulumi_that_was_built_installs_the_provider(
    groups: list[Group], calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "path" / "go"
    script = (
        f"#!/bin/sh\\nplugin=$PULUMI_HOME/plugins/resource-kubernetes-v{VERSION}\\nmkdir -p $plugin\\n"
        f"cp {program(tmp_path / 'usage', USAGE)} $plugin/{PROVIDER}\\n"
    )
    go.write_text(go.read_text().replace('echo built > "$out"', f'printf \'{script}\' > "$out"; chmod 755 "$out"'))
    _, output = ensure(groups, tmp_path)
    assert builds(calls) == [HOST, "etcd", "kube-apiserver", "pulumi"]
    assert f"tools: {PROVIDER} {VERSION} by `pulumi plugin install`\ntools: ready (4 built in" in output


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 255", "`pulumi plugin install` did not work here; the provider is built instead"),
        (HANGS, "`pulumi plugin install` did not finish within 0.5 s; the provider is built instead"),
    ],
)
def test_the_provider_is_built_if_it_cannot_be_installed(
    groups: list[Group],
    folder: Path,
    calls: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    reason: str,
) -> None:
    monkeypatch.setattr(plugin, "_INSTALL_SECONDS", 0.5)
    release_pulumi(folder, script)
    _, output = ensure(groups, tmp_path)
    assert output.count(f"tools: {reason}\n") == 1
    assert PROVIDER in builds(calls)


def test_the_users_plugins_are_found_from_inside_a_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_HOME", "/cloud/pulumi")
    assert plugin.user_pulumi_home() == Path("/cloud/pulumi")
    monkeypatch.setenv("ACKGPU_USER_PULUMI_HOME", "/home/me/.pulumi")
    assert plugin.user_pulumi_home() == Path("/home/me/.pulumi")
