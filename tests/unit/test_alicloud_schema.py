"""The simulated provider accepts and refuses what the real one was seen to accept and refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal.alicloud.schema import UNKNOWN, check

CASES = json.loads((Path(__file__).parent.parent / "data" / "alicloud_check_cases.json").read_text())["cases"]


def with_unknowns(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_unknowns(item) for key, item in value.items()}
    return UNKNOWN if value == "<unknown>" else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['type'].split(':')[-1]}: {case['case']}")
def test_the_verdict_is_the_real_providers(case: dict[str, Any]) -> None:
    failures = check(case["type"], with_unknowns(case["inputs"]))
    assert bool(failures) == bool(case["failures"]), failures


def test_a_refusal_names_the_property_and_the_allowed_values() -> None:
    [failure] = check("alicloud:arms/prometheus:Prometheus", {"clusterType": "nope", "grafanaInstanceId": "free"})
    assert failure.property == "clusterType"
    assert failure.reason == ("expected cluster_type to be one of [remote-write ecs global-view aliyun-cs], got nope")
