"""The JSON schema that editors use to complete and check stack files."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from autoscaling.settings import SettingsError, parse
from commands.docs.stack_schema import STACK_SCHEMA
from tests.unit.test_settings import FULL, GOOD, leaves

CHECKOUT = Path(__file__).parents[2]
SCHEMA = Draft7Validator(json.loads(STACK_SCHEMA.read_text()))
SECRET = {"secure": "v1:abc=:xyz="}


def stack_file(values: dict[str, Any]) -> dict[str, Any]:
    return {"config": {f"ackgpu:{key}": value for key, value in values.items()}}


def replaced(path: str, value: Any) -> dict[str, Any]:
    values = copy.deepcopy(FULL)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = values
    for part in parents:
        target = target[part]
    target[last] = value
    return values


def test_the_schema_is_valid() -> None:
    Draft7Validator.check_schema(SCHEMA.schema)


@pytest.mark.parametrize("stack", ["dev", "rehearsal"])
def test_the_projects_stack_files_are_valid_once_filled_in(stack: str) -> None:
    text = (CHECKOUT / f"Pulumi.{stack}.yaml").read_text()
    fill = {"region": "cn-hangzhou", "cluster id": "c0", "GPU instance type": "ecs.gn6v-c8g1.2xlarge"}
    for what, value in fill.items():
        text = re.sub(rf"<{what}[^>]*>", value, text)
    SCHEMA.validate(yaml.safe_load(text))


@pytest.mark.parametrize("stack", ["dev", "rehearsal"])
def test_each_stack_file_links_to_the_schema(stack: str) -> None:
    first = (CHECKOUT / f"Pulumi.{stack}.yaml").read_text().splitlines()[0]
    [path] = re.findall(r"^# yaml-language-server: \$schema=(\S+)$", first)
    assert CHECKOUT / path == STACK_SCHEMA


POLICY = {"type": "Pods", "value": 1, "periodSeconds": 15}
METRIC = {"name": "DCGM_FI_DEV_GPU_UTIL", "target": 20}
SERVICE = {"name": "a", "image": "b", "autoscaler": {"maxReplicas": 2}}
LIMITS = {"min": 0, "max": 10}
TYPES = ["ecs.gn6v-c8g1.2xlarge", "ecs.gn6i-c4g1.xlarge"]
VALUES: tuple[Any, ...] = (
    *(True, 0, 1, 7, 30, 100, "3", "1.5", 0.5, "10Gi", "1m", "30s", "a", "a-b", "/a", None, [], {}),
    *(
        "cn-beijing",
        "v2",
        "exclusive",
        "cloud_ssd",
        "internet",
        "2",
        "512Mi",
        "4G",
        "1h30m",
        "addon",
        "none",
        "seed",
        "ack",
        "max",
        "Percent",
    ),
    *(TYPES[1], TYPES, LIMITS, {"instanceTypes": TYPES, "autoscaling": LIMITS}, {"id": "a"}),
    *(SERVICE, [SERVICE], METRIC, [METRIC], METRIC["name"], POLICY, [POLICY]),
)


@pytest.mark.parametrize("path", leaves(FULL))
def test_the_schema_accepts_what_the_program_accepts(path: str) -> None:
    taken = 0
    for value in VALUES:
        settings = replaced(path, value)
        try:
            parse(settings)
        except SettingsError:
            continue
        taken += 1
        assert SCHEMA.is_valid(stack_file(settings)), value
    assert taken, "no sample value is valid for this key"
    assert SCHEMA.is_valid(stack_file(FULL))


@pytest.mark.parametrize("path", leaves(FULL))
def test_only_a_secret_may_be_encrypted(path: str) -> None:
    # In a map with free keys, `secure` is an ordinary key.
    allowed = path in ("metricsAdapter.values", "services.0.env")
    assert SCHEMA.is_valid(stack_file(replaced(path, SECRET))) is allowed


def test_credentials_may_be_encrypted() -> None:
    auth = {"type": "basic", "accessKeyId": SECRET, "accessKeySecret": SECRET, "token": SECRET}
    assert SCHEMA.is_valid(stack_file(replaced("prometheus.auth", auth)))
    assert not SCHEMA.is_valid(stack_file(replaced("prometheus.auth", {**auth, "type": SECRET})))
    assert not SCHEMA.is_valid(stack_file(replaced("prometheus.auth", {**auth, "token": "in plain text"})))
    assert not SCHEMA.is_valid(stack_file(replaced("prometheus.auth", {**auth, "token": {"secure": 1}})))


def test_ignores_the_engines_keys_and_other_namespaces() -> None:
    content = stack_file(GOOD)
    content["config"] |= {"pulumi:disable-default-providers": ["*"], "alicloud:region": "cn-hangzhou"}
    content |= {"encryptionsalt": "v1:abc=", "secretsprovider": "passphrase", "encryptedkey": "abc"}
    SCHEMA.validate(content)


def test_keys_may_omit_the_projects_name() -> None:
    SCHEMA.validate({"config": GOOD})
    assert not SCHEMA.is_valid({"config": {**GOOD, "region": "mars"}})
    assert not SCHEMA.is_valid({"config": {**GOOD, "regoin": "cn-hangzhou"}})


def test_an_environment_may_add_settings() -> None:
    SCHEMA.validate({"environment": ["production"]})
    assert not SCHEMA.is_valid({"config": {}})


def test_each_setting_has_a_description() -> None:
    definitions = SCHEMA.schema["$defs"]
    for name, model in definitions.items():
        for key, schema in model["properties"].items():
            described = "description" in schema or "$ref" in schema
            assert described or name == "Encrypted", f"{name}.{key}"
    assert definitions["Service"]["properties"]["port"]["description"] == "Port of the load balancer."
    assert definitions["Service"]["properties"]["port"]["maximum"] == 65535
