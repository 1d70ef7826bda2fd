"""The folders, loopback addresses and ports of a checkout's rehearsal cloud."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
STACK = "rehearsal"
PASSPHRASE = "rehearsal"
"""Encrypts the state of a cloud that exists for minutes on loopback; it is not a secret."""


@dataclass(frozen=True)
class Layout:
    """Paths and addresses of the cloud of one checkout.

    The addresses follow from the checkout's path, so that two checkouts can rehearse at the same time and a chart
    gets the same values at each run. Linux answers on all of 127.0.0.0/8.
    """

    checkout: Path = CHECKOUT

    @property
    def output(self) -> Path:
        """The folder that a rehearsal leaves: report, picture, logs."""
        return self.checkout / "build" / "rehearsal"

    @property
    def logs(self) -> Path:
        return self.output / "logs"

    @property
    def cloud(self) -> Path:
        """State of the running cloud; it is deleted when the cloud ends."""
        return self.output / "cloud"

    @property
    def store(self) -> Path:
        return self.cloud / "cloud.json"

    @property
    def kubeconfig(self) -> Path:
        return self.cloud / "kubeconfig"

    @property
    def control_plane(self) -> Path:
        """Keys, certificates and data of etcd and Kubernetes."""
        return self.cloud / "control-plane"

    @property
    def client_authorities(self) -> Path:
        """The authorities whose client certificates the API server accepts."""
        return self.control_plane / "client-ca.crt"

    @property
    def own_kubeconfig(self) -> Path:
        """The simulation's own access to the cluster."""
        return self.control_plane / "rehearsal.kubeconfig"

    @property
    def prometheus_api_url(self) -> Path:
        return self.cloud / "prometheus_api_url"

    @property
    def environment_file(self) -> Path:
        return self.cloud / "env.sh"

    @property
    def pid_file(self) -> Path:
        return self.cloud / "supervisor.pid"

    @property
    def ready_file(self) -> Path:
        return self.cloud / "ready"

    @property
    def pulumi_home(self) -> Path:
        return self.cloud / "pulumi"

    @property
    def commands(self) -> Path:
        """The folder of the tools that people call; the other tools must not be on PATH."""
        return self.cloud / "bin"

    @property
    def backend(self) -> Path:
        return self.cloud / "backend"

    @property
    def home(self) -> Path:
        return self.cloud / "home"

    @property
    def temporary(self) -> Path:
        return self.cloud / "tmp"

    @property
    def _digest(self) -> bytes:
        return hashlib.sha256(str(self.checkout).encode()).digest()

    @property
    def _network(self) -> str:
        return f"127.{64 + self._digest[0] % 64}.{self._digest[1]}"

    @property
    def service_network(self) -> str:
        """CIDR of the cluster IPs of Services."""
        return f"127.{128 + self._digest[0] % 64}.{self._digest[1]}.0/24"

    @property
    def address(self) -> str:
        """Address of the control plane, Prometheus, the adapter and the exporter; the API server's public endpoint."""
        return f"{self._network}.1"

    @property
    def intranet_address(self) -> str:
        """The API server's address in the VPC."""
        return f"{self._network}.2"

    def load_balancer_address(self, index: int, *, intranet: bool = False) -> str:
        """Address of the load balancer number `index`: 0..189, or 0..44 in the intranet."""
        return f"{self._network}.{(200 if intranet else 10) + index}"


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


def cache_folder() -> Path:
    """`$ACKGPU_CACHE`, else `$XDG_CACHE_HOME/ackgpu`, else `~/.cache/ackgpu`."""
    if chosen := os.environ.get("ACKGPU_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "ackgpu"
