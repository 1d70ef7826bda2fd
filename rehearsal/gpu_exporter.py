"""The simulated GPU exporter: the series and labels that the guide's rules expect of ACK's.

Which series exist follows what is known of the real one: `DCGM_CUSTOM_*` for a pod that runs a GPU process, which
is one that is Ready and not terminating; `DCGM_FI_DEV_*` for each card, with the pod's labels where a pod has the
card for itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rehearsal.inference import MEMORY_USED_MIB, InferenceServers
from rehearsal.node_pools import MEMORY_LABEL, MODEL_LABEL
from rehearsal.watch import Cluster, Object, gpus, is_serving

ANSWERED = "rehearsal_requests_answered"
"""A series of the rehearsal's own, for its timeline."""

_CARD_LABELS = ["UUID", "device", "gpu", "modelName", "Hostname", "NodeName"]
_POD_LABELS = ["NamespaceName", "PodName", "ContainerName"]


class _GpuCollector(Collector):
    def __init__(self, cluster: Cluster, servers: InferenceServers) -> None:
        self._cluster = cluster
        self._servers = servers

    def collect(self) -> Iterator[Metric]:
        labels = _CARD_LABELS + _POD_LABELS

        def gauge(name: str, text: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(name, text, labels=labels)

        card_use = gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).")
        card_memory = gauge("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).")
        process_use = gauge("DCGM_CUSTOM_PROCESS_SM_UTIL", "SM utilization of the process (in %).")
        process_memory = gauge("DCGM_CUSTOM_PROCESS_MEM_USED", "GPU memory used by the process (in MiB).")
        allocated = gauge("DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED", "GPU memory allocated (in MiB).")
        for node in self._cluster.nodes:
            total = int(node["metadata"].get("labels", {}).get(MEMORY_LABEL, "0").removesuffix("MiB"))
            for card, pod in _cards(node, self._cluster.pods):
                if pod is None:
                    card_use.add_metric([*card, "", "", ""], 0)
                    card_memory.add_metric([*card, "", "", ""], 0)
                    continue
                container = pod["spec"]["containers"][0]["name"]
                owner = [*card, pod["metadata"]["namespace"], pod["metadata"]["name"], container]
                # A pod with several cards spreads its work over them.
                use = self._servers.of(pod["metadata"]["uid"]).sm_percent() / gpus(pod)
                card_use.add_metric(owner, use)
                card_memory.add_metric(owner, MEMORY_USED_MIB)
                process_use.add_metric(owner, use)
                process_memory.add_metric(owner, MEMORY_USED_MIB)
                allocated.add_metric(owner, total)
        yield from (card_use, card_memory, process_use, process_memory, allocated)
        yield CounterMetricFamily(ANSWERED, "Requests answered by all services.", value=self._servers.answered)


def _cards(node: Object, pods: list[Object]) -> Iterator[tuple[list[str], Object | None]]:
    name = node["metadata"]["name"]
    model = node["metadata"].get("labels", {}).get(MODEL_LABEL, "")
    holders = [pod for pod in pods if pod["spec"].get("nodeName") == name and is_serving(pod) for _ in range(gpus(pod))]
    for index in range(int(node["status"].get("capacity", {}).get("nvidia.com/gpu", 0))):
        uuid = f"GPU-{node['metadata']['uid'][:-1]}{index:x}"
        card = [uuid, f"nvidia{index}", str(index), model, name, name]
        yield card, holders[index] if index < len(holders) else None


def application(cluster: Cluster, servers: InferenceServers) -> web.Application:
    """`/metrics` in the Prometheus text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_GpuCollector(cluster, servers))
    encode, content_type = exposition.choose_encoder("text/plain")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app
