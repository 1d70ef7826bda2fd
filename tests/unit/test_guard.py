"""Before a platform is destroyed: who else uses it."""

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
    one = hpa(name, None)
    one["spec"]["metrics"] = [{"type": "Resource", "resource": {"name": "cpu"}}]
    return one


def older_hpa(name: str) -> dict[str, Any]:
    one = hpa(name, None)
    one["spec"]["metrics"] = [{"type": "Pods", "pods": {"metricName": SM_UTIL}}]
    return one


def test_those_of_other_stacks_and_those_that_read_its_metrics_use_it() -> None:
    found = [
        hpa("own", "ackgpu/platform"),
        hpa("theirs", "ackgpu/team"),
        hpa("on-another-metric", "ackgpu/team", "requests"),
        hpa("by-hand", None),
        hpa("of-another-adapter", None, "requests"),
        cpu_hpa("on-cpu"),
        {"metadata": {"name": "bare", "namespace": "models"}, "spec": {"scaleTargetRef": {}}},
        older_hpa("as-the-older-api-has-it"),
    ]
    assert list(platform_users([SM_UTIL], found, "ackgpu/platform")) == [
        "Deployment models/theirs (HPA models/theirs-hpa of stack ackgpu/team)",
        "Deployment models/on-another-metric (HPA models/on-another-metric-hpa of stack ackgpu/team)",
        "Deployment models/by-hand (HPA models/by-hand-hpa, not made by a stack)",
        "Deployment models/as-the-older-api-has-it (HPA models/as-the-older-api-has-it-hpa, not made by a stack)",
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


def test_a_platform_in_use_is_refused_with_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_stack_without_a_platform_of_its_own_is_not_asked_for_users(
    monkeypatch: pytest.MonkeyPatch, outputs: dict[str, Any]
) -> None:
    guarded(monkeypatch, UnreachableError("was asked"), outputs)


def test_a_platform_that_nobody_else_uses_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded(monkeypatch, [hpa("own", "ackgpu/platform"), cpu_hpa("other")])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (automation.StackNotFoundError(automation.CommandResult("", "", 1)), "Stack gone does not exist"),
        (CommandError("in use"), "in use"),
    ],
)
def test_a_refusal_is_a_sentence_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, told: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("commands.pulumi_cli.shutil.which", lambda _: "/bin/pulumi")
    monkeypatch.setattr("commands.destroy_guard.automation.LocalWorkspace", lambda **_: mock.Mock(stack_outputs=refuse))
    assert run(["destroy", "--stack", "gone"]) == 1
    said = capsys.readouterr().err
    assert told in said
    assert "Traceback" not in said


def test_without_an_engine_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("commands.pulumi_cli.shutil.which", lambda _: None)
    assert run(["destroy", "--stack", "dev"]) == 1
    assert capsys.readouterr().err.startswith("pulumi is not on PATH")


@pytest.mark.parametrize(("protect", "refused"), [(True, True), (False, False), (None, False)])
def test_a_protected_cluster_is_told_with_the_setting_that_protects_it(protect: bool | None, refused: bool) -> None:
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
