"""Properties of all components: types, outputs, and parents that match the state of older versions."""

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
    """Run a stack with each kind of component."""
    config = dev_config(
        region="cn-hangzhou",
        cluster={"create": {"zones": ZONES}},
        prometheus={"managedBy": "instance", "auth": {"type": "token", "token": HEADER}},
    )
    config["ackgpu:gpuNodePool"]["warmGpus"] = 1
    return run_program(config, Recorder(connections=CONNECTIONS, **more), encrypted=["ackgpu:prometheus"])


def components_of(recorder: Recorder) -> list[Registration]:
    return [registration for registration in recorder.registrations if registration.type.startswith("ackgpu:")]


def outputs_of(recorder: Recorder) -> dict[str, RegisteredOutputs]:
    """Return the registered outputs by URN."""
    return {registered.urn: registered for registered in recorder.registered_outputs}


@pytest.mark.parametrize("preview", [True, False])
def test_each_component_registers_its_outputs_once(preview: bool) -> None:
    recorder = everything(preview=preview)
    registered = components_of(recorder)
    assert {component.type.rpartition(":")[2] for component in registered} == component_classes()
    urns = sorted(outputs.urn for outputs in recorder.registered_outputs if "ackgpu:index:" in outputs.urn)
    assert urns == sorted(component.urn for component in registered)


@pytest.mark.parametrize(
    "settings",
    [
        {"prometheus": {"managedBy": "existing"}},
        {"prometheus": {"managedBy": "addon"}},
        {"cluster": {"create": EXISTING}},
    ],
    ids=str,
)
def test_components_register_their_outputs_on_every_path(settings: dict[str, Any]) -> None:
    recorder = run_program(dev_config(**settings), Recorder(vswitches=VSWITCHES, vpcs=VPCS, connections=CONNECTIONS))
    assert {component.urn for component in components_of(recorder)} <= set(outputs_of(recorder))


@pytest.mark.case("F5")
def test_outputs_of_components_are_public() -> None:
    recorder = everything()
    shown = repr([registered for registered in recorder.registered_outputs if "ackgpu:index:" in registered.urn])
    assert "clusterId" in shown
    for secret in (KUBECONFIG, PROMETHEUS_URL, HEADER):
        assert secret not in shown
    assert "<secret>" not in shown, "secrets must not be registered at all"


def test_children_of_the_platform_have_aliases_for_older_versions() -> None:
    registered = components_of(everything())
    [platform] = [component for component in registered if component.type == "ackgpu:index:Platform"]
    children = {
        component.type.rpartition(":")[2]: component.aliases
        for component in registered
        if component.parent == platform.urn
    }
    assert children == dict.fromkeys(CHILDREN_OF_THE_PLATFORM, ("root",))
