"""Create a cluster in an empty account, protect it, renew its credential, and delete it in order."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from pulumi import automation
from pulumi.automation import OpType

from live.verify import check_stack
from rehearsal.alicloud.store import CLUSTER, NETWORK, NODE_POOL, SWITCH, Cloud
from rehearsal.automation import engine_options, select_stack
from rehearsal.cloud import running_cloud
from rehearsal.control_plane.kubeconfigs import renew_kubeconfig, temporary_kubeconfig
from rehearsal.layout import STACK, Layout
from rehearsal.leftovers import cluster_leftovers
from tests.engine.checkout import fresh_checkout
from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal
from tests.engine.engine_output import EngineOutput
from tests.engine.secret_search import Secret
from tests.readme import section
from tests.rehearsed_account import add_network

ZONES = ["cn-hangzhou-h", "cn-hangzhou-i", "cn-hangzhou-j"]
FROM_NOTHING = {"zones": ZONES, "systemPool": {"size": 1}}
EXISTING_VSWITCHES = {
    "vsw-nodes": ("cn-hangzhou-h", "10.0.0.0/20"),
    "vsw-pods": ("cn-hangzhou-h", "10.0.64.0/18"),
}
EXISTING = {"vswitchIds": ["vsw-nodes"], "podVswitchIds": ["vsw-pods"], "systemPool": {"size": 1}}
PROVIDER = "pulumi:providers:kubernetes"


def edit(layout: Layout, **cluster: Any) -> None:
    path = layout.checkout / f"Pulumi.{STACK}.yaml"
    content = yaml.safe_load(path.read_text())
    content["config"]["ackgpu:cluster"] = cluster
    path.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False))


@pytest.fixture(scope="module")
def account(tools: Path) -> Iterator[Rehearsal]:
    """An account without a cluster."""
    layout = fresh_checkout("leer in Hangzhou 杭州")
    edit(layout, create=FROM_NOTHING)
    with running_cloud(layout, tools):
        yield Rehearsal(layout, tools, select_stack(layout), layout.own_kubeconfig)


@pytest.fixture(scope="module")
def created(account: Rehearsal) -> Rehearsal:
    """The account with a cluster that the stack created. The last test deletes it."""
    edit(account.layout, create=FROM_NOTHING)
    account.up()
    return account


def cloud(account: Rehearsal) -> Cloud:
    return account.store.read()


def resources(account: Rehearsal) -> list[dict[str, Any]]:
    """Return the resources in the state, with secrets in plain text."""
    found: list[dict[str, Any]] = (account.stack.export_stack().deployment or {}).get("resources", [])
    return found


def ids(state: list[dict[str, Any]]) -> dict[str, str | None]:
    """Return the ID of each resource, except the engine's provider for stack references."""
    return {resource["urn"]: resource.get("id") for resource in state if resource["type"] != "pulumi:providers:pulumi"}


def kubeconfig_in(state: list[dict[str, Any]]) -> str:
    [provider] = [resource for resource in state if resource["type"] == PROVIDER]
    content: str = json.loads(provider["inputs"]["kubeconfig"]["plaintext"])
    return content


def works(content: str) -> bool:
    """Return whether the API server accepts the credential in a kubeconfig."""
    try:
        client.CoreV1Api(config.new_client_from_config_dict(yaml.safe_load(content))).list_node(limit=1)
    except client.ApiException as error:
        assert error.status == 401
        return False
    return True


def revoke(account: Rehearsal, content: str) -> Secret:
    """Make the API server refuse a working credential; return its key."""
    assert works(content)
    renew_kubeconfig(account.layout)
    wait_until(lambda: not works(content), "the old credential is refused")
    return Secret.of_kubeconfig(content)


def with_a_new_credential(account: Rehearsal) -> automation.Stack:
    """Return the stack as `./ackgpu refresh` and `./ackgpu destroy` use it."""
    folder = account.layout.checkout / "commands" / "access"
    return automation.select_stack(STACK, work_dir=str(folder), opts=engine_options(account.layout))


def command(stack: automation.Stack, *arguments: str) -> str:
    """Run an engine command as a user does, with the preview that the Automation API skips."""
    workspace = stack.workspace
    result = workspace.pulumi_command.run(
        [*arguments, "--yes", "--stack", STACK, "--color", "never"], workspace.work_dir, workspace.env_vars
    )
    return result.stdout + result.stderr


def refusal_of(stack: automation.Stack, *arguments: str) -> str:
    with pytest.raises(automation.CommandError) as refusal:
        command(stack, *arguments)
    return str(refusal.value)


def test_overlapping_address_ranges_are_refused_and_nothing_is_created(account: Rehearsal) -> None:
    add_network(account.store, "10.0.0.0/16", EXISTING_VSWITCHES)
    before = cloud(account)
    edit(account.layout, create={**EXISTING, "serviceCidr": "10.0.240.0/20"})
    with pytest.raises(automation.CommandError) as refusal:
        account.stack.preview()
    error = str(refusal.value)
    assert "cluster.create.serviceCidr is 10.0.240.0/20, which overlaps with 10.0.0.0/16 of VPC vpc-" in error
    assert "Traceback" not in error
    assert cloud(account) == before


def steps(events: list[automation.EngineEvent]) -> list[tuple[OpType, str]]:
    """Return each finished operation and its resource type, in order."""
    finished = [event.res_outputs_event.metadata for event in events if event.res_outputs_event]
    return [(OpType(step.op), step.type) for step in finished]


def test_a_new_cluster_works_and_a_second_preview_is_empty(created: Rehearsal, engine_output: EngineOutput) -> None:
    cluster = cloud(created).cluster
    assert cluster and cluster.deletion_protection
    assert created.outputs().cluster_id == cluster.cluster_id
    assert [step for step in check_stack(created.outputs(), created.client) if not step.ok] == []
    assert set(created.stack.preview().change_summary) == {OpType.SAME}

    types = [resource.type for resource in cloud(created).resources.values() if resource.outputs]
    assert (types.count(NETWORK), types.count(SWITCH), types.count(NODE_POOL)) == (1, 6, 2)
    state = resources(created)
    assert [resource["type"] for resource in state if resource.get("protect")].count(CLUSTER) == 1
    key = Secret.of_kubeconfig(kubeconfig_in(state))
    assert key.is_in(json.dumps(state).encode()), "the search finds a known secret"
    assert engine_output.leaks(created.layout, [key]) == []


def test_a_protected_cluster_stops_destroy_before_anything_is_deleted(created: Rehearsal) -> None:
    before = cloud(created), cluster_leftovers(created.layout)
    for stack, arguments in ((created.stack, ()), (with_a_new_credential(created), ("--run-program",))):
        assert "because it is protected" in refusal_of(stack, "destroy", *arguments)
        assert (cloud(created), cluster_leftovers(created.layout)) == before


def test_a_refresh_that_runs_the_program_replaces_a_revoked_credential_in_place(
    created: Rehearsal, engine_output: EngineOutput
) -> None:
    before = resources(created)
    old = revoke(created, kubeconfig_in(before))
    error = refusal_of(created.stack, "refresh")
    assert "the server has asked for the client to provide credentials" in error

    command(with_a_new_credential(created), "refresh", "--run-program")
    after = resources(created)
    assert works(kubeconfig_in(after))
    assert ids(after) == ids(before)
    assert engine_output.leaks(created.layout, [old]) == []


def test_another_endpoint_and_a_temporary_credential_update_only_the_provider(
    created: Rehearsal, engine_output: EngineOutput
) -> None:
    edit(created.layout, create=FROM_NOTHING, apiEndpoint="intranet", temporaryCredential="60m")
    events: list[automation.EngineEvent] = []
    changes = created.stack.up(color="never", on_event=events.append).summary.resource_changes or {}
    assert changes == {OpType.SAME: changes[OpType.SAME], OpType.UPDATE: 1}
    assert [type_ for op, type_ in steps(events) if op == OpType.UPDATE] == [PROVIDER]

    server = created.outputs().api_server
    assert server == f"https://{created.layout.intranet_address}:6443"
    expired = temporary_kubeconfig(created.layout, datetime.now(UTC) + timedelta(seconds=1))
    wait_until(lambda: not works(expired), "the API server refuses an expired credential")
    content = kubeconfig_in(resources(created))
    assert yaml.safe_load(content)["clusters"][0]["cluster"]["server"] == server
    assert works(content)
    assert engine_output.leaks(created.layout, [Secret.of_kubeconfig(content)]) == []


def test_destroy_deletes_an_unprotected_cluster_in_order_with_a_revoked_credential(
    created: Rehearsal, engine_output: EngineOutput
) -> None:
    existing = {"cloud resource vsw-nodes", "cloud resource vsw-pods"}
    unprotect, up, destroy = section("docs/getting-started.md", "Delete a new cluster")
    edit(created.layout, create=FROM_NOTHING)
    workspace = created.stack.workspace
    workspace.pulumi_command.run(
        [*shlex.split(unprotect.line)[1:], "--stack", STACK], workspace.work_dir, workspace.env_vars
    )
    assert up.line == "pulumi up"
    created.up()
    assert destroy.line == "./ackgpu destroy --stack dev"
    old = revoke(created, kubeconfig_in(resources(created)))

    events: list[automation.EngineEvent] = []
    with_a_new_credential(created).destroy(color="never", run_program=True, on_event=events.append)
    order = [type_ for op, type_ in steps(events) if op == OpType.DELETE]

    def positions(type_: str) -> tuple[int, int]:
        found = [index for index, deleted in enumerate(order) if deleted == type_]
        return found[0], found[-1]

    in_cluster = [index for index, type_ in enumerate(order) if type_.startswith("kubernetes:")]
    assert max(in_cluster) < positions(NODE_POOL)[1] < positions(CLUSTER)[0]
    assert positions(CLUSTER)[1] < positions(SWITCH)[0]
    assert positions(SWITCH)[1] < positions(NETWORK)[0]
    assert cloud(created).cluster is None
    leftovers = set(cluster_leftovers(created.layout))
    assert existing <= leftovers
    assert len(leftovers) == 3, "the vSwitches and their VPC"
    assert engine_output.leaks(created.layout, [old]) == []
