"""The projects to compare, with their settings: two copies of this checkout and the flat program."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from autoscaling.metrics.adapter_rules import RuleSet
from bench.checkout_copy import copy_checkout
from bench.figures import FLAT, OURS, UNREGISTERED
from rehearsal.layout import CHECKOUT, STACK

_CHART = Path("rehearsal", "chart")
_REPLICAS = 10
_WITHOUT_OUTPUTS = "import pulumi\n\npulumi.ComponentResource.register_outputs = lambda *arguments: None\n"


def make_projects(folder: Path) -> dict[str, Path]:
    """Create the projects in a folder, replacing it, and return the folder of each project."""
    shutil.rmtree(folder, ignore_errors=True)
    projects = {side: folder / side for side in (OURS, UNREGISTERED, FLAT)}
    copy_checkout(projects[OURS])
    copy_checkout(projects[UNREGISTERED])
    program = projects[UNREGISTERED] / "__main__.py"
    program.write_text(_WITHOUT_OUTPUTS + program.read_text())
    shutil.copytree(Path(__file__).with_name("flat"), projects[FLAT], ignore=shutil.ignore_patterns("__pycache__"))
    # The release's inputs include the chart path, so it must be the same.
    shutil.copytree(CHECKOUT / _CHART, projects[FLAT] / _CHART)
    return projects


def write_settings(projects: dict[str, Path], services: int) -> None:
    """Write the settings file of each project for a number of services."""
    content = yaml.safe_load((CHECKOUT / f"Pulumi.{STACK}.yaml").read_text())
    config = with_services(content["config"], services)
    for side, folder in projects.items():
        values = flat_config(config) if side == FLAT else config
        (folder / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump({**content, "config": values}, sort_keys=False))


def with_services(config: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the settings with the first service repeated and a large enough pool.

    `up` does not wait for metrics, because the flat program does not.
    """
    sample, pool = config["ackgpu:services"][0], config["ackgpu:gpuNodePool"]
    names = [f"service-{index}" for index in range(count)]
    limits = {"maxReplicas": _REPLICAS}
    return {
        **config,
        "ackgpu:waitForMetrics": "0s",
        "ackgpu:gpuNodePool": {**pool, "autoscaling": {**pool["autoscaling"], "max": _REPLICAS * count}},
        "ackgpu:services": [
            {**sample, "name": name, "autoscaler": {**sample["autoscaler"], **limits, "name": f"{name}-hpa"}}
            for name in names
        ],
    }


def flat_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the flat program for the same stack."""
    return {
        "pulumi:disable-default-providers": config["pulumi:disable-default-providers"],
        "ackgpu:region": config["ackgpu:region"],
        "ackgpu:clusterId": config["ackgpu:cluster"]["id"],
        "ackgpu:services": len(config["ackgpu:services"]),
        "ackgpu:rules": RuleSet().rules(),
    }
