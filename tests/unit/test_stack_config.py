"""The program's settings as the engine hands them over, secrets among them."""

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


def test_the_stack_file_on_disk_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Pulumi.unit.yaml").write_text("config: {ackgpu:region: nowhere}\nackgpu:region: x\n")
    monkeypatch.chdir(tmp_path)
    assert said(stack_config("rehearsal"), monkeypatch) == []


def test_keys_of_other_namespaces_never_stop_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = {"aws:profile": "dev", "other-project:colour": "red", "kubernetes:namespace": "x"}
    assert said({**shared, **stack_config("rehearsal")}, monkeypatch) == []
