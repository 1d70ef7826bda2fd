"""The program's settings as the engine passes them, including secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest

from tests.unit.program import Recorder, run_program, stack_config

SECRET = "registry.example/of-a-customer:1"


def with_image(image: str, **service: Any) -> dict[str, Any]:
    config = stack_config("rehearsal")
    [sample] = config["ackgpu:services"]
    return {**config, "ackgpu:services": [{**sample, "image": image, **service}]}


def said(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the warnings, and the error that stops the program."""
    sentences: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda sentence: sentences.append(sentence))
    try:
        run_program(config, Recorder())
    except pulumi.RunError as error:
        sentences += str(error).splitlines()[1:]
    return sentences


def test_refuses_encrypted_values_in_services_without_showing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", '["ackgpu:services"]')
    for config in (with_image(SECRET, port=0), with_image(SECRET, gpus=2), with_image(SECRET)):
        [sentence] = said(config, monkeypatch)
        assert sentence.startswith("services has encrypted values, but no secret settings: ")
    monkeypatch.delenv("PULUMI_CONFIG_SECRET_KEYS")
    assert said(with_image(SECRET), monkeypatch) == []


def test_a_warning_is_logged_and_the_program_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    [warning] = said(with_image(f"{SECRET}/vllm"), monkeypatch)
    assert warning.startswith("services[0].autoscaler.metrics[0].name is 'DCGM_CUSTOM_PROCESS_SM_UTIL', but the image")


def test_ignores_keys_of_other_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {"aws:region": "eu-west-1", "ackpu:region": "mars", "gpu-autoscaling:metricsAdapter": "{}"}
    monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", '["aws:region"]')
    assert said({**stack_config("rehearsal"), **others}, monkeypatch) == []


def test_the_settings_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.unit.yaml").write_text("config: {}\nackgpu:region: x\n")
    assert said(stack_config("rehearsal"), monkeypatch) == []


def test_an_error_shows_no_value_of_a_setting_that_contains_encrypted_values(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {**stack_config("rehearsal"), "ackgpu:metricsAdapter": {"rules": "v-of-a-secret"}}
    monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", '["ackgpu:metricsAdapter"]')
    assert said(config, monkeypatch) == [
        "metricsAdapter.rules can't be used: must be one of hardened, seed, seed-complete."
    ]
