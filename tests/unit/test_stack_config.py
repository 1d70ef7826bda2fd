"""The program's settings as the engine hands them over, secrets among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from tests.unit.program import Recorder, run_program, stack_config

SECRET = "registry.example/of-a-customer:1"


def with_image(image: str, **service: Any) -> dict[str, Any]:
    config = stack_config("rehearsal")
    [sample] = config["ackgpu:services"]
    return {**config, "ackgpu:services": [{**sample, "image": image, **service}]}


def said(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings, and the error that ends the program."""
    sentences: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda sentence: sentences.append(sentence))
    try:
        run_program(config, Recorder())
    except pulumi.RunError as error:
        sentences += str(error).splitlines()[1:]
    return sentences


@pytest.mark.parametrize("image", [SECRET, f"<{SECRET}>", f"{SECRET}/vllm"])
def test_a_value_that_the_engine_decrypted_is_in_no_sentence(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for config in (with_image(image, port=0), with_image(image, gpus=2), with_image(image)):
        monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", '["ackgpu:services"]')
        sentences = said(config, monkeypatch)
        assert SECRET not in "".join(sentences)
        assert "services" in "".join(sentences) or image == SECRET
        monkeypatch.delenv("PULUMI_CONFIG_SECRET_KEYS")
        assert len(said(config, monkeypatch)) == len(sentences)


def test_a_warning_is_logged_and_the_program_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    [warning] = said(with_image(f"{SECRET}/vllm"), monkeypatch)
    assert warning.startswith("services[0].autoscaler.metrics[0].name is 'DCGM_CUSTOM_PROCESS_SM_UTIL', and the image")


def test_what_stands_in_the_file_counts_for_nothing_where_there_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said(stack_config("rehearsal"), monkeypatch) == []
    (tmp_path / "Pulumi.unit.yaml").write_text("config: {}\nackgpu:region: x\n")
    assert len(said(stack_config("rehearsal"), monkeypatch)) == 1


def test_of_a_key_with_a_secret_only_the_secret_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", '["ackgpu:services"]')
    config = with_image(SECRET, gpus=2)
    encrypted = with_image("of a customer", gpus=2)
    encrypted["ackgpu:services"][0]["image"] = {"secure": "v1:abc=:xyz="}
    (tmp_path / "Pulumi.unit.yaml").write_text(yaml.safe_dump({"config": encrypted}))
    assert said(config, monkeypatch) == ["services[0].gpus is 2, but a node of the pool has 1: lower it."]
    (tmp_path / "Pulumi.unit.yaml").write_text(yaml.safe_dump({"config": encrypted, "environment": ["production"]}))
    [sentence] = said(config, monkeypatch)
    assert "is not shown" in sentence
