"""The simulated GPU exporter, with the series and labels that the guide's rules read from ACK's exporter.

A node has series while an exporter pod is Ready on it. `DCGM_CUSTOM_PROCESS_*` describe a pod with a GPU process: a
Ready pod that is not terminating and not a placeholder. `DCGM_FI_*` describe a card, with the labels of a pod that has
the whole card. Memory bandwidth follows SM utilization. Encoder and decoder are always idle.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from autoscaling.ack.card_modes import GPU_MEMORY, WHOLE_GPU
from autoscaling.ack.placeholders import is_pause_image
from live.cluster_client import Object
from rehearsal.simulation.cards import MEMORY_LABEL, pods_on_cards, requested_gpus
from rehearsal.simulation.cluster_copy import ClusterCopy
from rehearsal.simulation.exporter_agent import exporting_nodes
from rehearsal.simulation.inference import MEMORY_USED_MIB, InferenceServers
from rehearsal.simulation.scaling_groups import MODEL_LABEL

ANSWERED = "rehearsal_requests_answered"
"""A series of the rehearsal only, for its timeline."""

_CARD_LABELS = ["UUID", "device", "gpu", "modelName", "Hostname", "NodeName"]
_POD_LABELS = ["NamespaceName", "PodName", "ContainerName"]


class GpuCollector(Collector):
    """Collect the series for the current state of the cluster."""

    def __init__(self, cluster: ClusterCopy, servers: InferenceServers) -> None:
        self._cluster = cluster
        self._servers = servers

    def collect(self) -> Iterator[Metric]:
        labels = _CARD_LABELS + _POD_LABELS

        def gauge(name: str, text: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(name, text, labels=labels)

        use = gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).")
        memory = gauge("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).")
        copy = gauge("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).")
        encoder = gauge("DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %).")
        decoder = gauge("DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %).")
        active = gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.")
        process_use = gauge("DCGM_CUSTOM_PROCESS_SM_UTIL", "SM utilization of the process (in %).")
        process_memory = gauge("DCGM_CUSTOM_PROCESS_MEM_USED", "GPU memory used by the process (in MiB).")
        allocated = gauge("DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED", "GPU memory allocated (in MiB).")
        exporting = exporting_nodes(self._cluster.pods)
        for node in self._cluster.nodes:
            if node["metadata"]["name"] not in exporting:
                continue
            total = int(node["metadata"].get("labels", {}).get(MEMORY_LABEL, "0").removesuffix("MiB"))
            for index, pods in enumerate(pods_on_cards(node, self._cluster.pods)):
                card = _card(node, index)
                card_use = card_memory = 0.0
                for pod in pods:
                    owner = [*card, *_owner(pod)]
                    allocated.add_metric(owner, _allocated_mib(pod, total))
                    if is_pause_image(pod["spec"]["containers"][0]["image"]):
                        continue
                    own_use, own_memory = self._use(pod), min(MEMORY_USED_MIB, _allocated_mib(pod, total))
                    card_use, card_memory = card_use + own_use, card_memory + own_memory
                    process_use.add_metric(owner, own_use)
                    process_memory.add_metric(owner, own_memory)
                whole = len(pods) == 1 and GPU_MEMORY not in requested_gpus(pods[0])
                holder = [*card, *(_owner(pods[0]) if whole else ("", "", ""))]
                for family in (use, copy):
                    family.add_metric(holder, min(100, card_use))
                memory.add_metric(holder, card_memory)
                active.add_metric(holder, min(1, card_use / 100))
                for family in (encoder, decoder):
                    family.add_metric(holder, 0)
        yield from (use, memory, copy, encoder, decoder, active, process_use, process_memory, allocated)
        yield CounterMetricFamily(ANSWERED, "Requests answered by all services.", value=self._servers.answered)

    def _use(self, pod: Object) -> float:
        # A pod distributes its work evenly over its cards.
        return self._servers.server_of(pod["metadata"]["uid"]).sm_percent() / requested_gpus(pod).get(WHOLE_GPU, 1)


def _owner(pod: Object) -> tuple[str, str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]


def _allocated_mib(pod: Object, card: int) -> int:
    return requested_gpus(pod).get(GPU_MEMORY, 0) * 1024 or card


def _card(node: Object, index: int) -> list[str]:
    name, model = node["metadata"]["name"], node["metadata"].get("labels", {}).get(MODEL_LABEL, "")
    return [f"GPU-{node['metadata']['uid'][:-1]}{index:x}", f"nvidia{index}", str(index), model, name, name]


def application(cluster: ClusterCopy, servers: InferenceServers) -> web.Application:
    """Serve `/metrics` in the Prometheus text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(GpuCollector(cluster, servers))
    encode, content_type = exposition.choose_encoder("text/plain")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app
