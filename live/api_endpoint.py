"""By which of its API server's addresses a cluster is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import yaml

_OTHER = {"internet": "intranet", "intranet": "internet"}


@dataclass(frozen=True)
class ApiEndpoints:
    """The addresses of a cluster, such as `https://192.0.2.1:6443`; empty: it has none of the kind, or none is told."""

    internet: str = ""
    intranet: str = ""

    def reached(self, kubeconfig: str, endpoint: str) -> str:
        """The kubeconfig with the server of an endpoint; unchanged where it has that one, or none at all.

        Args:
            kubeconfig: content; a secret.
            endpoint: `internet` or `intranet`.

        Raises:
            pulumi.RunError: the cluster has no such endpoint.
        """
        server = getattr(self, endpoint)
        if not server and endpoint == "internet" and not self.intranet:
            # Of a cluster of another kind ACK tells no addresses, and its kubeconfig leads to the public one.
            return kubeconfig
        if not server:
            told = f"is {endpoint}, and the cluster's API server has no address there"
            raise pulumi.RunError(
                f"cluster.apiEndpoint {told}: set it to {_OTHER[endpoint]}, or give it one in the ACK console."
            )
        content = _content(kubeconfig)
        if content is None or all(one["cluster"]["server"] == server for one in content["clusters"]):
            return kubeconfig
        for one in content["clusters"]:
            one["cluster"]["server"] = server
        return yaml.safe_dump(content, sort_keys=False)


def server_of(kubeconfig: str) -> str:
    """The address that a kubeconfig leads to; empty where it has none, of which its users say more."""
    content = _content(kubeconfig)
    return str(content["clusters"][0]["cluster"]["server"]) if content else ""


def _content(kubeconfig: str) -> Mapping[str, Any] | None:
    try:
        content: Mapping[str, Any] = yaml.safe_load(kubeconfig)
        whole = content["clusters"] and all(one["cluster"]["server"] for one in content["clusters"])
    # A kubeconfig may have any shape.
    except (yaml.YAMLError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    return content if whole else None
