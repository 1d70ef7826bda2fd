"""Managed Prometheus: the instance of a cluster, which an instance of its own or an add-on creates."""

from __future__ import annotations

from typing import Any

from rehearsal.alicloud.answers import Refused, listing, passes
from rehearsal.alicloud.store import Account, Cloud, read_if_running

# The SDK's class requires every field.
_EMPTY_FIELDS = (
    "authToken", "httpApiInterUrl", "pushGateWayInterUrl", "pushGateWayIntraUrl", "remoteReadInterUrl",
    "remoteReadIntraUrl", "remoteWriteInterUrl", "remoteWriteIntraUrl", "securityGroupId",
    "subClustersJson", "vpcId", "vswitchId",
)  # fmt: skip


def require_free(cloud: Cloud, inputs: dict[str, Any]) -> None:
    """Raise `Refused` if the inputs describe an instance of another kind, or the cluster already has one."""
    if inputs.get("clusterType") != "aliyun-cs":
        raise Refused(
            f"InvalidParameter: the rehearsal cloud simulates Prometheus instances of clusterType aliyun-cs, "
            f"not {inputs.get('clusterType')}"
        )
    if inputs.get("clusterId") in cloud.resources:
        raise Refused(f"ErrorAlreadyExists: the cluster {inputs['clusterId']} has a Prometheus instance")


def get_prometheus(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer `arms.getPrometheus`: list the cluster's instance if it has one that passes the filters."""
    cloud, found = account.cloud, []
    owner = cloud.prometheus()
    if owner and cloud.cluster:
        tags: dict[str, str] = owner.inputs.get("tags", {})
        address = read_if_running(account.layout.prometheus_api_url) if arguments.get("enableDetails") else ""
        instance = {
            **dict.fromkeys(_EMPTY_FIELDS, ""),
            "id": cloud.cluster.cluster_id,
            "clusterId": cloud.cluster.cluster_id,
            "clusterName": owner.inputs.get("clusterName", cloud.cluster.name),
            "clusterType": "aliyun-cs",
            "grafanaInstanceId": owner.inputs.get("grafanaInstanceId", "free"),
            "resourceGroupId": owner.inputs.get("resourceGroupId", ""),
            "httpApiIntraUrl": address,
            "tags": tags,
        }
        wanted_tags: dict[str, str] = arguments.get("tags") or {}
        if passes(instance, arguments, ("resourceGroupId",), instance["clusterName"]) and (
            wanted_tags.items() <= tags.items()
        ):
            found.append(instance)
    return listing(arguments, "prometheis", found, [instance["clusterName"] for instance in found])
