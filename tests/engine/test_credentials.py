"""Credentials of the adapter for Prometheus and of the program for the cluster."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from pulumi import automation
from pulumi.automation import ConfigValue, OpType

from live.verify import check_stack
from tests.engine.conftest import Rehearsal
from tests.engine.secret_search import Secret, in_files
from tests.rehearsed_account import require_access_key, require_no_credentials

ACCESS_KEY_ID = "LTAI-of-a-reader"
RIGHT, WRONG = "right-access-key-secret-1e9d", "wrong-access-key-secret-7c42"


@pytest.fixture(scope="module", autouse=True)
def with_access_key(rehearsal: Rehearsal) -> Iterator[None]:
    """A V2 instance and a stack that is not deployed yet."""
    require_access_key(rehearsal.store, ACCESS_KEY_ID, RIGHT)
    rehearsal.edit(waitForMetrics="20s")
    yield
    rehearsal.stack.destroy(color="never")
    require_no_credentials(rehearsal.store)
    rehearsal.reset()


def authenticate(rehearsal: Rehearsal, secret: str) -> None:
    for key, value in (("type", "basic"), ("accessKeyId", ACCESS_KEY_ID)):
        rehearsal.stack.set_config(f"prometheus.auth.{key}", ConfigValue(value), path=True)
    rehearsal.stack.set_config("prometheus.auth.accessKeySecret", ConfigValue(secret, secret=True), path=True)


def exported(rehearsal: Rehearsal, *arguments: str) -> bytes:
    """Run `pulumi stack export` as a user does and return its output."""
    workspace = rehearsal.stack.workspace
    command = ["stack", "export", "--stack", rehearsal.stack.name, *arguments]
    return workspace.pulumi_command.run(command, workspace.work_dir, workspace.env_vars).stdout.encode()


@pytest.mark.case("F5")
def test_up_reports_a_wrong_access_key_and_works_with_the_right_key(rehearsal: Rehearsal) -> None:
    authenticate(rehearsal, WRONG)
    with pytest.raises(automation.CommandError) as failure:
        rehearsal.up()
    output = str(failure.value)
    assert "Prometheus refuses the adapter's credentials (401): set prometheus.auth." in output
    assert "Traceback" not in output

    authenticate(rehearsal, RIGHT)
    result = rehearsal.up()
    output += result.stdout + result.stderr
    assert [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok] == []
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}

    header = Secret("header", (f"{ACCESS_KEY_ID}:{RIGHT}".encode(),))
    secrets = [header, *(Secret(text, (text.encode(),)) for text in (RIGHT, WRONG))]
    for secret in secrets[:2]:
        assert secret.is_in(exported(rehearsal, "--show-secrets")), "the search finds a known secret"
    visible = (
        output.encode()
        + exported(rehearsal)
        + str(rehearsal.stack.outputs()).encode()
        + rehearsal.stack_file.read_bytes()
    )
    assert [secret.name for secret in secrets if secret.is_in(visible)] == []
    places = {path.relative_to(rehearsal.layout.output) for path, _ in in_files(rehearsal.layout.output, secrets)}
    # The cluster stores the release's values and the pod's arguments.
    assert {place.parts[:3] for place in places} == {("cloud", "control-plane", "etcd")}


@pytest.mark.case("G9")
def test_another_client_certificate_in_the_kubeconfig_replaces_nothing(rehearsal: Rehearsal) -> None:
    kubeconfig = rehearsal.layout.kubeconfig
    before = kubeconfig.read_text()
    try:
        # A kubeconfig for the same server and CA.
        shutil.copyfile(rehearsal.layout.cloud / "control-plane" / "kwok.kubeconfig", kubeconfig)
        assert kubeconfig.read_text() != before
        changes = rehearsal.stack.preview().change_summary
    finally:
        kubeconfig.write_text(before)
    assert set(changes) == {OpType.SAME, OpType.UPDATE}
    assert changes[OpType.UPDATE] == 1, "only the provider"
