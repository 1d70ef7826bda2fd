"""Services on another stack's platform: their resources, what they may use, and checks at preview."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from autoscaling.settings import SettingsError, parse, parse_config
from autoscaling.settings.platform_stack import PLATFORM_KEYS, exported_settings
from live.other_owners import SCALERS
from live.preflight import Snapshot
from tests.unit.program import Recorder, run_access, run_program, stack_config
from tests.unit.test_settings import GOOD

SM_UTIL, ENC_UTIL = "DCGM_CUSTOM_PROCESS_SM_UTIL", "DCGM_FI_DEV_ENC_UTIL"
PLATFORM = "organization/ackgpu/platform"
CLUSTER = "c0123456789abcdef0123456789abcdef"


def platform_config(**changes: Any) -> dict[str, Any]:
    settings = {
        "region": "cn-hangzhou",
        "cluster": {"id": CLUSTER},
        "gpuNodePool": {"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], "autoscaling": {"min": 1, "max": 4}},
        "services": [],
        **changes,
    }
    return {f"ackgpu:{key}": value for key, value in settings.items()}


def service(**changes: Any) -> dict[str, Any]:
    return {"name": "bert", "image": "registry.example/bert:1", "autoscaler": {"maxReplicas": 4}, **changes}


def scaled_on(name: str, target: float = 20, **more: Any) -> dict[str, Any]:
    return service(autoscaler={"metrics": [{"name": name, "target": target, **more}], "maxReplicas": 4})


def of_the_platform(**changes: Any) -> dict[str, Any]:
    return run_program(platform_config(**changes), Recorder()).outputs


def team(*services: dict[str, Any], outputs: dict[str, Any] | None = None, **more: Any) -> Recorder:
    recorder = Recorder(platform_outputs=of_the_platform() if outputs is None else outputs, **more)
    return run_program({"ackgpu:platform": PLATFORM, "ackgpu:services": list(services or [service()])}, recorder)


def refused(*services: dict[str, Any], outputs: dict[str, Any] | None = None, **more: Any) -> list[str]:
    with pytest.raises(pulumi.RunError) as raised:
        team(*services, outputs=outputs, preview=True, **more)
    return str(raised.value).splitlines()


def test_a_platform_creates_no_service_and_exports_what_services_need() -> None:
    recorder = run_program(platform_config(), Recorder())
    assert {
        resource.type for resource in recorder.registrations if resource.type.startswith(("alicloud:", "kubernetes:"))
    } == {
        "alicloud:cs/nodePool:NodePool",
        "alicloud:arms/prometheus:Prometheus",
        "kubernetes:helm.sh/v3:Release",
    }
    assert recorder.outputs["clusterId"] == CLUSTER
    assert recorder.outputs["services"] == []
    assert recorder.outputs["platform"]["gpuNodePool"] == platform_config()["ackgpu:gpuNodePool"]
    assert f"pods/{SM_UTIL}" in recorder.outputs["metricResources"]


def test_a_platform_exports_no_credential() -> None:
    prometheus = {"auth": {"type": "token", "token": "planted-token"}}
    values = {**GOOD, "prometheus": prometheus, "metricsAdapter": {"values": {"planted": "planted-value"}}}
    exported = exported_settings(parse(values))
    assert "prometheus" not in exported
    assert "planted" not in str(exported)
    assert set(exported) <= set(PLATFORM_KEYS)


def test_a_setting_that_an_earlier_version_exported_is_ignored() -> None:
    outputs = of_the_platform()
    outputs["platform"] = {**outputs["platform"], "prometheus": {"scrapeInterval": "30s"}}
    assert team(outputs=outputs).outputs["services"]


def test_a_team_creates_only_its_services() -> None:
    recorder = team()
    made = {
        resource.type for resource in recorder.registrations if resource.type.startswith(("alicloud:", "kubernetes:"))
    }
    assert not {type_ for type_ in made if type_.startswith("alicloud:") or "helm" in type_}
    assert "kubernetes:apps/v1:Deployment" in made
    assert "kubernetes:autoscaling/v2:HorizontalPodAutoscaler" in made
    assert recorder.outputs["clusterId"] == CLUSTER
    assert [service["name"] for service in recorder.outputs["services"]] == ["bert"]
    assert recorder.outputs["metrics"] == [SM_UTIL]
    assert recorder.outputs["metricResources"] == [f"{kind}/{SM_UTIL}" for kind in ("namespaces", "nodes", "pods")]
    assert "platform" not in recorder.outputs


def test_a_team_requests_its_own_credential() -> None:
    recorder = team()
    [asked] = [call for call in recorder.calls if "getClusterCredential" in call.token]
    assert asked.args["clusterId"] == CLUSTER
    assert recorder.resource("pulumi:providers:kubernetes").inputs["kubeconfig"] == "<secret>"
    assert recorder.resource("pulumi:providers:alicloud").inputs["region"] == "cn-hangzhou"


def test_the_pods_of_a_team_tolerate_the_platforms_taints() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    pool = {**platform_config()["ackgpu:gpuNodePool"], "taints": [taint]}
    recorder = team(outputs=of_the_platform(gpuNodePool=pool))
    pod = recorder.resource("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{**taint, "operator": "Equal"}]


def test_only_metrics_that_the_platform_exposes_can_be_used() -> None:
    heading, fault = refused(scaled_on(ENC_UTIL))
    assert heading == f"the services do not fit the platform {PLATFORM}:"
    assert fault.startswith(
        f"services[0].autoscaler.metrics[0] reads {ENC_UTIL}, which the platform {PLATFORM} does not expose"
    )
    assert SM_UTIL in fault
    with_it = of_the_platform(metricsAdapter={"expose": [{"name": ENC_UTIL}]})
    assert f"pods/{ENC_UTIL}" in with_it["metricResources"]
    assert team(scaled_on(ENC_UTIL), outputs=with_it).outputs["services"][0]["metrics"][0]["name"] == ENC_UTIL


def test_another_aggregation_is_another_metric() -> None:
    _, fault = refused(scaled_on(SM_UTIL, aggregation="max"))
    assert "does not expose" in fault
    with_it = of_the_platform(metricsAdapter={"expose": [{"name": SM_UTIL, "aggregation": "max"}]})
    assert team(scaled_on(SM_UTIL, aggregation="max"), outputs=with_it).outputs["services"]


@pytest.mark.parametrize(
    ("given", "platform", "expected"),
    [
        (service(gpus=2), {}, "services[0].gpus is 2, but a node of the pool has only 1"),
        (service(autoscaler={"maxReplicas": 5}), {}, "services can request 5 GPUs"),
        (scaled_on("NO_METRIC"), {}, "services[0].autoscaler.metrics[0].name is 'NO_METRIC'"),
        (
            scaled_on("DCGM_FI_DEV_GPU_UTIL"),
            {"metricsAdapter": {"rules": "seed"}},
            "services[0].autoscaler.metrics[0].name is 'DCGM_FI_DEV_GPU_UTIL', but with metricsAdapter.rules set to "
            "seed",
        ),
    ],
)
def test_services_on_a_platform_pass_the_same_checks_as_in_a_single_stack(
    given: dict[str, Any], platform: dict[str, Any], expected: str
) -> None:
    _, *faults = refused(given, outputs=of_the_platform(**platform))
    assert [fault for fault in faults if fault.startswith(expected)]


def test_refuses_a_stack_that_is_not_a_platform_before_creating_resources() -> None:
    recorder = Recorder(platform_outputs={"clusterId": CLUSTER, "metricResources": []}, preview=True)
    with pytest.raises(
        pulumi.RunError, match=f"`platform` is set to '{PLATFORM}', but that stack does not export platform"
    ):
        run_program({"ackgpu:platform": PLATFORM, "ackgpu:services": [service()]}, recorder)
    assert not [
        resource for resource in recorder.registrations if resource.type.startswith(("alicloud:", "kubernetes:"))
    ]
    assert not recorder.calls


def test_refuses_a_platform_with_v2beta1() -> None:
    old = platform_config(cluster={"id": CLUSTER, "autoscalingApi": "v2beta1"})
    outputs = run_program(old, Recorder(cluster_version="1.22.3-aliyun.1")).outputs
    assert "has cluster.autoscalingApi set to v2beta1" in "\n".join(refused(outputs=outputs))


def test_refuses_a_target_that_another_teams_hpa_scales() -> None:
    rival = {
        "metadata": {"name": "theirs", "namespace": "default", "annotations": {"ackgpu/stack": "ackgpu/other"}},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "bert"}},
    }
    snapshot = Snapshot(scalers={SCALERS[0]: [rival]})
    with pytest.raises(pulumi.RunError, match="HorizontalPodAutoscaler default/theirs of stack ackgpu/other scales"):
        team(snapshot=snapshot)


TEAM = {"ackgpu:platform": PLATFORM, "ackgpu:services": [service()]}


@pytest.mark.parametrize(
    ("config", "more"), [(platform_config(), {"ackgpu:index:Platform"}), (TEAM, set())], ids=["own", "shared"]
)
def test_a_refresh_registers_only_access_to_the_cluster_and_keeps_the_outputs(
    config: dict[str, Any], more: set[str]
) -> None:
    exported = {"clusterId": CLUSTER, "metrics": [SM_UTIL], "platform": {"region": "cn-hangzhou"}}
    recorder = run_access(config, Recorder(platform_outputs=of_the_platform(), last_outputs=exported))
    assert {resource.type for resource in recorder.registrations} == {
        "pulumi:pulumi:Stack",
        "pulumi:providers:alicloud",
        "pulumi:providers:kubernetes",
        "ackgpu:index:AckCluster",
        *more,
    }
    assert recorder.outputs == exported


@pytest.mark.parametrize(("parent", "above"), [("", "Stack"), ("ackgpu:index:Platform$", "Platform")])
def test_a_refresh_registers_the_cluster_under_its_parent_in_the_state(parent: str, above: str) -> None:
    urn = f"urn:pulumi:unit::ackgpu::{parent}ackgpu:index:AckCluster::cluster"
    recorder = run_access(platform_config(), Recorder(last_urns=[urn]))
    assert f":{above}::" in recorder.resource("ackgpu:index:AckCluster").parent


def test_a_refresh_reports_a_missing_platform() -> None:
    with pytest.raises(pulumi.RunError, match="that stack does not export clusterId, platform"):
        run_access(TEAM, Recorder())


@pytest.mark.parametrize("key", PLATFORM_KEYS)
def test_refuses_settings_that_the_platform_sets(key: str) -> None:
    values = {"platform": PLATFORM, "services": [service()], key: {"id": "c1"} if key != "region" else "cn-hangzhou"}
    with pytest.raises(SettingsError, match=f"^{key} can't be set here: it comes from the stack that `platform` names"):
        parse(values)


def test_reports_errors_in_a_teams_settings_without_the_platform() -> None:
    with pytest.raises(SettingsError) as raised:
        parse({"platform": PLATFORM, "services": [service(port=0), service()]})
    assert [fault.split(" ")[0] for fault in raised.value.faults] == ["services[0].port"]
    with pytest.raises(SettingsError) as raised:
        parse({"platform": PLATFORM, "services": [service(), service(autoscaler={"minReplicas": 11})]})
    assert [fault.split(" ")[0] for fault in raised.value.faults] == [
        "services:",
        "services:",
        "services[1].autoscaler.minReplicas",
    ]


def test_empty_values_from_the_engine_are_not_settings() -> None:
    config = {"ackgpu:platform": PLATFORM, "ackgpu:services": '[{"name": "a", "image": "b"}]'}
    empty = {"ackgpu:region": "", "ackgpu:cluster": "{}", "ackgpu:gpuNodePool": "{}", "ackgpu:budget": "{}"}
    assert parse_config({**config, **empty}).platform == PLATFORM
    with pytest.raises(SettingsError) as raised:
        parse_config({**empty, "ackgpu:platform": "", "ackgpu:services": ""})
    assert raised.value.faults == [
        f"{key} is missing: set it." for key in ("region", "cluster", "gpuNodePool", "services")
    ]


def test_the_dev_stack_has_its_own_platform() -> None:
    assert "ackgpu:platform" not in stack_config("dev")
