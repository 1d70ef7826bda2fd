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
    """Addresses of a cluster, such as `https://192.0.2.1:6443`; empty: it has none of the kind, or ACK does not say."""

    internet: str = ""
    intranet: str = ""

    def reached(self, kubeconfig: str, endpoint: str) -> str:
        """Return the kubeconfig with the server of an endpoint; unchanged where it has that server, or no server.

        Args:
            kubeconfig: content; a secret.
            endpoint: `internet` or `intranet`.

        Raises:
            pulumi.RunError: the cluster has no such endpoint.
        """
        server = getattr(self, endpoint)
        if not server and endpoint == "internet" and not self.intranet:
            # ACK does not say the addresses of other kinds of cluster; their kubeconfig has the public address.
            return kubeconfig
        if not server:
            raise pulumi.RunError(
                f"cluster.apiEndpoint is {endpoint}, and the cluster's API server has no such address: set it to "
                f"{_OTHER[endpoint]}, or add the address in the ACK console."
            )
        content = _content(kubeconfig)
        if content is None or all(entry["cluster"]["server"] == server for entry in content["clusters"]):
            return kubeconfig
        for entry in content["clusters"]:
            entry["cluster"]["server"] = server
        return yaml.safe_dump(content, sort_keys=False)


def server_of(kubeconfig: str) -> str:
    """Return the server of a kubeconfig; empty where it has none, which its users report."""
    content = _content(kubeconfig)
    return str(content["clusters"][0]["cluster"]["server"]) if content else ""


def _content(kubeconfig: str) -> Mapping[str, Any] | None:
    try:
        content: Mapping[str, Any] = yaml.safe_load(kubeconfig)
        whole = content["clusters"] and all(entry["cluster"]["server"] for entry in content["clusters"])
    # A kubeconfig may have any shape.
    except (yaml.YAMLError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    return content if whole else None
