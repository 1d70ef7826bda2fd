"""Compare `autoscaling.hpa.controller` with the Kubernetes controller, in simulated time."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from autoscaling.hpa.controller import Decision
from tests.engine.hpa_situations import Generator, Situation, specification

SITUATIONS = 12_000
SEED = 20260731


def test_decisions_match_the_kubernetes_controller_in_generated_situations(tools: Path) -> None:
    generator = Generator(SEED)
    situations = [generator.for_the_controller() for _ in range(SITUATIONS)]
    result = subprocess.run(
        [tools / "hpa-oracle"],
        input="\n".join(json.dumps(_oracle_input(situation)) for situation in situations),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    observed = [[_observed(sync) for sync in json.loads(line)] for line in result.stdout.splitlines()]
    differing = []
    for situation, real in zip(situations, observed, strict=True):
        ours = [_expected(*decision) for decision in situation.decisions([sync["seconds"] for sync in real])]
        if ours != [{key: sync[key] for key in sync if key != "seconds"} for sync in real]:
            differing.append(f"{situation}\nours: {ours}\nreal: {real}")
    syncs = sum(map(len, observed))
    print(f"\n{len(situations)} situations with {syncs} syncs were compared, and {len(differing)} differed")
    assert not differing, differing[0]


def _oracle_input(situation: Situation) -> dict[str, Any]:
    metrics = [f"metric-{number}" for number, _ in enumerate(situation.autoscaler.targets)]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "situation"}
    return {
        "sync_seconds": situation.sync_seconds,
        "replicas": situation.replicas,
        "spec": specification(situation.autoscaler, target, metrics),
        "syncs": [
            {
                "replicas": sync.replicas,
                "pods": [vars(pod) for pod in sync.pods],
                "samples": sync.samples,
            }
            for sync in situation.syncs
        ],
    }


def _observed(sync: dict[str, Any]) -> dict[str, Any]:
    conditions = sync["conditions"]
    limit = conditions.get("ScalingLimited", "DesiredWithinRange")
    return {
        "seconds": sync["seconds"],
        "current": sync["current"],
        "replicas": sync["desired"],
        "usages": tuple(sync["usages"]),
        "scaling_active": conditions.get("ScalingActive", "ValidMetricFound") == "ValidMetricFound",
        # On a change, its reason replaces the stabilization reason.
        "stabilized": None
        if sync["current"] != sync["desired"]
        else conditions["AbleToScale"] in ("ScaleUpStabilized", "ScaleDownStabilized"),
        "limited_by": None if limit == "DesiredWithinRange" else limit,
    }


def _expected(current: int, decision: Decision) -> dict[str, Any]:
    return {
        "current": current,
        **vars(decision),
        "stabilized": decision.stabilized if decision.replicas == current else None,
    }
