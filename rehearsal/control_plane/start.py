"""Start the real etcd, Kubernetes control plane, kwok and Prometheus on the checkout's loopback address."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import trustme
import yaml

from rehearsal.control_plane.kubeconfigs import (
    ADMINISTRATORS,
    certificate_user,
    kubeconfig,
    renew_kubeconfig,
    write_private,
)
from rehearsal.errors import RehearsalError
from rehearsal.layout import PORTS, Layout
from rehearsal.processes import Processes

_START_SECONDS = 60
_SCRAPE_INTERVAL = "1s"

_FRONT_PROXY = "front-proxy-client"
"""Common name of the client certificate that the API server presents to an extension server."""

NODE_ANNOTATION = ("kwok.x-k8s.io/node", "fake")
"""Annotation of the nodes that kwok simulates."""


def start_control_plane(
    layout: Layout, tools: Path, processes: Processes, controller_manager_flags: Sequence[str] = ()
) -> None:
    """Start everything; return when the API server and Prometheus are ready.

    `controller_manager_flags` follow the default flags and override them.

    Raises:
        RehearsalError: a process ended or was not ready within a minute.
    """
    folder = layout.control_plane
    folder.mkdir()
    _write_credentials(layout, folder)
    _start_etcd(layout, tools, processes, folder)
    _start_api_server(layout, tools, processes, folder)
    context = ssl.create_default_context(cafile=str(layout.server_authority))
    _wait("kube-apiserver", processes, f"{layout.api_server}/readyz", context)
    _start_controllers(layout, tools, processes, folder, controller_manager_flags)
    _start_prometheus(layout, tools, processes)


def _write_credentials(layout: Layout, folder: Path) -> None:
    authority, front_proxy = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(layout.server_authority)
    front_proxy.cert_pem.write_to_path(folder / "front-proxy-ca.crt")
    addresses = (layout.address, layout.intranet_address)
    pairs = {
        "api-server": authority.issue_cert(*addresses, "localhost", "kubernetes.default.svc"),
        "etcd": authority.issue_cert(layout.address),
        "front-proxy-client": front_proxy.issue_cert(_FRONT_PROXY, common_name=_FRONT_PROXY),
    }
    for name, pair in pairs.items():
        pair.cert_chain_pems[0].write_to_path(folder / f"{name}.crt")
        write_private(folder / f"{name}.key", pair.private_key_pem.bytes())
    # Any private key can sign service account tokens.
    write_private(folder / "service-account.key", trustme.CA().private_key_pem.bytes())
    users = {
        "kube-controller-manager": "system:kube-controller-manager",
        "kube-scheduler": "system:kube-scheduler",
        "kwok": "kwok",
        layout.own_kubeconfig.stem: "rehearsal",
    }
    for name, user in users.items():
        entry = certificate_user(authority, user, ADMINISTRATORS)
        write_private(folder / f"{name}.kubeconfig", kubeconfig(layout.api_server, authority.cert_pem.bytes(), entry))
    renew_kubeconfig(layout)


def _start_etcd(layout: Layout, tools: Path, processes: Processes, folder: Path) -> None:
    client = f"https://{layout.address}:{PORTS.etcd}"
    peer = f"http://{layout.address}:{PORTS.etcd_peer}"
    processes.start(
        "etcd",
        [
            tools / "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--trusted-ca-file={folder / 'ca.crt'}",
            f"--cert-file={folder / 'etcd.crt'}",
            f"--key-file={folder / 'etcd.key'}",
            "--client-cert-auth",
            "--unsafe-no-fsync",
            "--logger=zap",
            "--log-level=warn",
        ],
    )


def _start_api_server(layout: Layout, tools: Path, processes: Processes, folder: Path) -> None:
    processes.start(
        "kube-apiserver",
        [
            tools / "kube-apiserver",
            f"--bind-address={layout.address}",
            f"--secure-port={PORTS.api_server}",
            # The API server refuses a loopback address as the endpoint of the Service `kubernetes`.
            "--advertise-address=10.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--etcd-servers=https://{layout.address}:{PORTS.etcd}",
            f"--etcd-cafile={folder / 'ca.crt'}",
            f"--etcd-certfile={folder / 'etcd.crt'}",
            f"--etcd-keyfile={folder / 'etcd.key'}",
            f"--client-ca-file={layout.client_authorities}",
            f"--tls-cert-file={folder / 'api-server.crt'}",
            f"--tls-private-key-file={folder / 'api-server.key'}",
            f"--service-account-key-file={folder / 'service-account.key'}",
            f"--service-account-signing-key-file={folder / 'service-account.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--requestheader-client-ca-file={folder / 'front-proxy-ca.crt'}",
            f"--requestheader-allowed-names={_FRONT_PROXY}",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={folder / 'front-proxy-client.crt'}",
            f"--proxy-client-key-file={folder / 'front-proxy-client.key'}",
            "--authorization-mode=RBAC",
            # On loopback: a process on the host can then listen on a Service's cluster IP.
            f"--service-cluster-ip-range={layout.service_network}",
            f"--cert-dir={folder}",
        ],
    )


def _start_controllers(
    layout: Layout, tools: Path, processes: Processes, folder: Path, controller_manager_flags: Sequence[str]
) -> None:
    def common_flags(name: str) -> list[str]:
        path = folder / f"{name}.kubeconfig"
        return [
            f"--kubeconfig={path}",
            f"--authentication-kubeconfig={path}",
            f"--authorization-kubeconfig={path}",
            f"--bind-address={layout.address}",
            f"--cert-dir={folder / name}",
            "--leader-elect=false",
        ]

    processes.start(
        "kube-controller-manager",
        [
            tools / "kube-controller-manager",
            *common_flags("kube-controller-manager"),
            f"--secure-port={PORTS.controller_manager}",
            f"--root-ca-file={folder / 'ca.crt'}",
            f"--service-account-private-key-file={folder / 'service-account.key'}",
            # The default is 15 s; the rehearsal runs on shorter times.
            "--horizontal-pod-autoscaler-sync-period=2s",
            "--node-monitor-grace-period=1h",
            "--profiling=false",
            *controller_manager_flags,
        ],
    )
    processes.start(
        "kube-scheduler",
        [
            tools / "kube-scheduler",
            *common_flags("kube-scheduler"),
            f"--secure-port={PORTS.scheduler}",
            "--profiling=false",
        ],
    )
    stages = folder / "stages.yaml"
    stages.write_text(_kwok_stages())
    processes.start(
        "kwok",
        [
            tools / "kwok",
            f"--kubeconfig={folder / 'kwok.kubeconfig'}",
            f"--config={stages}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={'='.join(NODE_ANNOTATION)}",
            "--node-lease-duration-seconds=40",
            f"--server-address={layout.address}:{PORTS.kwok}",
        ],
    )


def _kwok_stages() -> str:
    specs = yaml.safe_load(Path(__file__).with_name("kwok_stages.yaml").read_text())
    header = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage"}
    return yaml.safe_dump_all([{**header, "metadata": {"name": name}, "spec": spec} for name, spec in specs.items()])


def _start_prometheus(layout: Layout, tools: Path, processes: Processes) -> None:
    folder = layout.cloud / "prometheus"
    folder.mkdir()
    target = f"{layout.address}:{PORTS.gpu_exporter}"
    config = {
        "global": {"scrape_interval": _SCRAPE_INTERVAL, "scrape_timeout": _SCRAPE_INTERVAL},
        "scrape_configs": [
            {"job_name": "gpu-exporter", "honor_labels": True, "static_configs": [{"targets": [target]}]}
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    address = f"{layout.address}:{PORTS.prometheus}"
    processes.start(
        "prometheus",
        [
            tools / "prometheus",
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        ],
    )
    _wait("Prometheus", processes, f"http://{address}/-/ready")


def _wait(name: str, processes: Processes, url: str, context: ssl.SSLContext | bool = False) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        processes.check()
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url, verify=context, trust_env=False).is_success:
                return
        time.sleep(0.1)
    raise RehearsalError(f"{name} was not ready within {_START_SECONDS} s. See {processes.log_path(name.lower())}.")
