"""The projects that are compared: copies of this checkout, and the flat program."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from autoscaling.metrics.adapter_rules import RuleSet
from rehearsal.checkout_copy import copy_checkout
from rehearsal.layout import CHECKOUT, STACK

_FLAT = Path(__file__).with_name("flat")
_CHART = Path("rehearsal", "chart")
_STACK_FILE = f"Pulumi.{STACK}.yaml"
_REPLICAS = 10
"""Most pods of a service, as in the rehearsed stack and in the flat program."""


class Projects:
    """Makes the projects in a folder, which is emptied first.

    `proven` is the program with its defaults; `ours` does not wait for metrics at the end of `up`, which the flat
    program does not do either. Both have the settings of the rehearsed stack until `set_services`.
    """

    def __init__(self, folder: Path) -> None:
        self.ours, self.proven, self.flat = folder / "ours", folder / "proven", folder / "flat"
        shutil.rmtree(folder, ignore_errors=True)
        copy_checkout(self.ours)
        copy_checkout(self.proven)
        shutil.copytree(_FLAT, self.flat, ignore=shutil.ignore_patterns("__pycache__"))
        # At the same path from the project as the program's: the path is an input of the release.
        shutil.copytree(CHECKOUT / _CHART, self.flat / _CHART)

    def set_services(self, count: int) -> None:
        """Give each stack so many services, alike but for their names."""
        proven = with_services(yaml.safe_load((CHECKOUT / _STACK_FILE).read_text()), count)
        ours = {**proven, "config": {**proven["config"], "ackgpu:waitForMetrics": "0s"}}
        for folder, content in ((self.ours, ours), (self.proven, proven), (self.flat, _flat_stack_file(proven))):
            (folder / _STACK_FILE).write_text(yaml.safe_dump(content, sort_keys=False))


def with_services(stack_file: dict[str, Any], count: int) -> dict[str, Any]:
    """A stack file with its first service so many times, and a pool that is large enough."""
    config = stack_file["config"]
    sample, pool = config["ackgpu:services"][0], config["ackgpu:gpuNodePool"]
    services = []
    for index in range(count):
        name = f"service-{index}"
        autoscaler = {**sample["autoscaler"], "name": f"{name}-hpa", "maxReplicas": _REPLICAS}
        services.append({**sample, "name": name, "autoscaler": autoscaler})
    limits = {**pool["autoscaling"], "max": _REPLICAS * count}
    changed = {"ackgpu:services": services, "ackgpu:gpuNodePool": {**pool, "autoscaling": limits}}
    return {**stack_file, "config": {**config, **changed}}


def _flat_stack_file(stack_file: dict[str, Any]) -> dict[str, Any]:
    config = stack_file["config"]
    return {
        **stack_file,
        "config": {
            "pulumi:disable-default-providers": config["pulumi:disable-default-providers"],
            "ackgpu:region": config["ackgpu:region"],
            "ackgpu:clusterId": config["ackgpu:cluster"]["id"],
            "ackgpu:services": len(config["ackgpu:services"]),
            "ackgpu:rules": RuleSet().rules(),
        },
    }
