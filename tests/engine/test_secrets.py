"""The search for leaked secrets finds the kubeconfig's key and the token in the Prometheus address."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
from pulumi.automation import PulumiCommand

from rehearsal.control_plane.kubeconfigs import certificate_user, kubeconfig
from rehearsal.layout import Layout
from tests.engine import secret_search
from tests.engine.engine_output import recorded_output
from tests.engine.secret_search import Secret


def engine_that_echoes(folder: Path) -> PulumiCommand:
    """Create a `pulumi` that prints its arguments and has a version that the SDK accepts."""
    program = folder / "engine" / "bin" / "pulumi"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\n[ "$1" = version ] && echo v3.274.1 || echo "$@"\n')
    program.chmod(0o755)
    return PulumiCommand(root=str(folder / "engine"))


@pytest.fixture(scope="module")
def planted() -> tuple[bytes, bytes, list[Secret]]:
    """A kubeconfig, an address, and the secrets in them."""
    content = kubeconfig("https://127.0.0.1:6443", b"", certificate_user(trustme.CA(), "kubernetes-admin"))
    address = b"http://127.0.0.1:9090/api/v1/prometheus/0123456789abcdef0123456789abcdef/1/c1/cn-hangzhou"
    secrets = [Secret.of_kubeconfig(content.decode()), Secret.of_prometheus_address(address.decode())]
    assert not any(secret.is_in(bytes(secret.name, "ascii") * 100) for secret in secrets)
    return content, address, secrets


def test_the_search_finds_a_secret_in_each_kind_of_file(
    planted: tuple[bytes, bytes, list[Secret]], tmp_path: Path
) -> None:
    content, address, secrets = planted
    encoded = next(line.split()[1] for line in content.splitlines() if b"client-key-data" in line)
    pem = base64.b64decode(encoded)
    key = {
        "state.json": json.dumps({"outputs": {"kubeConfig": content.decode()}}).encode(),
        "state of a Secret.json": json.dumps({"data": {"k": base64.b64encode(content).decode()}}).encode(),
        "history.json": json.dumps({"key": pem.decode()}).encode(),
        "a log.log": b"unable to load key: " + pem.splitlines()[1] + b"\n",
        "tmp123": pem,
        "tmp124": base64.b64decode(b"".join(pem.splitlines()[1:-1])),
    }
    token = {
        "other.log": b"GET " + address + b"/query 403",
        "release.json": base64.b64encode(b"--prometheus-url=" + address),
        "backups/deep/state.json.bak": json.dumps({"url": address.decode()}).encode(),
    }
    for name, text in {**key, **token, "innocent.json": b"{}"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text)
    found = {(str(path.relative_to(tmp_path)), secret) for path, secret in secret_search.in_files(tmp_path, secrets)}
    assert found == {*((name, "key") for name in key), *((name, "token") for name in token)}


def test_leaks_finds_a_secret_in_the_output_and_in_files(
    planted: tuple[bytes, bytes, list[Secret]], tmp_path: Path
) -> None:
    content, address, _ = planted
    layout = Layout(tmp_path)
    for path, text in ((layout.kubeconfig, content), (layout.prometheus_api_url, address)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    with recorded_output() as output:
        assert output.leaks(layout) == [], "the cloud's own files are allowed"
        (layout.output / "logs").mkdir()
        (layout.output / "logs" / "planted.log").write_bytes(address)
        layout.backend.mkdir()
        (layout.backend / "state.json").write_bytes(json.dumps({"kubeConfig": content.decode()}).encode())
        command = engine_that_echoes(tmp_path)
        command.run([address.decode()], cwd=str(tmp_path), additional_env={})
        assert output.leaks(layout) == [
            "token in the output",
            "key in build/rehearsal/cloud/backend/state.json",
            "token in build/rehearsal/logs/planted.log",
        ]


def test_the_search_finds_a_secret_in_a_process(planted: tuple[bytes, bytes, list[Secret]]) -> None:
    content, address, secrets = planted
    program = [sys.executable, "-c", "print('up', flush=True); input()"]
    for kind, arguments, variables in (
        ("arguments", [f"--prometheus-url={address.decode()}"], {}),
        ("environment", [], {"KUBECONFIG_CONTENT": base64.b64encode(content).decode()}),
    ):
        with subprocess.Popen(
            [*program, *arguments], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout and process.stdout.readline() == b"up\n"
            found = set(secret_search.in_processes(secrets))
            assert {(place.split()[0], secret) for place, secret in found} == {(kind, "token" if arguments else "key")}
            process.communicate(b"\n")
