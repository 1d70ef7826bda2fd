"""What all components have in common: a type, parents that a state of an older version is found by, and outputs."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pulumi
import pytest

import components
from tests.unit.program import (
    KUBECONFIG,
    PROMETHEUS_URL,
    Recorder,
    RegisteredOutputs,
    Registration,
    dev_config,
    run_program,
)
from tests.unit.test_create_cluster import CONNECTIONS, EXISTING, VPCS, VSWITCHES, ZONES

HEADER = "token-of-an-instance"
CHILDREN_OF_THE_PLATFORM = {"AckCluster", "ArmsPrometheus", "GpuNodePool", "MetricsAdapter", "WarmCapacity"}


def component_classes() -> set[str]:
    for module in pkgutil.iter_modules(components.__path__):
        importlib.import_module(f"components.{module.name}")
    return {
        found.__name__
        for found in pulumi.ComponentResource.__subclasses__()
        if found.__module__.startswith("components.")
    }


def everything(**more: Any) -> Recorder:
    """A stack with each kind of component."""
    config = dev_config(
        region="cn-hangzhou",
        cluster={"create": {"zones": ZONES}},
        prometheus={"managedBy": "instance", "auth": {"type": "token", "token": HEADER}},
    )
    config["ackgpu:gpuNodePool"]["warmGpus"] = 1
    return run_program(config, Recorder(connections=CONNECTIONS, **more), encrypted=["ackgpu:prometheus"])


def of_components(recorder: Recorder) -> list[Registration]:
    return [found for found in recorder.registrations if found.type.startswith("ackgpu:")]


def outputs_of(recorder: Recorder) -> dict[str, RegisteredOutputs]:
    """By URN."""
    return {registered.urn: registered for registered in recorder.registered_outputs}


@pytest.mark.parametrize("preview", [True, False])
def test_each_component_registers_its_outputs_once(preview: bool) -> None:
    recorder = everything(preview=preview)
    made = of_components(recorder)
    assert {found.type.rpartition(":")[2] for found in made} == component_classes()
    urns = sorted(registered.urn for registered in recorder.registered_outputs if "ackgpu:index:" in registered.urn)
    assert urns == sorted(found.urn for found in made)


@pytest.mark.parametrize(
    "settings",
    [
        {"prometheus": {"managedBy": "existing"}},
        {"prometheus": {"managedBy": "addon"}},
        {"cluster": {"create": EXISTING}},
    ],
    ids=str,
)
def test_every_path_of_a_component_ends_in_its_outputs(settings: dict[str, Any]) -> None:
    recorder = run_program(dev_config(**settings), Recorder(vswitches=VSWITCHES, vpcs=VPCS, connections=CONNECTIONS))
    assert {found.urn for found in of_components(recorder)} <= set(outputs_of(recorder))


@pytest.mark.case("F5")
def test_outputs_of_components_are_public() -> None:
    recorder = everything()
    shown = repr([registered for registered in recorder.registered_outputs if "ackgpu:index:" in registered.urn])
    assert "clusterId" in shown
    for secret in (KUBECONFIG, PROMETHEUS_URL, HEADER):
        assert secret not in shown
    assert "<secret>" not in shown, "what is secret is not registered at all"


def test_children_of_the_platform_are_found_where_older_versions_had_them() -> None:
    made = of_components(everything())
    [platform] = [found for found in made if found.type == "ackgpu:index:Platform"]
    children = {found.type.rpartition(":")[2]: found.aliases for found in made if found.parent == platform.urn}
    assert children == dict.fromkeys(CHILDREN_OF_THE_PLATFORM, ("root",))
