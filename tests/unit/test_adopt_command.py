"""`./ackgpu adopt`: messages, files and calls to the engine."""

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
    """A checkout with a stack `dev` and a fake account."""
    monkeypatch.setattr(adoption, "CHECKOUT", tmp_path)
    monkeypatch.setattr(command_line, "CHECKOUT", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (CHECKOUT / "Pulumi.rehearsal.yaml").read_text().replace("bert-intent-detection", "bert")
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    monkeypatch.setattr(adoption, "owned_resources", lambda stack: set())
    monkeypatch.setattr(adoption, "read_account", lambda settings: account(kubeconfig=KUBECONFIG))
    return tmp_path


KUBECONFIG = yaml.safe_dump(
    {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "hush"}}],
    }
)


def test_reports_an_unknown_stack_with_the_known_stacks(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["adopt", "--stack", "prod"]) == 1
    assert capsys.readouterr().err == "Pulumi.prod.yaml: no such file: choose a stack with a file (dev).\n"


def test_reports_an_unreachable_cluster_and_deletes_files_of_an_earlier_run(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = checkout / "build" / "adopt" / "dev" / "resources.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    assert command_line.run(["adopt", "--stack", "dev"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("The cluster at http://127.0.0.1:9 can't be reached")
    assert "hush" not in error
    assert not stale.parent.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ackgpu:cluster": {"create": {"zones": ["cn-hangzhou-h"]}}}, "cluster.create creates a new cluster"),
        ({"ackgpu:platform": "organization/ackgpu/platform"}, "`platform` is 'organization/ackgpu/platform'"),
    ],
)
def test_refuses_a_stack_without_an_existing_cluster(
    checkout: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    content = yaml.safe_load((checkout / "Pulumi.dev.yaml").read_text())
    if "ackgpu:platform" in changes:
        content["config"] = {"ackgpu:services": content["config"]["ackgpu:services"]}
    content["config"] |= changes
    (checkout / "Pulumi.dev.yaml").write_text(yaml.safe_dump(content))
    assert command_line.run(["adopt", "--stack", "dev"]) == 1
    assert message in capsys.readouterr().err


def test_a_problem_stops_before_files_are_written(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = manifests()
    assert broken.deployment
    broken.deployment["spec"]["selector"]["matchLabels"] = {"run": "bert"}
    monkeypatch.setattr(adoption, "read_live_objects", lambda client, settings: LiveObjects([broken], release()))
    before = (checkout / "Pulumi.dev.yaml").read_text()
    assert command_line.run(["adopt", "--stack", "dev", "--write"]) == 1
    printed = capsys.readouterr()
    assert "found    node pool gpu (np1)" in printed.out
    assert "These resources can't be adopted as they are:\nDeployment default/bert selects" in printed.err
    assert not (checkout / "build").exists()
    assert (checkout / "Pulumi.dev.yaml").read_text() == before


def test_reports_how_to_fix_a_rule_that_the_program_cannot_keep(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = {**RULE, "seriesQuery": '{__name__=~"^queue_.*"}'}
    monkeypatch.setattr(
        adoption,
        "read_live_objects",
        lambda client, settings: LiveObjects([manifests()], release([*GUIDE_RULES, loose])),
    )
    assert command_line.run(["adopt", "--stack", "dev"]) == 1
    error = capsys.readouterr().err
    assert "metricsAdapter.extraRules[0].seriesQuery" in error
    assert "Change or remove each refused rule in the release" in error
    assert "kubectl" not in error
    # The message gives line numbers in this file.
    assert [path.name for path in (checkout / "build" / "adopt" / "dev").iterdir()] == ["Pulumi.dev.yaml"]


def test_reports_where_to_change_live_values_that_contradict_each_other(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = account(kubeconfig=KUBECONFIG, pools=[pool(limits=(1, 6))])
    monkeypatch.setattr(adoption, "read_account", lambda settings: small)
    monkeypatch.setattr(adoption, "read_live_objects", lambda client, settings: live_objects())
    assert command_line.run(["adopt", "--stack", "dev", "--write"]) == 1
    printed = capsys.readouterr()
    draft = checkout / "build" / "adopt" / "dev" / "Pulumi.dev.yaml"
    assert "+    autoscaling: {min: 1, max: 6}" in printed.out
    _, heading, fault, fix = printed.err.splitlines()
    assert heading == "These settings are not valid:"
    line = re.fullmatch(r"build/adopt/dev/Pulumi\.dev\.yaml:(\d+): services can request 10 GPUs .*", fault)
    assert line
    assert "ackgpu:services:" in draft.read_text().splitlines()[int(line[1]) - 1]
    assert fix == (
        "Lines with a + show live values, which replace those in Pulumi.dev.yaml. Change the live values that are not "
        "valid: the node pool in the ACK console; the Deployment, Service and HPA with kubectl, such as `kubectl edit "
        "hpa -n default gpu-hpa`. Then run `./ackgpu adopt` again."
    )
    assert "max: 10" in (checkout / "Pulumi.dev.yaml").read_text()


def test_writes_files_and_settings_and_prints_the_next_commands(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "read_live_objects", lambda client, settings: live_objects())
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


def test_the_next_commands_begin_with_cd_in_another_folder(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "read_account", lambda settings: account(kubeconfig=KUBECONFIG, pools=[]))
    monkeypatch.setattr(
        adoption, "read_live_objects", lambda client, settings: LiveObjects([ServiceObjects(None, None, [])], None)
    )
    monkeypatch.chdir("/")
    assert command_line.run(["adopt", "--stack", "dev"]) == 0
    [first, *_] = capsys.readouterr().out.partition("Next:\n")[2].splitlines()
    assert first == f"  cd {checkout}"


def test_proposes_settings_without_an_import_when_only_prometheus_exists(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "read_account", lambda settings: account(kubeconfig=KUBECONFIG, pools=[]))
    monkeypatch.setattr(
        adoption, "read_live_objects", lambda client, settings: LiveObjects([ServiceObjects(None, None, [])], None)
    )
    assert command_line.run(["adopt", "--stack", "dev"]) == 0
    printed = capsys.readouterr().out
    assert "+    managedBy: existing" in printed
    assert printed.partition("Next:\n")[2].splitlines()[0] == "  cp build/adopt/dev/Pulumi.dev.yaml Pulumi.dev.yaml"
    assert "pulumi import" not in printed


def test_does_nothing_when_the_stack_has_all_resources(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        adoption, "owned_resources", lambda stack: {(NODE_POOL, "c7e1b2f0a4d94c6e8f3a5b9d0c2e4f681:np1")}
    )
    monkeypatch.setattr(adoption, "read_account", lambda settings: account(kubeconfig=KUBECONFIG, prometheus=None))
    monkeypatch.setattr(
        adoption, "read_live_objects", lambda client, settings: LiveObjects([ServiceObjects(None, None, [])], None)
    )
    assert command_line.run(["adopt", "--stack", "dev"]) == 0
    assert capsys.readouterr().out.endswith("\nNothing to adopt: the stack already has every live resource.\n")
    assert not (checkout / "build" / "adopt" / "dev").exists()


@pytest.mark.parametrize("op", ["delete", "replace", "create-replacement"])
def test_refuses_a_plan_that_deletes_or_replaces_resources_of_the_stack(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    monkeypatch.setattr(adoption, "read_live_objects", lambda client, settings: live_objects())
    lost = {f"{STACK}::t::old-nodes": Step(op, "t", {})}
    monkeypatch.setattr(adoption, "preview", lambda stack, settings: Plan({**plan().steps, **lost}, [], {}))
    assert command_line.run(["adopt", "--stack", "dev"]) == 1
    assert "would delete or replace its own resources: old-nodes" in capsys.readouterr().err
    assert list((checkout / "build" / "adopt" / "dev").glob("*.json")) == []


# The engine


def fake_pulumi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "pulumi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_reads_owned_resources_from_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"deployment": {"resources": [{"type": "t", "id": "i"}, {"type": "component"}]}}
    fake_pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(state)}'")
    assert owned_resources("dev") == {("t", "i")}
    fake_pulumi(tmp_path, monkeypatch, """echo '{"deployment": {"manifest": {}}}'""")
    assert owned_resources("dev") == set()


def test_reports_a_stack_without_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pulumi(tmp_path, monkeypatch, "echo \"error: no stack named 'dev' found\" >&2; exit 255")
    with pytest.raises(
        AdoptionError, match=r"no stack named 'dev' found\. For a new stack, first run `pulumi stack init"
    ):
        owned_resources("dev")


def test_reports_a_missing_pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PulumiError, match="pulumi is not on PATH"):
        owned_resources("dev")


def test_a_preview_includes_deletions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"steps": [{"op": "delete", "urn": f"{STACK}::t::old", "oldState": {"type": "t"}}]}
    fake_pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(answer)}'")
    assert preview("dev", tmp_path / "Pulumi.dev.yaml").steps == {f"{STACK}::t::old": Step("delete", "t", {})}


def test_reports_the_errors_of_a_failed_preview(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"steps": [], "diagnostics": [{"severity": "error", "message": "the cluster is gone "}]}
    fake_pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(answer)}'; exit 1")
    with pytest.raises(AdoptionError, match=r"failed:\nthe cluster is gone$"):
        preview("dev", tmp_path / "Pulumi.dev.yaml")


def test_removes_the_temporary_files_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pulumi(tmp_path, monkeypatch, 'echo hush > "$TMPDIR/kubeconfig1"; echo "$TMPDIR"')
    folder = Path(run_pulumi("preview").stdout.strip())
    assert folder != tmp_path
    assert not folder.exists()
