"""Runs the real prometheus-adapter for the pod that the chart deploys.

What a kubelet does for a pod's container is done here on the host: the pod's arguments, its mounted ConfigMap, its
service account's token and its Service's address decide how the process runs, and the pod is Ready only while the
process serves. So what Helm installs is what runs, and Helm waits for the real thing.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml
from kubernetes import client

from rehearsal.control_plane import certificates
from rehearsal.control_plane.kwok import SERVING_GATE
from rehearsal.layout import PORTS, Layout
from rehearsal.processes import Processes
from rehearsal.simulation.watch import Cluster, Object, condition, selects

_ANNOTATION = "rehearsal.ackgpu/run-on-host"
_RESTART_SECONDS = 2.0


@dataclass(frozen=True)
class _Wanted:
    """All that decides how the process runs; a change of any of it restarts the process."""

    pod_uid: str
    arguments: tuple[str, ...]
    configuration: str
    service_account: str
    address: str
    port: int


class AdapterAgent:
    """Keeps the one process equal to the newest pod that asks for it."""

    process_name = "prometheus-adapter"

    def __init__(self, layout: Layout, tools: Path, cluster: Cluster, processes: Processes) -> None:
        self._layout = layout
        self._binary = tools / self.process_name
        self._cluster = cluster
        self._processes = processes
        self._running: _Wanted | None = None
        self._not_before = 0.0
        # The certificate is the process' own; the APIService skips its check, as the vendor's does.
        self._probe = httpx.AsyncClient(verify=False, trust_env=False, timeout=2)

    async def reconcile(self) -> None:
        """One round: start, restart or stop the process, and tell the pods whether it serves."""
        pods = [
            pod
            for pod in self._cluster.pods
            if _ANNOTATION in pod["metadata"].get("annotations", {})
            and pod.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]
        pods.sort(key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        pod = pods[-1] if pods else None
        wanted = self._wanted(pod) if pod else None
        await self._run(wanted, pod)
        serving = wanted is not None and await self._serves(wanted)
        for other in pods:
            await self._report(other, serving and other is pod)

    async def close(self) -> None:
        """Stop the process."""
        await self._stop()
        await self._probe.aclose()

    def _wanted(self, pod: Object) -> _Wanted | None:
        metadata, spec = pod["metadata"], pod["spec"]
        service = next((service for service in self._cluster.services if selects(service, pod)), None)
        names = [volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume]
        config_map = next(
            (
                item
                for item in self._cluster.config_maps
                if item["metadata"]["namespace"] == metadata["namespace"] and item["metadata"]["name"] in names
            ),
            None,
        )
        if service is None or config_map is None or "config.yaml" not in (config_map.get("data") or {}):
            return None
        return _Wanted(
            pod_uid=metadata["uid"],
            arguments=tuple(spec["containers"][0]["args"]),
            configuration=config_map["data"]["config.yaml"],
            service_account=spec["serviceAccountName"],
            address=service["spec"]["clusterIP"],
            port=service["spec"]["ports"][0]["port"],
        )

    async def _run(self, wanted: _Wanted | None, pod: Object | None) -> None:
        if wanted == self._running and (wanted is None or self._processes.running(self.process_name)):
            return
        if self._running is not None:
            await self._stop()
        if wanted is None or pod is None or time.monotonic() < self._not_before:
            return
        self._not_before = time.monotonic() + _RESTART_SECONDS
        folder = self._layout.cloud / "adapter"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        await self._write_kubeconfig(folder, wanted, pod["metadata"]["namespace"])
        (folder / "config.yaml").write_text(vendor_configuration(wanted.configuration))
        kubeconfig = folder / "kubeconfig"
        self._processes.start(
            self.process_name,
            [
                self._binary,
                *(argument for argument in wanted.arguments if not argument.startswith("--config=")),
                f"--config={folder / 'config.yaml'}",
                f"--lister-kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                f"--bind-address={wanted.address}",
                f"--secure-port={wanted.port}",
                f"--cert-dir={folder}",
            ],
        )
        self._running = wanted

    async def _stop(self) -> None:
        await asyncio.to_thread(self._processes.stop, self.process_name)
        self._running = None

    async def _write_kubeconfig(self, folder: Path, wanted: _Wanted, namespace: str) -> None:
        request = client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=86_400)
        )
        answer = await asyncio.to_thread(
            self._cluster.core.create_namespaced_service_account_token,
            wanted.service_account,
            namespace,
            request,
        )
        authority = (self._layout.cloud / "control-plane" / "ca.crt").read_bytes()
        server = f"https://{self._layout.address}:{PORTS.api_server}"
        content = certificates.kubeconfig(server, authority, {"token": answer.status.token})
        certificates.write_private(folder / "kubeconfig", content)

    async def _serves(self, wanted: _Wanted) -> bool:
        if not self._processes.running(self.process_name):
            return False
        try:
            answer = await self._probe.get(f"https://{wanted.address}:{wanted.port}/readyz")
        except httpx.HTTPError:
            return False
        return answer.is_success

    async def _report(self, pod: Object, serving: bool) -> None:
        status = "True" if serving else "False"
        if condition(pod, SERVING_GATE) == status:
            return
        body = {"status": {"conditions": [{"type": SERVING_GATE, "status": status}]}}
        metadata = pod["metadata"]
        try:
            await asyncio.to_thread(
                self._cluster.core.patch_namespaced_pod_status, metadata["name"], metadata["namespace"], body
            )
        except client.ApiException as error:
            # Gone since the last look; the next round sees it.
            if error.status != 404:
                raise


def vendor_configuration(configuration: str) -> str:
    """The rules, given to external metrics too: the vendor's adapter hands its rules to both providers."""
    try:
        rules = yaml.safe_load(configuration)["rules"] or []
    except (yaml.YAMLError, TypeError, KeyError):
        # Upstream's says what is wrong with it, and ends.
        return configuration
    return yaml.safe_dump({"rules": rules, "externalRules": rules}, sort_keys=False)
