"""The simulated provider accepts and refuses the same inputs as the real provider in recorded cases."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rehearsal.alicloud.schema import UNKNOWN, check, normalized, replacement_properties

NODE_POOL = "alicloud:cs/nodePool:NodePool"
PROMETHEUS = "alicloud:arms/prometheus:Prometheus"

CASES = json.loads((Path(__file__).parent.parent / "data" / "alicloud_check_cases.json").read_text())["cases"]
REFUSED = [case for case in CASES if case["failures"]]
OTHER_REASONS = {
    "snake_case prop": "Invalid or unknown key",
    "status bogus": 'Value for unconfigurable attribute. Can\'t configure a value for "status"',
}
"""Cases where the real provider words the reason differently: as an internal error, or longer."""


def name(case: dict[str, Any]) -> str:
    return f"{case['type'].split(':')[-1]}: {case['case']}"


def with_unknowns(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_unknowns(item) for key, item in value.items()}
    return UNKNOWN if value == "<unknown>" else value


def real_reason(failure: str) -> str:
    failure = failure.removeprefix("RPC-ERR ").replace('"remote-write" "ecs" "global-view" "aliyun-cs"', "%s")
    failure = failure % "remote-write ecs global-view aliyun-cs" if "%s" in failure else failure
    return re.sub(r"\.* Examine values at '.*'\.$", "", failure).strip().rstrip(".")


@pytest.mark.parametrize("case", CASES, ids=name)
def test_inputs_are_refused_as_by_the_real_provider(case: dict[str, Any]) -> None:
    failures = check(case["type"], with_unknowns(case["inputs"]))
    assert len(failures) == len(case["failures"]), failures


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_the_reason_matches_the_real_provider(case: dict[str, Any]) -> None:
    reasons = [failure.reason.rstrip(".") for failure in check(case["type"], with_unknowns(case["inputs"]))]
    expected = OTHER_REASONS.get(case["case"])
    assert reasons == ([expected] if expected else [real_reason(failure) for failure in case["failures"]])


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_the_refused_property_matches_the_real_provider(case: dict[str, Any]) -> None:
    expected = re.findall(r"Examine values at 'r\.(.*?)'", " ".join(case["failures"]))
    properties = [failure.property for failure in check(case["type"], with_unknowns(case["inputs"]))]
    assert properties == expected or not expected


def test_a_nested_value_is_reported_with_its_path() -> None:
    [failure] = check(NODE_POOL, {"clusterId": "c", "nodePoolName": "n", "scalingConfig": {"type": "gpux"}})
    assert failure.property == "scalingConfig.type"


def test_inputs_are_normalized() -> None:
    written = {
        "scalingConfig": [{"enable": True, "minSize": "1", "maxSize": 4.0}],
        "desiredSize": 2.0,
        "labels": [{"key": "a", "value": 1}],
        "securityGroupIds": ["sg-2", "sg-1"],
        "systemDiskSize": UNKNOWN,
    }
    assert normalized(NODE_POOL, written) == {
        "scalingConfig": {"enable": True, "minSize": 1, "maxSize": 4},
        "desiredSize": "2",
        "labels": [{"key": "a", "value": "1"}],
        "securityGroupIds": ["sg-1", "sg-2"],
        "systemDiskSize": UNKNOWN,
    }


def test_the_schema_decides_which_changes_replace_a_resource() -> None:
    assert replacement_properties(NODE_POOL, ["clusterId", "desiredSize", "nodePoolName"]) == ["clusterId"]
    assert replacement_properties(PROMETHEUS, ["clusterType", "grafanaInstanceId"]) == ["clusterType"]
