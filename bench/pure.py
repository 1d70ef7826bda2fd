"""`python -m bench.pure rules|settings`: seconds of a pure part of the program for many services, without imports."""

from __future__ import annotations

import subprocess
import sys
import time

import yaml

from autoscaling.metrics.adapter_rules import RuleSet
from autoscaling.settings import parse
from bench.projects import with_services
from program.outputs import check_commands, metric_resources
from rehearsal.layout import CHECKOUT, STACK

SERVICES = 200


def rules_seconds() -> float:
    """The adapter's rules, and the outputs that are made from them and the services."""
    keys = ("name", "namespace", "service", "hpa", "predictUrl")
    names = [f"service-{index}" for index in range(SERVICES)]
    services = [{**dict.fromkeys(keys, name), "metrics": [{"name": name, "target": "20"}]} for name in names]
    start = time.perf_counter()
    rules = RuleSet()
    rules.rules()
    metric_resources(rules, [])
    check_commands(services)
    return time.perf_counter() - start


def settings_seconds() -> float:
    """The stack's values, checked."""
    content = with_services(yaml.safe_load((CHECKOUT / f"Pulumi.{STACK}.yaml").read_text()), SERVICES)
    values = {
        key.removeprefix("ackgpu:"): value for key, value in content["config"].items() if key.startswith("ackgpu:")
    }
    start = time.perf_counter()
    parse(values)
    return time.perf_counter() - start


def in_fresh_process(part: str) -> float:
    """Seconds of `rules` or `settings`."""
    command = [sys.executable, "-m", "bench.pure", part]
    return float(subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    print({"rules": rules_seconds, "settings": settings_seconds}[sys.argv[1]]())
