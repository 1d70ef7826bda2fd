"""The kubeconfigs that the vendor hands out for the cluster, with client certificates of an authority of their own.

The control plane's own parts have another authority, so that all that was handed out can be revoked at once: the API
server reads the file of authorities anew when it changes.
"""

from __future__ import annotations

import datetime
import os

from rehearsal.control_plane.certificates import (
    CertificateAuthority,
    KeyPair,
    client_certificate_user,
    kubeconfig,
    write_private,
)
from rehearsal.layout import PORTS, Layout

_AUTHORITY = "credentials"
_ADMINISTRATORS = "system:masters"


class Credentials:
    """Of the cluster of a layout, whose control plane was given its own certificates."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def renew(self) -> None:
        """Hand out a new long-lived kubeconfig, in `layout.kubeconfig`; the API server refuses all earlier ones."""
        folder = self._layout.control_plane
        authority = CertificateAuthority(f"rehearsal-{_AUTHORITY}")
        authority.pair.write(folder, _AUTHORITY)
        trusted = (folder / "ca.crt").read_bytes() + authority.certificate
        draft = self._layout.client_authorities.with_suffix(".new")
        draft.write_bytes(trusted)
        os.replace(draft, self._layout.client_authorities)
        self._layout.kubeconfig.unlink(missing_ok=True)
        user = authority.issue("kubernetes-admin", groups=[_ADMINISTRATORS])
        write_private(self._layout.kubeconfig, self._kubeconfig(user))

    def temporary(self, validity: datetime.timedelta) -> str:
        """A kubeconfig whose certificate the API server takes that long, from now on."""
        authority = CertificateAuthority.of(KeyPair.read(self._layout.control_plane, _AUTHORITY))
        user = authority.issue("kubernetes-admin", groups=[_ADMINISTRATORS], validity=validity)
        return self._kubeconfig(user).decode()

    def _kubeconfig(self, user: KeyPair) -> bytes:
        server = f"https://{self._layout.address}:{PORTS.api_server}"
        authority = (self._layout.control_plane / "ca.crt").read_bytes()
        return kubeconfig(server, authority, client_certificate_user(user))
