"""Managed Prometheus: the instance of a cluster, which an instance of its own or an add-on creates."""

from __future__ import annotations

from typing import Any

from rehearsal.alicloud.answers import listing
from rehearsal.alicloud.store import Account, read_if_running


def get_prometheus(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer `arms.getPrometheus`: list the cluster's instance if it has one."""
    cloud, instances = account.cloud, []
    if cloud.prometheus() and cloud.cluster:
        address = read_if_running(account.layout.prometheus_api_url) if arguments.get("enableDetails") else ""
        identity = cloud.cluster.cluster_id
        instances.append({"id": identity, "clusterId": identity, "httpApiIntraUrl": address})
    return listing(arguments, "prometheis", instances)
