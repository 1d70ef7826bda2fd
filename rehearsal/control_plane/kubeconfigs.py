"""Kubeconfigs for the cluster, with client certificates.

The account's kubeconfigs are signed by a separate authority. Replacing it revokes them all: the API server reloads its
file of client authorities when the file changes.
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
"""The Kubernetes group with all permissions; a certificate names it as its organization."""


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600 from the start."""
    path.touch(mode=0o600)
    path.write_bytes(content)


def kubeconfig(server: str, authority: bytes, user: Mapping[str, str]) -> bytes:
    """Return a kubeconfig for a server's URL, its authority in PEM and a `user` entry."""

    def entry(kind: str, value: object) -> list[dict[str, object]]:
        return [{"name": "rehearsal", kind: value}]

    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rehearsal",
            "clusters": entry("cluster", {"server": server, "certificate-authority-data": _base64(authority)}),
            "users": entry("user", dict(user)),
            "contexts": entry("context", {"cluster": "rehearsal", "user": "rehearsal"}),
        }
    ).encode()


def certificate_user(
    authority: trustme.CA, name: str, group: str | None = None, expiry: datetime.datetime | None = None
) -> dict[str, str]:
    """Return a `user` entry with a new client certificate for a Kubernetes user and group."""
    # "client" is required: trustme marks an empty list of names as critical, and the API server refuses that.
    certificate = authority.issue_cert("client", common_name=name, organization_name=group, not_after=expiry)
    return {
        "client-certificate-data": _base64(certificate.cert_chain_pems[0].bytes()),
        "client-key-data": _base64(certificate.private_key_pem.bytes()),
    }


def renew_kubeconfig(layout: Layout) -> None:
    """Replace `layout.kubeconfig` by a new long-lived kubeconfig; the API server refuses all earlier ones."""
    authority = trustme.CA()
    layout.credentials_authority.unlink(missing_ok=True)
    write_private(layout.credentials_authority, authority.private_key_pem.bytes() + authority.cert_pem.bytes())
    draft = layout.client_authorities.with_suffix(".new")
    draft.write_bytes(layout.server_authority.read_bytes() + authority.cert_pem.bytes())
    os.replace(draft, layout.client_authorities)
    layout.kubeconfig.unlink(missing_ok=True)
    write_private(layout.kubeconfig, _administrator(layout, authority))


def temporary_kubeconfig(layout: Layout, expiry: datetime.datetime) -> str:
    """Return a kubeconfig that the API server accepts until `expiry`."""
    pem = layout.credentials_authority.read_bytes()
    return _administrator(layout, trustme.CA.from_pem(pem, pem), expiry).decode()


def _administrator(layout: Layout, authority: trustme.CA, expiry: datetime.datetime | None = None) -> bytes:
    user = certificate_user(authority, "kubernetes-admin", ADMINISTRATORS, expiry)
    return kubeconfig(layout.api_server, layout.server_authority.read_bytes(), user)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
