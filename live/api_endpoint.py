"""API server endpoint to use for a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import yaml

_OTHER = {"internet": "intranet", "intranet": "internet"}


@dataclass(frozen=True)
class ApiEndpoints:
    """Addresses such as `https://192.0.2.1:6443`; empty if the cluster has none or ACK does not report it."""

    internet: str = ""
    intranet: str = ""

    def apply_to(self, kubeconfig: str, endpoint: str) -> str:
        """Set the server of a kubeconfig to an endpoint. Leave a kubeconfig without a server unchanged.

        Args:
            kubeconfig: content of the file; a secret.
            endpoint: `internet` or `intranet`.

        Raises:
            pulumi.RunError: the cluster has no such endpoint.
        """
        server = getattr(self, endpoint)
        if not server and endpoint == "internet" and not self.intranet:
            # For other kinds of cluster, ACK reports no addresses and their kubeconfig has the public address.
            return kubeconfig
        if not server:
            raise pulumi.RunError(
                f"cluster.apiEndpoint is {endpoint}, but the cluster's API server has no {endpoint} address. Set "
                f"cluster.apiEndpoint to {_OTHER[endpoint]}, or add the address in the ACK console."
            )
        content = _content(kubeconfig)
        if content is None or all(entry["cluster"]["server"] == server for entry in content["clusters"]):
            return kubeconfig
        for entry in content["clusters"]:
            entry["cluster"]["server"] = server
        return yaml.safe_dump(content, sort_keys=False)


def server_of(kubeconfig: str) -> str:
    """Return the server of a kubeconfig, or an empty string."""
    content = _content(kubeconfig)
    return str(content["clusters"][0]["cluster"]["server"]) if content else ""


def _content(kubeconfig: str) -> Mapping[str, Any] | None:
    try:
        content: Mapping[str, Any] = yaml.safe_load(kubeconfig)
        complete = content["clusters"] and all(entry["cluster"]["server"] for entry in content["clusters"])
    # A kubeconfig may have any shape.
    except (yaml.YAMLError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    return content if complete else None
