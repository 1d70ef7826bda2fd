"""Workflows and dependency updates: they run elsewhere, so these tests check their files."""

from __future__ import annotations

import json
import os
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.toolchain.groups import read_groups

CHECKOUT = Path(__file__).parents[2]
WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
RENOVATE = json.loads((CHECKOUT / ".github" / "renovate.json").read_text())
LOCKS = sorted(CHECKOUT.glob("requirements*.txt"))


def workflow(path: Path) -> dict[Any, Any]:
    content = yaml.safe_load(path.read_text())
    assert isinstance(content, dict)
    return content


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(path)["jobs"].values() for step in job["steps"]]


def test_the_workflows_are_checks_preview_and_release() -> None:
    assert [path.name for path in WORKFLOWS] == ["checks.yml", "preview.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_pins_every_action_by_commit_and_names_its_version(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_only_the_permissions_of_their_jobs(path: Path) -> None:
    assert workflow(path)["permissions"] == {}
    allowed: list[dict[str, str]] = (
        [{"contents": "write"}] if path.name == "release.yml" else [{}, {"contents": "read"}]
    )
    for job in workflow(path)["jobs"].values():
        assert job.get("permissions", {}) in allowed
    for step in steps(path):
        if "checkout@" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_ci_runs_all_required_make_targets_and_no_others() -> None:
    run = [step["run"] for step in steps(CHECKOUT / ".github" / "workflows" / "checks.yml") if "run" in step]
    assert [command for command in run if command.startswith("make ")] == ["make lint", "make tools", "make test"]
    gate = re.findall(r"^make .*", (CHECKOUT / ".ci" / "run").read_text(), re.MULTILINE)
    assert set(gate) < set(run)


def test_a_release_publishes_tools_built_from_source() -> None:
    [job] = workflow(CHECKOUT / ".github" / "workflows" / "release.yml")["jobs"].values()
    build, pack, upload = [step for step in job["steps"] if "run" in step]
    assert job["env"] == {"ACKGPU_TOOLS": "none"}
    assert (build["run"], pack["run"]) == ("make tools", "./ackgpu tools --pack build/tools")
    assert upload["run"] == 'gh release upload "$TAG" build/tools/* --clobber'
    assert [step for step in job["steps"] if "github.token" in json.dumps(step)] == [upload]


def test_ci_tests_the_pinned_tools() -> None:
    assert workflow(CHECKOUT / ".github" / "workflows" / "checks.yml")["jobs"]["test"]["env"]["ACKGPU_TOOLS"] == "none"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_make_target_in_ci_exists(path: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    called = [name for step in steps(path) for name in re.findall(r"\bmake ([\w-]+)", step.get("run", ""))]
    assert called
    assert set(called) <= set(targets)


def test_only_the_preview_step_gets_secrets() -> None:
    with_secrets = [step for path in WORKFLOWS for step in steps(path) if "${{ secrets." in json.dumps(step)]
    assert [step["run"] for step in with_secrets] == ["pulumi preview --stack dev --diff --non-interactive"]
    for path in WORKFLOWS:
        # PyYAML reads the key `on` as true.
        assert "pull_request_target" not in workflow(path)[True]


def test_previews_with_the_engine_version_of_the_rehearsal(tmp_path: Path) -> None:
    [step] = [step for step in steps(CHECKOUT / ".github" / "workflows" / "preview.yml") if step.get("id") == "engine"]
    output = tmp_path / "output"
    environment = {**os.environ, "GITHUB_OUTPUT": str(output)}
    subprocess.run(["bash", "-c", step["run"]], cwd=CHECKOUT, env=environment, check=True)
    [engine] = [group for group in read_groups() if "pulumi" in group.binaries]
    assert output.read_text() == f"version={engine.version.removeprefix('v')}\n"


def updates(path: str) -> list[dict[str, Any]]:
    """Return the Renovate rules for a file."""
    rules = RENOVATE["packageRules"]
    return [rule for rule in rules if any(fnmatch(path, glob) for glob in rule.get("matchFileNames", []))]


@pytest.mark.parametrize("module", sorted((CHECKOUT / "tools").glob("*/go.mod")), ids=lambda module: module.parent.name)
def test_groups_or_disables_updates_of_each_tool(module: Path) -> None:
    [rule] = updates(str(module.relative_to(CHECKOUT)))
    assert rule.get("groupName") or rule["enabled"] is False


def test_updates_cover_the_python_packages_and_the_actions() -> None:
    assert set(RENOVATE["enabledManagers"]) == {"pip-compile", "gomod", "github-actions"}
    assert len(LOCKS) == 2
    [pattern] = RENOVATE["pip-compile"]["managerFilePatterns"]
    for lock in LOCKS:
        assert re.search(pattern.strip("/"), lock.name), lock.name
        # Renovate groups updates by the requirements file, which it finds in the head of the lock.
        assert updates(lock.with_suffix(".in").name), lock.name


def pins(path: Path) -> dict[str, set[str]]:
    """Return the pinned versions of each package; a lock can pin a version for each Python version."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", path.read_text(), re.MULTILINE):
        found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), set()).add(version)
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_pins_each_direct_requirement_at_the_same_version(lock: Path) -> None:
    source = lock.with_suffix(".in")
    direct, locked = pins(source), pins(lock)
    for included in re.findall(r"^-r (.*)", source.read_text(), re.MULTILINE):
        direct |= pins(CHECKOUT / included)
    assert len(direct) > 5
    assert {name: locked.get(name) for name in direct} == direct


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_locks_have_hashes_and_no_registry(lock: Path) -> None:
    head, *packages = re.split(r"^(?=\w)", lock.read_text(), flags=re.MULTILINE)
    assert all("--hash=sha256:" in package for package in packages)
    assert "://" not in lock.read_text()
    # Renovate runs the command in the head of the lock.
    [_, command] = re.findall(r"^# +(.*)", head, re.MULTILINE)
    assert command.endswith(f"--output-file={lock.name} {lock.stem}.in")
    [recipe] = re.findall(r"^LOCK = \$\(PYTHON\) -m (.*)", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    assert command.startswith(recipe.replace(" --quiet", ""))


def test_update_rules_name_only_existing_files() -> None:
    named = [file for rule in RENOVATE["packageRules"] for file in rule.get("matchFileNames", [])]
    assert [file for file in named if not (CHECKOUT / file).is_file()] == []
