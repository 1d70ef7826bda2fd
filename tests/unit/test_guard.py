"""Checks before a platform is destroyed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from unittest import mock

import pytest
from pulumi import automation

from commands import destroy_guard as guard
from commands.command_line import CommandError, run
from commands.pulumi_cli import PulumiError
from live.cluster_client import UnreachableError
from live.other_owners import platform_users

SM_UTIL = "DCGM_CUSTOM_PROCESS_SM_UTIL"
OUTPUTS = {"clusterId": "c1", "metrics": [SM_UTIL], "platform": {"region": "cn-hangzhou"}}


def hpa(name: str, stack: str | None, metric: str = SM_UTIL) -> dict[str, Any]:
    annotations = {"ackgpu/stack": stack} if stack else {}
    return {
        "metadata": {"name": f"{name}-hpa", "namespace": "models", "annotations": annotations},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": metric}}}],
        },
    }


def cpu_hpa(name: str) -> dict[str, Any]:
    hpa_on_cpu = hpa(name, None)
    hpa_on_cpu["spec"]["metrics"] = [{"type": "Resource", "resource": {"name": "cpu"}}]
    return hpa_on_cpu


def hpa_of_old_api(name: str) -> dict[str, Any]:
    old_hpa = hpa(name, None)
    old_hpa["spec"]["metrics"] = [{"type": "Pods", "pods": {"metricName": SM_UTIL}}]
    return old_hpa


def test_hpas_of_other_stacks_or_with_its_metrics_use_a_platform() -> None:
    found = [
        hpa("own", "ackgpu/platform"),
        hpa("theirs", "ackgpu/team"),
        hpa("on-another-metric", "ackgpu/team", "requests"),
        hpa("by-hand", None),
        hpa("of-another-adapter", None, "requests"),
        cpu_hpa("on-cpu"),
        {"metadata": {"name": "bare", "namespace": "models"}, "spec": {"scaleTargetRef": {}}},
        hpa_of_old_api("on-the-old-api"),
    ]
    assert list(platform_users([SM_UTIL], found, "ackgpu/platform")) == [
        "Deployment models/theirs (HPA models/theirs-hpa of stack ackgpu/team)",
        "Deployment models/on-another-metric (HPA models/on-another-metric-hpa of stack ackgpu/team)",
        "Deployment models/by-hand (HPA models/by-hand-hpa, not created by a stack)",
        "Deployment models/on-the-old-api (HPA models/on-the-old-api-hpa, not created by a stack)",
    ]


def guarded(
    monkeypatch: pytest.MonkeyPatch, found: Sequence[Any] | Exception, outputs: dict[str, Any] | None = None
) -> None:
    def autoscalers(_: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(guard, "_autoscalers", autoscalers)
    guard.require_no_users("organization/ackgpu/platform", OUTPUTS if outputs is None else outputs)


def test_refuses_a_platform_in_use_and_names_each_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError) as refused:
        guarded(monkeypatch, [hpa("a", "ackgpu/team-a"), hpa("b", "ackgpu/team-b"), hpa("own", "ackgpu/platform")])
    heading, *users = str(refused.value).splitlines()
    assert heading == "Nothing was destroyed: this platform is in use. First destroy or move these:"
    assert [user.split()[1] for user in users] == ["models/a", "models/b"]


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("refuses the credential (401): get a new kubeconfig"),
        PulumiError("the account has no such cluster."),
    ],
)
def test_refuses_when_users_of_the_platform_cannot_be_checked(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with pytest.raises(CommandError, match=f"could not check .*{error.args[0][:20]}"):
        guarded(monkeypatch, error)


@pytest.mark.parametrize("outputs", [{}, {"clusterId": "c1", "metrics": []}, {"platform": {"region": "cn-hangzhou"}}])
def test_does_not_check_a_stack_without_its_own_platform(
    monkeypatch: pytest.MonkeyPatch, outputs: dict[str, Any]
) -> None:
    guarded(monkeypatch, UnreachableError("was asked"), outputs)


def test_allows_a_platform_without_other_users(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded(monkeypatch, [hpa("own", "ackgpu/platform"), cpu_hpa("other")])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (automation.StackNotFoundError(automation.CommandResult("", "", 1)), "Stack gone does not exist"),
        (CommandError("in use"), "in use"),
    ],
)
def test_a_refusal_prints_a_message_and_returns_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, message: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("commands.pulumi_cli.shutil.which", lambda _: "/bin/pulumi")
    monkeypatch.setattr("commands.destroy_guard.automation.LocalWorkspace", lambda **_: mock.Mock(stack_outputs=refuse))
    assert run(["destroy", "--stack", "gone"]) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed


def test_reports_a_missing_pulumi(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("commands.pulumi_cli.shutil.which", lambda _: None)
    assert run(["destroy", "--stack", "dev"]) == 1
    assert capsys.readouterr().err.startswith("pulumi is not on PATH")


@pytest.mark.parametrize(("protect", "refused"), [(True, True), (False, False), (None, False)])
def test_refuses_a_protected_cluster_and_names_the_setting(protect: bool | None, refused: bool) -> None:
    cluster = {
        "type": "alicloud:cs/managedKubernetes:ManagedKubernetes",
        **({} if protect is None else {"protect": protect}),
    }
    state = automation.Deployment(3, {"resources": [{"type": "pulumi:pulumi:Stack"}, cluster]})
    expected = pytest.raises(CommandError, match="deletionProtection to false") if refused else nullcontext()
    with expected:
        guard.require_unprotected(state)


def test_a_stack_without_a_state_is_not_protected() -> None:
    guard.require_unprotected(automation.Deployment(3, None))
