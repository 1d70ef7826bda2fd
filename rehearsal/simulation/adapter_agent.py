"""Run the real prometheus-adapter on the host for the pod that the chart deploys.

The agent acts as the kubelet of this pod. It runs the process with the pod's arguments, ConfigMap and service account,
on the address of its Service. The pod is Ready only while the process is serving.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from live.cluster_client import Object
from live.verify.cluster_reader import condition
from rehearsal.control_plane.kubeconfigs import kubeconfig, write_private
from rehearsal.layout import Layout
from rehearsal.processes import Processes
from rehearsal.simulation.cluster_copy import ClusterCopy, selects

_ANNOTATION = "rehearsal.ackgpu/run-on-host"
_SERVING_GATE = "rehearsal.ackgpu/Serving"
"""Readiness gate of a pod whose process runs on the host; see `kwok_stages.yaml`."""
_RESTART_SECONDS = 2.0


@dataclass(frozen=True)
class _DesiredProcess:
    """The desired state of the process; a change restarts the process."""

    pod_uid: str
    namespace: str
    arguments: tuple[str, ...]
    configuration: str
    service_account: str
    address: str
    port: int


class AdapterAgent:
    """Run a process for the newest pod with the annotation."""

    process_name = "prometheus-adapter"

    def __init__(self, layout: Layout, tools: Path, cluster: ClusterCopy, processes: Processes) -> None:
        self._layout = layout
        self._binary = tools / self.process_name
        self._cluster = cluster
        self._processes = processes
        self._running: _DesiredProcess | None = None
        self._not_before = 0.0
        # The process has a self-signed certificate. As at the vendor, the APIService does not verify it.
        self._probe = httpx.AsyncClient(verify=False, trust_env=False, timeout=2)

    async def reconcile(self) -> None:
        """Start, restart or stop the process, and set the readiness gate of the pods."""
        pods = [
            pod
            for pod in self._cluster.pods
            if _ANNOTATION in pod["metadata"].get("annotations", {})
            and pod.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]
        pods.sort(key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        pod = pods[-1] if pods else None
        desired = self._desired(pod) if pod else None
        await self._run(desired)
        serving = desired is not None and await self._serves(desired)
        for other in pods:
            await self._report(other, serving and other is pod)

    async def close(self) -> None:
        """Stop the process."""
        await self._stop()
        await self._probe.aclose()

    def _desired(self, pod: Object) -> _DesiredProcess | None:
        metadata, spec = pod["metadata"], pod["spec"]
        service = next((service for service in self._cluster.services if selects(service, pod)), None)
        names = [volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume]
        configurations = [
            config_map["data"]["config.yaml"]
            for config_map in self._cluster.config_maps
            if config_map["metadata"]["namespace"] == metadata["namespace"]
            and config_map["metadata"]["name"] in names
            and "config.yaml" in (config_map.get("data") or {})
        ]
        if service is None or not configurations:
            return None
        return _DesiredProcess(
            pod_uid=metadata["uid"],
            namespace=metadata["namespace"],
            arguments=tuple(spec["containers"][0]["args"]),
            configuration=configurations[0],
            service_account=spec["serviceAccountName"],
            address=service["spec"]["clusterIP"],
            port=service["spec"]["ports"][0]["port"],
        )

    async def _run(self, desired: _DesiredProcess | None) -> None:
        if desired == self._running and (desired is None or self._processes.running(self.process_name)):
            return
        if self._running is not None:
            await self._stop()
        if desired is None or time.monotonic() < self._not_before:
            return
        self._not_before = time.monotonic() + _RESTART_SECONDS
        folder = self._layout.cloud / "adapter"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        await self._write_kubeconfig(folder, desired)
        (folder / "config.yaml").write_text(vendor_configuration(desired.configuration))
        credentials = folder / "kubeconfig"
        self._processes.start(
            self.process_name,
            [
                self._binary,
                *(argument for argument in desired.arguments if not argument.startswith("--config=")),
                f"--config={folder / 'config.yaml'}",
                f"--lister-kubeconfig={credentials}",
                f"--authentication-kubeconfig={credentials}",
                f"--authorization-kubeconfig={credentials}",
                f"--bind-address={desired.address}",
                f"--secure-port={desired.port}",
                f"--cert-dir={folder}",
            ],
        )
        self._running = desired

    async def _stop(self) -> None:
        await asyncio.to_thread(self._processes.stop, self.process_name)
        self._running = None

    async def _write_kubeconfig(self, folder: Path, desired: _DesiredProcess) -> None:
        response = await asyncio.to_thread(
            self._cluster.core.create_namespaced_service_account_token,
            desired.service_account,
            desired.namespace,
            {"spec": {"audiences": [], "expirationSeconds": 86_400}},
        )
        authority, user = self._layout.server_authority.read_bytes(), {"token": response.status.token}
        write_private(folder / "kubeconfig", kubeconfig(self._layout.api_server, authority, user))

    async def _serves(self, desired: _DesiredProcess) -> bool:
        if not self._processes.running(self.process_name):
            return False
        try:
            response = await self._probe.get(f"https://{desired.address}:{desired.port}/readyz")
        except httpx.HTTPError:
            return False
        return response.is_success

    async def _report(self, pod: Object, serving: bool) -> None:
        status = "True" if serving else "False"
        if condition(pod, _SERVING_GATE).get("status") == status:
            return
        body = {"status": {"conditions": [{"type": _SERVING_GATE, "status": status}]}}
        metadata = pod["metadata"]
        await asyncio.to_thread(
            self._cluster.core.patch_namespaced_pod_status, metadata["name"], metadata["namespace"], body
        )


def vendor_configuration(configuration: str) -> str:
    """Return a configuration with the rules for external metrics too, as the vendor's adapter uses them."""
    try:
        rules = yaml.safe_load(configuration)["rules"] or []
    except (yaml.YAMLError, TypeError, KeyError):
        # The adapter reports the error and exits.
        return configuration
    return yaml.safe_dump({"rules": rules, "externalRules": rules}, sort_keys=False)
