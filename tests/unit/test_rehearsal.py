"""Parts of the rehearsal that can be tested without a running cloud."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
import trustme
from cryptography import x509
from cryptography.x509.oid import NameOID
from pulumi import automation

from rehearsal import leftovers
from rehearsal.automation import operation
from rehearsal.cloud import running_supervisor, stop_cloud
from rehearsal.control_plane.kubeconfigs import certificate_user
from rehearsal.control_plane.start import start_control_plane
from rehearsal.errors import RehearsalError
from rehearsal.layout import CHECKOUT, Layout
from rehearsal.processes import TAG, end_stray_processes, require_free_ports, stray_processes
from rehearsal.stack_file import rehearsed_settings


def test_each_checkout_has_its_own_loopback_addresses() -> None:
    first, second = Layout(Path("/a/checkout")), Layout(Path("/another/checkout"))
    assert first.address != second.address
    for address in (first.address, second.address, first.load_balancer_address(0)):
        assert address.startswith("127.")
    assert first.address == Layout(Path("/a/checkout")).address, "charts must get the same values in each run"
    balancers = [first.load_balancer_address(index) for index in range(190)]
    balancers += [first.load_balancer_address(index, intranet=True) for index in range(45)]
    assert len({first.address, *balancers}) == 1 + len(balancers)


def test_a_port_in_use_is_reported_with_a_fix() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            RehearsalError, match=rf"Port {port} on 127\.0\.0\.1 for etcd is not available .* Stop the program"
        ):
            require_free_ports("127.0.0.1", {"etcd": port})
    require_free_ports("127.0.0.1", {"etcd": port})


def test_only_stray_processes_of_this_checkout_are_ended(tmp_path: Path) -> None:
    mine, other = Layout(tmp_path / "mine"), Layout(tmp_path / "other")
    command = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    children = []
    for layout in (mine, other):
        child = subprocess.Popen(command, env={**os.environ, TAG: str(layout.cloud)}, stdout=subprocess.PIPE)
        assert child.stdout and child.stdout.readline() == b"up\n"
        children.append(child)
    try:
        assert [process.pid for process in stray_processes(mine)] == [children[0].pid]
        end_stray_processes(mine)
        assert stray_processes(mine) == []
        assert children[1].poll() is None
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_a_process_of_another_checkout_is_not_the_supervisor(tmp_path: Path) -> None:
    mine, other = Layout(tmp_path / "mine"), Layout(tmp_path / "other")
    mine.cloud.mkdir(parents=True)
    program = [sys.executable, "-c", "print('up', flush=True); input()"]
    with subprocess.Popen(
        program, env={**os.environ, TAG: str(other.cloud)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdout.readline() == b"up\n"
        mine.pid_file.write_text(str(process.pid))
        assert running_supervisor(mine) is None, "the process ID belongs to another checkout"
        other.cloud.mkdir(parents=True)
        other.pid_file.write_text(str(process.pid))
        supervisor = running_supervisor(other)
        assert supervisor is not None and supervisor.pid == process.pid
        process.communicate(b"\n")


def test_a_process_that_ends_during_the_check_is_not_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        process = psutil.Process(child.pid)
    monkeypatch.setattr(leftovers, "stray_processes", lambda layout: [process])
    assert leftovers.machine_leftovers(Layout(tmp_path)) == []


def test_stopping_removes_the_folder_of_a_killed_cloud(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.cloud.mkdir(parents=True)
    layout.kubeconfig.write_text("a key")
    assert stop_cloud(layout)
    assert not layout.cloud.exists()
    assert not stop_cloud(layout), "the cloud is already stopped"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("config: [", "Pulumi.rehearsal.yaml:1: not valid YAML: "),
        ("", "Pulumi.rehearsal.yaml: config is missing"),
        ("config: {8080: x}", "Pulumi.rehearsal.yaml:1: the key 8080 is not text"),
        ("config: {ackgpu:regoin: x}", "Pulumi.rehearsal.yaml:1: regoin is not a setting: did you mean region?"),
        (None, "Pulumi.rehearsal.yaml: no such file"),
    ],
)
def test_an_invalid_settings_file_is_reported(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "Pulumi.rehearsal.yaml").write_text(content)
    with pytest.raises(RehearsalError) as raised:
        rehearsed_settings(tmp_path)
    heading, first, *_ = str(raised.value).splitlines()
    assert heading == "Pulumi.rehearsal.yaml is not valid:"
    assert message in str(raised.value)
    assert first.startswith("Pulumi.rehearsal.yaml:")


def test_an_interruption_during_imports_prints_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "psutil.py").write_text("import signal\nprint('importing', flush=True)\nsignal.pause()\n")
    with subprocess.Popen(
        [sys.executable, "-m", "commands", "rehearse"],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout and process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=30)
    assert (process.returncode, printed.strip()) == (130, "interrupted")


def test_an_engine_error_of_two_lines_is_reported_in_full() -> None:
    result = automation.CommandResult(stdout="", stderr="error: unmarshal errors:\n  line 4: defined twice\n", code=1)
    with (
        pytest.raises(RehearsalError, match=r"^pulumi up failed: unmarshal errors: line 4: defined twice"),
        operation("up"),
    ):
        raise automation.CommandError(result)


@pytest.mark.case("F3")
def test_the_api_servers_client_certificate_for_the_adapter_is_allowed(tmp_path: Path) -> None:
    class Started(Exception):
        pass

    class RecordedApiServer:
        """Record the flags instead of starting the API server."""

        flags: dict[str, str]

        def start(self, name: str, command: list[object]) -> None:
            if name == "kube-apiserver":
                self.flags = dict(str(part).removeprefix("--").split("=", 1) for part in command[1:])
                raise Started

    layout, processes = Layout(tmp_path), RecordedApiServer()
    layout.cloud.mkdir(parents=True)
    with pytest.raises(Started):
        start_control_plane(layout, tmp_path, cast(Any, processes))
    client, authority = (
        x509.load_pem_x509_certificate(Path(processes.flags[flag]).read_bytes())
        for flag in ("proxy-client-cert-file", "requestheader-client-ca-file")
    )
    [name] = client.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value in processes.flags["requestheader-allowed-names"].split(",")
    client.verify_directly_issued_by(authority)
    assert alternative_names(client), "Go refuses an empty critical extension"


def test_a_client_certificate_has_an_alternative_name() -> None:
    user = certificate_user(trustme.CA(), "admin")
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    assert alternative_names(certificate), "Go refuses an empty critical extension"


def alternative_names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
