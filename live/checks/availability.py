"""Why an aggregated API is unavailable although a pod of its server is Ready."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CAUSES = {
    r"x509|tls:": "the API server does not trust the adapter's certificate: the APIService needs a caBundle, or "
    "insecureSkipTLSVerify",
    r"connection refused|not listening": "nothing listens there: the port of the APIService, of its Service and of the "
    "adapter must be the same",
    r"deadline exceeded|[Tt]imeout|no route to host|unreachable": "the control plane does not reach the adapter: open "
    "its port (443, or 6443) in the security group and the network policies",
    r"403|Forbidden": "the control plane is refused, by a proxy on the way (no_proxy lacks the cluster's Services) or "
    "by RBAC (the adapter's account needs the roles system:auth-delegator and "
    "extension-apiserver-authentication-reader)",
    r"401|Unauthorized": "the adapter does not accept the control plane's client certificate, of the authority in "
    "ConfigMap kube-system/extension-apiserver-authentication",
}
"""Causes by a pattern in the message that `kube-aggregator` writes; the first match counts."""


def likely_cause(message: str, allowed_names: Sequence[str] = ()) -> str | None:
    """Return the likely cause of a condition `Available` that is not true; None for an unknown message.

    Args:
        message: of the condition.
        allowed_names: common names of the client certificate that the cluster's extension servers accept; none: any.
    """
    # An address may hold any number.
    said = re.sub(r"https?://\S+", "", message)
    pattern = next((pattern for pattern in _CAUSES if re.search(pattern, said)), None)
    if pattern is None:
        return None
    names = f", with the CN {' or '.join(allowed_names)}" if allowed_names and pattern.startswith("401") else ""
    return _CAUSES[pattern] + names
