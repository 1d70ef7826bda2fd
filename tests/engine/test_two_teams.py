"""The services of two teams on a shared platform, each team with its own stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kubernetes import client
from pulumi import automation
from pulumi.automation import OpType

from live.verify import StackOutputs, check_stack
from rehearsal.automation import engine_options
from rehearsal.leftovers import cluster_leftovers
from tests.engine.command import Command
from tests.engine.conftest import Rehearsal
from tests.engine.engine_output import EngineOutput
from tests.engine.secret_search import Secret

PLATFORM = "organization/ackgpu/platform"
SM_UTIL = "DCGM_CUSTOM_PROCESS_SM_UTIL"


class Stacks:
    """Further stacks on the rehearsal cloud."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal
        self._stacks: dict[str, automation.Stack] = {}

    def write(self, name: str, **settings: Any) -> automation.Stack:
        """Write the settings of a stack and return it; create it at the first call."""
        path = self._rehearsal.layout.checkout / f"Pulumi.{name}.yaml"
        content = yaml.safe_load(path.read_text()) if path.exists() else {}
        config = {"pulumi:disable-default-providers": ["*"]}
        content["config"] = config | {f"ackgpu:{key}": value for key, value in settings.items()}
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        if name not in self._stacks:
            layout = self._rehearsal.layout
            self._stacks[name] = automation.create_or_select_stack(
                name, work_dir=str(layout.checkout), opts=engine_options(layout)
            )
        return self._stacks[name]

    def remove(self) -> None:
        """Destroy and remove the stacks, teams before their platform."""
        for name, stack in reversed(self._stacks.items()):
            stack.destroy(color="never")
            stack.workspace.remove_stack(name)


@pytest.fixture
def stacks(rehearsal: Rehearsal) -> Iterator[Stacks]:
    created = Stacks(rehearsal)
    yield created
    created.remove()


def team(name: str, metric: str = SM_UTIL) -> dict[str, Any]:
    autoscaler = {"metrics": [{"name": metric, "target": 20}], "maxReplicas": 2}
    service = {"name": name, "image": "example.com/model:1", "port": 8080, "autoscaler": autoscaler}
    return {"platform": PLATFORM, "services": [service]}


def vendor_resources(rehearsal: Rehearsal) -> dict[str, Any]:
    """Return the inputs of the vendor's resources by ID. They exclude the pool size, which the autoscaler sets."""
    return {resource_id: resource.inputs for resource_id, resource in rehearsal.store.read().resources.items()}


def changed_operations(changes: Any) -> set[OpType]:
    return set(changes or {}) - {OpType.SAME, OpType.READ}


def failed_steps(stack: automation.Stack, rehearsal: Rehearsal) -> list[str]:
    outputs = StackOutputs.of(stack.name, {name: output.value for name, output in stack.outputs().items()})
    return [f"{step.name}: {step.observed}" for step in check_stack(outputs, rehearsal.client) if not step.ok]


def test_teams_do_not_change_the_platform_and_destroy_keeps_it_while_they_use_it(
    rehearsal: Rehearsal, stacks: Stacks, engine_output: EngineOutput
) -> None:
    own = {key: rehearsal.setting(key) for key in ("region", "cluster", "gpuNodePool", "metricsAdapter")}
    platform = stacks.write("platform", **own, services=[])
    planted = Secret("chart value", (b"a-chart-value-that-is-encrypted",))
    platform.set_config(
        "metricsAdapter.values.AlibabaCloudMetricsAdapter.AccessKeySecret",
        automation.ConfigValue(planted.parts[0].decode(), secret=True),
        path=True,
    )
    platform.up(color="never")
    resources = vendor_resources(rehearsal)
    release = client.CoreV1Api(rehearsal.api).list_namespaced_secret("kube-system", label_selector="owner=helm").items
    assert failed_steps(platform, rehearsal) == []

    first, second = stacks.write("team-a", **team("a")), stacks.write("team-b", **team("b"))
    created: set[str] = set()
    for stack in (first, second):
        result = stack.up(color="never", on_event=lambda event: created.update(_created_types(event)))
        assert changed_operations(result.summary.resource_changes) == {OpType.CREATE}
        assert failed_steps(stack, rehearsal) == []
    assert not [type_ for type_ in created if type_.startswith("alicloud:") or "helm" in type_]
    assert "kubernetes:autoscaling/v2:HorizontalPodAutoscaler" in created

    stacks.write("team-a", **team("a", "DCGM_FI_DEV_ENC_UTIL"))
    with pytest.raises(automation.CommandError) as refused:
        first.preview(color="never")
    assert f"reads DCGM_FI_DEV_ENC_UTIL, which the platform {PLATFORM} does not expose for pods" in str(refused.value)
    stacks.write("team-a", **team("a"))

    # `./ackgpu refresh` runs a different program, which must keep the outputs of the stack.
    exported = {name: output.value for name, output in platform.outputs().items()}
    assert run_command("refresh", "platform", rehearsal, engine_output)[0] == 0
    assert {name: output.value for name, output in platform.outputs().items()} == exported

    code, output = destroy("platform", rehearsal, engine_output)
    assert code != 0
    assert "Nothing was destroyed: this platform is in use" in output
    assert "Deployment default/a (HPA default/a-hpa of stack ackgpu/team-a)" in output
    assert "Deployment default/b (HPA default/b-hpa of stack ackgpu/team-b)" in output
    for stack in (platform, first, second):
        assert changed_operations(stack.preview(color="never").change_summary) == set()

    code, output = destroy("team-a", rehearsal, engine_output)
    assert code == 0, output
    assert vendor_resources(rehearsal) == resources
    current = client.CoreV1Api(rehearsal.api).list_namespaced_secret("kube-system", label_selector="owner=helm").items
    assert [secret.metadata.name for secret in current] == [secret.metadata.name for secret in release]
    assert failed_steps(second, rehearsal) == []

    assert destroy("team-b", rehearsal, engine_output)[0] == 0
    code, output = destroy("platform", rehearsal, engine_output)
    assert code == 0, output
    assert rehearsal.store.read().resources == {}
    assert cluster_leftovers(rehearsal.layout) == []
    assert engine_output.leaks(rehearsal.layout, [planted]) == []


def _created_types(event: automation.EngineEvent) -> list[str]:
    metadata = event.resource_pre_event.metadata if event.resource_pre_event else None
    return [metadata.type] if metadata and metadata.op == OpType.CREATE else []


def destroy(stack: str, rehearsal: Rehearsal, engine_output: EngineOutput) -> tuple[int, str]:
    return run_command("destroy", stack, rehearsal, engine_output)


def run_command(command: str, stack: str, rehearsal: Rehearsal, engine_output: EngineOutput) -> tuple[int, str]:
    """Run `./ackgpu <command> --stack ... --yes`; return its exit code and output."""
    layout = rehearsal.layout
    variables = engine_options(layout).env_vars
    with Command(["./ackgpu", command, "--stack", stack, "--yes"], cwd=layout.checkout, env=variables) as run:
        code = run.end(120)
        engine_output.text += run.output
        return code, run.output
