"""Two teams' services on one platform, each in a stack of its own."""

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
from tests.engine.secret_search import Secret
from tests.engine.shown import Shown

PLATFORM = "organization/ackgpu/platform"
SM_UTIL = "DCGM_CUSTOM_PROCESS_SM_UTIL"


class Stacks:
    """Stacks of other names on the cloud of the rehearsal."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal
        self._made: dict[str, automation.Stack] = {}

    def write(self, name: str, **settings: Any) -> automation.Stack:
        """A stack with these settings; at the first use it is made."""
        path = self._rehearsal.layout.checkout / f"Pulumi.{name}.yaml"
        content = yaml.safe_load(path.read_text()) if path.exists() else {}
        config = {"pulumi:disable-default-providers": ["*"]}
        content["config"] = config | {f"ackgpu:{key}": value for key, value in settings.items()}
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        if name not in self._made:
            layout = self._rehearsal.layout
            self._made[name] = automation.create_or_select_stack(
                name, work_dir=str(layout.checkout), opts=engine_options(layout)
            )
        return self._made[name]

    def remove(self) -> None:
        """Teams before their platform."""
        for name, stack in reversed(self._made.items()):
            stack.destroy(color="never")
            stack.workspace.remove_stack(name)


@pytest.fixture
def stacks(rehearsal: Rehearsal) -> Iterator[Stacks]:
    several = Stacks(rehearsal)
    yield several
    several.remove()


def team(name: str, metric: str = SM_UTIL) -> dict[str, Any]:
    autoscaler = {"metrics": [{"name": metric, "target": 20}], "maxReplicas": 2}
    service = {"name": name, "image": "example.com/model:1", "port": 8080, "autoscaler": autoscaler}
    return {"platform": PLATFORM, "services": [service]}


def bought_by(rehearsal: Rehearsal) -> dict[str, Any]:
    """What the vendor's resources are, but for the size that the autoscaler gives a pool."""
    return {identity: one.inputs for identity, one in rehearsal.store.read().resources.items()}


def kinds_of(changes: Any) -> set[OpType]:
    return set(changes or {}) - {OpType.SAME, OpType.READ}


def checks(stack: automation.Stack, rehearsal: Rehearsal) -> list[str]:
    outputs = StackOutputs.of(stack.name, {name: one.value for name, one in stack.outputs().items()})
    return [f"{step.name}: {step.observed}" for step in check_stack(outputs, rehearsal.client) if not step.ok]


def test_teams_touch_nothing_of_the_platform_which_stays_as_long_as_they_use_it(
    rehearsal: Rehearsal, stacks: Stacks, shown: Shown
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
    bought = bought_by(rehearsal)
    release = client.CoreV1Api(rehearsal.api).list_namespaced_secret("kube-system", label_selector="owner=helm").items
    assert checks(platform, rehearsal) == []

    first, second = stacks.write("team-a", **team("a")), stacks.write("team-b", **team("b"))
    made: set[str] = set()
    for one in (first, second):
        result = one.up(color="never", on_event=lambda event: made.update(_made(event)))
        assert kinds_of(result.summary.resource_changes) == {OpType.CREATE}
        assert checks(one, rehearsal) == []
    assert not [kind for kind in made if kind.startswith("alicloud:") or "helm" in kind]
    assert "kubernetes:autoscaling/v2:HorizontalPodAutoscaler" in made

    stacks.write("team-a", **team("a", "DCGM_FI_DEV_ENC_UTIL"))
    with pytest.raises(automation.CommandError) as refused:
        first.preview(color="never")
    assert f"asks for DCGM_FI_DEV_ENC_UTIL, which the platform {PLATFORM} does not expose for pods" in str(
        refused.value
    )
    stacks.write("team-a", **team("a"))

    # A refresh runs another program than the stack's: what the stack exports stays.
    exported = {name: one.value for name, one in platform.outputs().items()}
    assert made_to("refresh", "platform", rehearsal, shown)[0] == 0
    assert {name: one.value for name, one in platform.outputs().items()} == exported

    code, said = destroyed("platform", rehearsal, shown)
    assert code != 0
    assert "Nothing was destroyed: this platform is in use" in said
    assert "Deployment default/a (HPA default/a-hpa of stack ackgpu/team-a)" in said
    assert "Deployment default/b (HPA default/b-hpa of stack ackgpu/team-b)" in said
    for one in (platform, first, second):
        assert kinds_of(one.preview(color="never").change_summary) == set()

    code, said = destroyed("team-a", rehearsal, shown)
    assert code == 0, said
    assert bought_by(rehearsal) == bought
    now = client.CoreV1Api(rehearsal.api).list_namespaced_secret("kube-system", label_selector="owner=helm").items
    assert [one.metadata.name for one in now] == [one.metadata.name for one in release]
    assert checks(second, rehearsal) == []

    assert destroyed("team-b", rehearsal, shown)[0] == 0
    code, said = destroyed("platform", rehearsal, shown)
    assert code == 0, said
    assert rehearsal.store.read().resources == {}
    assert cluster_leftovers(rehearsal.layout) == []
    assert shown.in_the_open(rehearsal.layout, [planted]) == []


def _made(event: automation.EngineEvent) -> list[str]:
    metadata = event.resource_pre_event.metadata if event.resource_pre_event else None
    return [metadata.type] if metadata and metadata.op == OpType.CREATE else []


def destroyed(stack: str, rehearsal: Rehearsal, shown: Shown) -> tuple[int, str]:
    return made_to("destroy", stack, rehearsal, shown)


def made_to(command: str, stack: str, rehearsal: Rehearsal, shown: Shown) -> tuple[int, str]:
    """`./ackgpu <command> --stack ... --yes`, with its exit code and what it printed."""
    layout = rehearsal.layout
    variables = engine_options(layout).env_vars
    with Command(["./ackgpu", command, "--stack", stack, "--yes"], cwd=layout.checkout, env=variables) as run:
        code = run.end(120)
        shown.text += run.output
        return code, run.output
