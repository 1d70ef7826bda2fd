"""Why the API server takes an aggregated API for unavailable, though a pod of its server is Ready."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CAUSES = {
    r"x509|tls:": "the API server does not trust the adapter's certificate: the APIService needs a caBundle, or "
    "insecureSkipTLSVerify",
    r"connection refused|not listening": "nothing listens there: the port of the APIService, of its Service and of the "
    "adapter must be one and the same",
    r"deadline exceeded|[Tt]imeout|no route to host|unreachable": "the control plane does not reach the adapter: open "
    "the way to its port (443, or 6443) in the security group and the network policies",
    r"403|Forbidden": "the control plane is refused, by a proxy on the way (no_proxy lacks the cluster's Services) or "
    "by RBAC (the adapter's account needs the roles system:auth-delegator and "
    "extension-apiserver-authentication-reader)",
    r"401|Unauthorized": "the adapter does not take the control plane's client certificate, of the authority in "
    "ConfigMap kube-system/extension-apiserver-authentication",
}
"""By what `kube-aggregator` writes into the message; the first that is found counts."""


def likely_cause(message: str, allowed_names: Sequence[str] = ()) -> str | None:
    """What most likely lies behind a condition `Available` that is not true; None where nobody met the message yet.

    Args:
        message: of the condition.
        allowed_names: common names of the client certificate that the cluster's extension servers accept; none: any.
    """
    # An address may have any number in it.
    said = re.sub(r"https?://\S+", "", message)
    pattern = next((pattern for pattern in _CAUSES if re.search(pattern, said)), None)
    if pattern is None:
        return None
    names = f", with the CN {' or '.join(allowed_names)}" if allowed_names and pattern.startswith("401") else ""
    return _CAUSES[pattern] + names
