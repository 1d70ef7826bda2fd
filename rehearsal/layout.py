"""The folders, loopback addresses and ports of a checkout's rehearsal cloud."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
STACK = "rehearsal"
PASSPHRASE = "rehearsal"
"""Passphrase for the state of a cloud that lives for minutes on loopback; it is not a secret."""


@dataclass(frozen=True)
class Ports:
    """Fixed ports on the cloud's own address."""

    etcd: int = 2379
    etcd_peer: int = 2380
    api_server: int = 6443
    controller_manager: int = 10257
    scheduler: int = 10259
    kwok: int = 10247
    prometheus: int = 9091
    managed_prometheus: int = 9090
    gpu_exporter: int = 9400


PORTS = Ports()


class Layout:
    """Paths and addresses of a checkout's cloud.

    The addresses are derived from the checkout's path. Two checkouts can therefore run a cloud at the same time, and a
    chart gets the same values in each run. On Linux all of 127.0.0.0/8 is loopback.
    """

    def __init__(self, checkout: Path = CHECKOUT) -> None:
        self.checkout = checkout
        self.output = checkout / "build" / "rehearsal"
        """The folder that a rehearsal keeps: report, picture and logs."""
        self.supervisor_log = self.output / "supervisor.log"
        self.logs = self.output / "logs"
        self.cloud = cloud = self.output / "cloud"
        """State of the running cloud, deleted when the cloud stops."""
        self.store = cloud / "cloud.json"
        self.kubeconfig = cloud / "kubeconfig"
        self.control_plane = cloud / "control-plane"
        """Keys, certificates and data of etcd and Kubernetes."""
        self.server_authority = self.control_plane / "ca.crt"
        self.credentials_authority = self.control_plane / "credentials.pem"
        """Certificate and key of the authority that signs the account's kubeconfigs."""
        self.client_authorities = self.control_plane / "client-ca.crt"
        """The authorities whose client certificates the API server accepts."""
        self.own_kubeconfig = self.control_plane / "rehearsal.kubeconfig"
        """Kubeconfig that the simulation itself uses to reach the cluster."""
        self.prometheus_api_url = cloud / "prometheus_api_url"
        self.environment_file = cloud / "env.sh"
        self.pid_file = cloud / "supervisor.pid"
        self.ready_file = cloud / "ready"
        self.pulumi_home = cloud / "pulumi"
        self.commands = cloud / "bin"
        """The commands for users; the other tools must not be on PATH."""
        self.backend = cloud / "backend"
        self.home = cloud / "home"
        self.temporary = cloud / "tmp"
        digest = hashlib.sha256(str(checkout).encode()).digest()
        self._network = f"127.{64 + digest[0] % 64}.{digest[1]}"
        self.service_network = f"127.{128 + digest[0] % 64}.{digest[1]}.0/24"
        """CIDR of the cluster IPs of Services."""
        self.address = f"{self._network}.1"
        """Address of the control plane, Prometheus, the adapter and the exporter; the API server's public endpoint."""
        self.api_server = f"https://{self.address}:{PORTS.api_server}"
        self.intranet_address = f"{self._network}.2"
        """The API server's address in the VPC."""

    def load_balancer_address(self, index: int, *, intranet: bool = False) -> str:
        """Return the address of load balancer number `index`: 0..189, or 0..44 in the intranet."""
        return f"{self._network}.{(200 if intranet else 10) + index}"


def cache_folder() -> Path:
    """Return `$ACKGPU_CACHE`, else `$XDG_CACHE_HOME/ackgpu`, else `~/.cache/ackgpu`."""
    if chosen := os.environ.get("ACKGPU_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "ackgpu"
