"""`./ackgpu adopt`: what it prints, writes and asks of the engine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import command_line
from commands.adopt import adoption
from commands.adopt.import_files import NODE_POOL
from commands.adopt.live_objects import LiveObjects, ServiceObjects
from commands.adopt.plan import Plan, Step, owned_resources, preview
from commands.adopt.proposal import AdoptionError
from commands.pulumi_cli import PulumiError, run_pulumi
from tests.unit.adoption import (
    CHECKOUT,
    GUIDE_RULES,
    RULE,
    STACK,
    account,
    live_objects,
    manifests,
    plan,
    pool,
    release,
    service_live,
)

# The command


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a stack `dev`, whose account and cluster answer what a test says."""
    monkeypatch.setattr(adoption, "CHECKOUT", tmp_path)
    monkeypatch.setattr(command_line, "CHECKOUT", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (CHECKOUT / "Pulumi.rehearsal.yaml").read_text().replace("bert-intent-detection", "bert")
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    monkeypatch.setattr(adoption, "owned_resources", lambda stack: set())
    monkeypatch.setattr(adoption, "read_account", lambda now: account(kubeconfig=KUBECONFIG))
    return tmp_path


KUBECONFIG = yaml.safe_dump(
    {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "hush"}}],
    }
)


def test_an_unknown_stack_is_reported_with_the_known_ones(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["adopt", "--stack", "prod"]) == 1
    assert capsys.readouterr().err == "Pulumi.prod.yaml: no such file; stacks with a file: dev.\n"


def test_a_cluster_that_does_not_answer_is_reported_and_files_of_an_earlier_run_are_gone(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = checkout / "build" / "adopt" / "dev" / "resources.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    assert command_line.run(["adopt", "--stack", "dev"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("The cluster at http://127.0.0.1:9 can't be reached")
    assert "hush" not in told
    assert not stale.parent.exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ackgpu:cluster": {"create": {"zones": ["cn-hangzhou-h"]}}}, "cluster.create creates a new cluster"),
        ({"ackgpu:platform": "organization/ackgpu/platform"}, "platform is 'organization/ackgpu/platform'"),
    ],
)
def test_a_stack_without_a_cluster_that_is_there_has_nothing_to_adopt(
    checkout: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], told: str
) -> None:
    content = yaml.safe_load((checkout / "Pulumi.dev.yaml").read_text())
    if "ackgpu:platform" in changes:
        content["config"] = {"ackgpu:services": content["config"]["ackgpu:services"]}
    content["config"] |= changes
    (checkout / "Pulumi.dev.yaml").write_text(yaml.safe_dump(content))
    assert command_line.run(["adopt", "--stack", "dev"]) == 1
    assert told in capsys.readouterr().err


def test_a_problem_stops_before_anything_is_written(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = manifests()
    assert broken.deployment
    broken.deployment["spec"]["selector"]["matchLabels"] = {"run": "bert"}
    monkeypatch.setattr(adoption, "read_live_objects", lambda client, now: LiveObjects([broken], release()))
    before = (checkout / "Pulumi.dev.yaml").read_text()
    assert command_line.run(["adopt", "--stack", "dev", "--write"]) == 1
    seen = capsys.readouterr()
    assert "found    node pool gpu (np1)" in seen.out
    assert "These resources can't be adopted as they are:\nDeployment default/bert selects" in seen.err
    assert not (checkout / "build").exists()
    assert (checkout / "Pulumi.dev.yaml").read_text() == before


def test_a_rule_that_the_program_can_not_keep_is_reported_with_what_to_do(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = {**RULE, "seriesQuery": '{__name__=~"^queue_.*"}'}
    monkeypatch.setattr(
        adoption, "read_live_objects", lambda client, now: LiveObjects([manifests()], release([*GUIDE_RULES, loose]))
    )
    assert command_line.run(["adopt", "--stack", "dev"]) == 1
    told = capsys.readouterr().err
    assert "metricsAdapter.extraRules[0].seriesQuery" in told
    assert "Change or remove each refused rule in the release" in told
    assert "kubectl" not in told
    # The lines that are told are of a file that can be looked at.
    assert [path.name for path in (checkout / "build" / "adopt" / "dev").iterdir()] == ["Pulumi.dev.yaml"]


def test_live_values_that_do_not_fit_together_are_reported_with_where_to_change_them(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = account(kubeconfig=KUBECONFIG, pools=[pool(limits=(1, 6))])
    monkeypatch.setattr(adoption, "read_account", lambda now: small)
    monkeypatch.setattr(adoption, "read_live_objects", lambda client, now: live_objects())
    assert command_line.run(["adopt", "--stack", "dev", "--write"]) == 1
    seen = capsys.readouterr()
    draft = checkout / "build" / "adopt" / "dev" / "Pulumi.dev.yaml"
    assert "+    autoscaling: {min: 1, max: 6}" in seen.out
    _, told, fault, way_out = seen.err.splitlines()
    assert told == "These settings are not valid:"
    at = re.fullmatch(r"build/adopt/dev/Pulumi\.dev\.yaml:(\d+): services can ask for 10 GPUs .*", fault)
    assert at
    assert "ackgpu:services:" in draft.read_text().splitlines()[int(at[1]) - 1]
    assert way_out == (
        "The lines with a + are live values, which replace the values in Pulumi.dev.yaml. Change the live resources "
        "(the pool in the ACK console; Deployment, Service and HPA with kubectl, such as `kubectl edit hpa -n default "
        "gpu-hpa`), then run `./ackgpu adopt` again."
    )
    assert "max: 10" in (checkout / "Pulumi.dev.yaml").read_text()


def test_files_and_settings_are_written_and_the_next_commands_reported(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "read_live_objects", lambda client, now: live_objects())
    monkeypatch.setattr(adoption, "with_server_defaults", lambda client, inputs: service_live())
    monkeypatch.setattr(adoption, "preview", lambda stack, settings: plan())
    before = (checkout / "Pulumi.dev.yaml").read_text()
    folder = checkout / "build" / "adopt" / "dev"
    assert command_line.run(["adopt", "--stack", "team/ackgpu/dev"]) == 0
    first = capsys.readouterr().out
    assert first.partition("Next:\n")[2].splitlines() == [
        "  pulumi import --stack team/ackgpu/dev --file build/adopt/dev/components.json --generate-code=false",
        "  pulumi import --stack team/ackgpu/dev --file build/adopt/dev/resources.json --generate-code=false",
        "  cp build/adopt/dev/Pulumi.dev.yaml Pulumi.dev.yaml",
        "  pulumi preview --stack team/ackgpu/dev",
        "  pulumi up --stack team/ackgpu/dev",
    ]
    assert "+    managedBy: existing" in first
    assert (checkout / "Pulumi.dev.yaml").read_text() == before
    assert {path.name for path in folder.iterdir()} == {"Pulumi.dev.yaml", "components.json", "resources.json"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.glob("*.json"))
    assert command_line.run(["adopt", "--stack", "dev", "--write"]) == 0
    assert "cp build" not in capsys.readouterr().out
    assert (checkout / "Pulumi.dev.yaml").read_text() == (folder / "Pulumi.dev.yaml").read_text() != before


def test_the_next_commands_begin_with_the_folder_when_started_elsewhere(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "read_account", lambda now: account(kubeconfig=KUBECONFIG, pools=[]))
    monkeypatch.setattr(
        adoption, "read_live_objects", lambda client, now: LiveObjects([ServiceObjects(None, None, [])], None)
    )
    monkeypatch.chdir("/")
    assert command_line.run(["adopt", "--stack", "dev"]) == 0
    [first, *_] = capsys.readouterr().out.partition("Next:\n")[2].splitlines()
    assert first == f"  cd {checkout}"


def test_where_only_prometheus_is_there_the_setting_is_reported_and_nothing_is_imported(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "read_account", lambda now: account(kubeconfig=KUBECONFIG, pools=[]))
    monkeypatch.setattr(
        adoption, "read_live_objects", lambda client, now: LiveObjects([ServiceObjects(None, None, [])], None)
    )
    assert command_line.run(["adopt", "--stack", "dev"]) == 0
    told = capsys.readouterr().out
    assert "+    managedBy: existing" in told
    assert told.partition("Next:\n")[2].splitlines()[0] == "  cp build/adopt/dev/Pulumi.dev.yaml Pulumi.dev.yaml"
    assert "pulumi import" not in told


def test_what_is_in_the_stack_already_leaves_nothing_to_do(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        adoption, "owned_resources", lambda stack: {(NODE_POOL, "c7e1b2f0a4d94c6e8f3a5b9d0c2e4f681:np1")}
    )
    monkeypatch.setattr(adoption, "read_account", lambda now: account(kubeconfig=KUBECONFIG, prometheus=None))
    monkeypatch.setattr(
        adoption, "read_live_objects", lambda client, now: LiveObjects([ServiceObjects(None, None, [])], None)
    )
    assert command_line.run(["adopt", "--stack", "dev"]) == 0
    assert capsys.readouterr().out.endswith("\nThe stack already has all of these resources.\n")
    assert not (checkout / "build" / "adopt" / "dev").exists()


@pytest.mark.parametrize("op", ["delete", "replace", "create-replacement"])
def test_a_plan_that_takes_something_from_the_stack_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    monkeypatch.setattr(adoption, "read_live_objects", lambda client, now: live_objects())
    gone = {f"{STACK}::t::old-nodes": Step(op, "t", {})}
    monkeypatch.setattr(adoption, "preview", lambda stack, settings: Plan({**plan().steps, **gone}, [], {}))
    assert command_line.run(["adopt", "--stack", "dev"]) == 1
    assert "would delete or replace its own resources: old-nodes" in capsys.readouterr().err
    assert list((checkout / "build" / "adopt" / "dev").glob("*.json")) == []


# The engine


def fake_pulumi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "pulumi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_what_the_stack_has_is_read_from_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"deployment": {"resources": [{"type": "t", "id": "i"}, {"type": "component"}]}}
    fake_pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(state)}'")
    assert owned_resources("dev") == {("t", "i")}
    fake_pulumi(tmp_path, monkeypatch, """echo '{"deployment": {"manifest": {}}}'""")
    assert owned_resources("dev") == set()


def test_a_stack_without_a_state_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pulumi(tmp_path, monkeypatch, "echo \"error: no stack named 'dev' found\" >&2; exit 255")
    with pytest.raises(
        AdoptionError, match=r"no stack named 'dev' found\. For a new stack, first run `pulumi stack init"
    ):
        owned_resources("dev")


def test_a_machine_without_pulumi_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PulumiError, match="pulumi is not on PATH"):
        owned_resources("dev")


def test_a_preview_has_what_it_would_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"steps": [{"op": "delete", "urn": f"{STACK}::t::old", "oldState": {"type": "t"}}]}
    fake_pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(answer)}'")
    assert preview("dev", tmp_path / "Pulumi.dev.yaml").steps == {f"{STACK}::t::old": Step("delete", "t", {})}


def test_a_preview_that_fails_is_reported_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"steps": [], "diagnostics": [{"severity": "error", "message": "the cluster is gone "}]}
    fake_pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(answer)}'; exit 1")
    with pytest.raises(AdoptionError, match=r"failed:\nthe cluster is gone$"):
        preview("dev", tmp_path / "Pulumi.dev.yaml")


def test_the_engine_leaves_its_temporary_files_where_they_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pulumi(tmp_path, monkeypatch, 'echo hush > "$TMPDIR/kubeconfig1"; echo "$TMPDIR"')
    folder = Path(run_pulumi("preview").stdout.strip())
    assert folder != tmp_path
    assert not folder.exists()
