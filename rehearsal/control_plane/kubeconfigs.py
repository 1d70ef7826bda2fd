"""Kubeconfigs for the cluster, with client certificates.

The vendor's kubeconfigs have an authority of their own, so that they can be revoked all at once: the API server reads
its file of client authorities again when it changes.
"""

from __future__ import annotations

import base64
import datetime
import os
from collections.abc import Mapping
from pathlib import Path

import trustme
import yaml

from rehearsal.layout import Layout

ADMINISTRATORS = "system:masters"
"""The Kubernetes group of a certificate's organization that may do everything."""


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read from the start."""
    path.touch(mode=0o600)
    path.write_bytes(content)


def kubeconfig(server: str, authority: bytes, user: Mapping[str, str]) -> bytes:
    """Return a kubeconfig of one context for a server's URL, the PEM of its authority and a `user` entry."""

    def named(kind: str, value: object) -> list[dict[str, object]]:
        return [{"name": "rehearsal", kind: value}]

    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rehearsal",
            "clusters": named("cluster", {"server": server, "certificate-authority-data": _base64(authority)}),
            "users": named("user", dict(user)),
            "contexts": named("context", {"cluster": "rehearsal", "user": "rehearsal"}),
        }
    ).encode()


def certificate_user(
    authority: trustme.CA, name: str, group: str | None = None, expiry: datetime.datetime | None = None
) -> dict[str, str]:
    """Return the `user` entry with a new client certificate for a Kubernetes user of a group."""
    # The API server refuses a client certificate without an alternative name: trustme marks the empty list as critical.
    certificate = authority.issue_cert("client", common_name=name, organization_name=group, not_after=expiry)
    return {
        "client-certificate-data": _base64(certificate.cert_chain_pems[0].bytes()),
        "client-key-data": _base64(certificate.private_key_pem.bytes()),
    }


def renew_kubeconfig(layout: Layout) -> None:
    """Issue a new long-lived kubeconfig as `layout.kubeconfig`; the API server then refuses all earlier ones."""
    authority = trustme.CA()
    layout.credentials_authority.unlink(missing_ok=True)
    write_private(layout.credentials_authority, authority.private_key_pem.bytes() + authority.cert_pem.bytes())
    draft = layout.client_authorities.with_suffix(".new")
    draft.write_bytes(layout.server_authority.read_bytes() + authority.cert_pem.bytes())
    os.replace(draft, layout.client_authorities)
    layout.kubeconfig.unlink(missing_ok=True)
    write_private(layout.kubeconfig, _administrator(layout, authority))


def temporary_kubeconfig(layout: Layout, expiry: datetime.datetime) -> str:
    """Return a kubeconfig that the API server accepts until then."""
    pem = layout.credentials_authority.read_bytes()
    return _administrator(layout, trustme.CA.from_pem(pem, pem), expiry).decode()


def _administrator(layout: Layout, authority: trustme.CA, expiry: datetime.datetime | None = None) -> bytes:
    user = certificate_user(authority, "kubernetes-admin", ADMINISTRATORS, expiry)
    return kubeconfig(layout.api_server, layout.server_authority.read_bytes(), user)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
