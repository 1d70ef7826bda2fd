"""`./ackgpu check`: its output, and what it cannot check."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaling.settings import SettingsError
from autoscaling.settings.engine_config import PROJECT
from autoscaling.settings.errors import key_of
from autoscaling.settings.stack_file import check_file, summary
from commands import command_line
from tests.unit.test_settings import FULL, leaves
from tests.wrong_settings import FOLDER, wrong_file

CHECKOUT = Path(__file__).parents[2]


def errors(path: Path) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        check_file(path)
    return raised.value.faults


def written(folder: Path, text: str) -> Path:
    path = folder / "Pulumi.unit.yaml"
    path.write_text(text)
    return path


def rehearsed(folder: Path, **changes: object) -> Path:
    """Write the rehearsal's stack file with changed settings; None removes a setting."""
    content = yaml.safe_load((CHECKOUT / "Pulumi.rehearsal.yaml").read_text())
    for key, value in changes.items():
        content["config"][f"ackgpu:{key}"] = value
        if value is None:
            del content["config"][f"ackgpu:{key}"]
    return written(folder, yaml.safe_dump(content))


def test_sums_up_a_valid_file_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["check", "--stack", "somebody/ackgpu/rehearsal"]) == 0
    assert capsys.readouterr().out == "Pulumi.rehearsal.yaml: ok, 1 service of at most 10 pods in cn-hangzhou\n"


def test_reports_what_to_fill_in_and_where_in_a_new_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["check", "--stack", "dev"]) == 1
    captured = capsys.readouterr()
    lines = (CHECKOUT / "Pulumi.dev.yaml").read_text().splitlines()
    faults = captured.err.splitlines()
    assert captured.out == ""
    assert [fault.split(": ", 1)[1].split(" is ")[0] for fault in faults] == [
        "region",
        "cluster.id",
        "gpuNodePool.instanceTypes[0]",
    ]
    for fault in faults:
        _, line, sentence = fault.split(":", 2)
        assert sentence.endswith("fill it in.")
        assert "<" in lines[int(line) - 1]


def test_lists_the_stacks_that_have_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["check", "--stack", "prod"]) == 1
    message = "Pulumi.prod.yaml: no such file: choose a stack with a file (dev, rehearsal).\n"
    assert capsys.readouterr().err == message


def test_reports_an_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.unit.yaml"
    path.write_bytes("config: # été".encode("latin-1"))
    assert errors(path) == ["Pulumi.unit.yaml: not UTF-8: save the file as UTF-8."]
    path.unlink()
    path.mkdir()
    assert errors(path) == ["Pulumi.unit.yaml: can't be read (Is a directory): check its path and permissions."]


def test_reports_errors_of_the_file_first_then_of_values_then_between_settings(tmp_path: Path) -> None:
    text = (CHECKOUT / "Pulumi.rehearsal.yaml").read_text()
    rounds = [
        ({"config:": "confg: 1\nconfig:\n  ackpu:a: b"}, ["confg", "ackpu:a"]),
        ({"region: cn": "region: cm", "image: ": "image: 7 #"}, ["region", "services[0].image"]),
        (
            {"max: 10}": "max: 9}", "minReplicas: 1": "minReplicas: 11"},
            ["services", "services[0].autoscaler.minReplicas"],
        ),
    ]
    for changes, begins in reversed(rounds):
        for right, wrong in changes.items():
            assert right in text
            text = text.replace(right, wrong, 1)
        sentences = [fault.split(": ", 1)[1] for fault in errors(written(tmp_path, text))]
        assert len(sentences) == 2
        assert all(sentence.startswith(begin) for sentence, begin in zip(sentences, begins, strict=True))


def test_ignores_keys_of_other_projects_and_providers(tmp_path: Path) -> None:
    text = (CHECKOUT / "Pulumi.rehearsal.yaml").read_text()
    other = "config:\n  aws:region: eu-west-1\n  gpu:region: mars\n  network:cluster: {secure: v1:a=:b=}"
    assert check_file(written(tmp_path, text.replace("config:", other, 1))).settings.region == "cn-hangzhou"


def test_a_secret_is_neither_checked_nor_shown(tmp_path: Path) -> None:
    secret = {"secure": "v1:abc=:xyz="}
    auth = {"type": "basic", "accessKeyId": secret, "accessKeySecret": secret}
    prometheus = {"auth": auth}
    adapter = {"values": {"labels": {"owner": secret}, "image": secret}}
    assert check_file(rehearsed(tmp_path, prometheus=prometheus, metricsAdapter=adapter)).settings


@pytest.mark.parametrize("path", leaves(FULL))
def test_only_a_secret_may_be_encrypted(path: str, tmp_path: Path) -> None:
    values = copy.deepcopy(FULL)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = values
    for part in parents:
        target = target[part]
    target[last] = {"secure": "v1:abc=:xyz="}
    content = {"config": {f"ackgpu:{key}": value for key, value in values.items()}}
    [sentence] = errors(written(tmp_path, yaml.safe_dump(content)))
    key = key_of(tuple(int(part) if part.isdigit() else part for part in path.split(".")))
    assert f": {key} " in sentence
    may_contain_secrets = path in ("prometheus", "metricsAdapter", "prometheus.auth", "metricsAdapter.values")
    assert (" encrypted" in sentence) is not (may_contain_secrets or path == "prometheus.auth.type")


def test_a_file_with_a_warning_is_valid(tmp_path: Path) -> None:
    pool = {"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], "vswitchIds": ["vsw-a"], "autoscaling": {"max": 10}}
    [warning] = check_file(rehearsed(tmp_path, gpuNodePool=pool)).warnings
    assert warning.startswith("Pulumi.unit.yaml:")
    assert ": warning: gpuNodePool has one instance type in one zone (ecs.gn6v-c8g1.2xlarge in vsw-a)" in warning


def test_settings_from_an_environment_are_not_reported_as_missing(tmp_path: Path) -> None:
    path = rehearsed(tmp_path, region=None, services=None)
    assert len(errors(path)) == 2
    path.write_text(f"{path.read_text()}environment: [production]\n")
    checked = check_file(path)
    assert {"region", "services"} <= checked.unknown
    assert "only `pulumi preview` can check" in summary(checked)
    assert check_file(written(tmp_path, "environment: [production]\n")).unknown


def test_checks_the_settings_of_this_project() -> None:
    assert yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())["name"] == PROJECT


def test_the_engine_and_the_cloud_are_not_needed() -> None:
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "commands", "check", "--stack", "rehearsal"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in shown.splitlines()}
    assert {"autoscaling", "pydantic", "ruamel"} <= imported
    # Each takes longer to import than all other modules together.
    assert not imported & {
        "pulumi",
        "pulumi_alicloud",
        "pulumi_kubernetes",
        "kubernetes",
        "grpc",
        "live",
        "rehearsal",
    }


@pytest.mark.parametrize("name", ["file_tab", "type_number_for_text"])
def test_prints_the_error_without_a_traceback(name: str, tmp_path: Path) -> None:
    for room in ("autoscaling", "commands"):
        shutil.copytree(CHECKOUT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(FOLDER / f"{name}.yaml", tmp_path / "Pulumi.wrong.yaml")
    command = [sys.executable, "-m", "commands", "check", "--stack", "wrong"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    wrong = wrong_file(FOLDER / f"{name}.yaml")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"Pulumi.wrong.yaml:{wrong.line}: {wrong.sentence}\n"
