"""Watches a service scale, for the timeline."""

from __future__ import annotations

import threading
import time
from types import TracebackType

import httpx
from kubernetes import client
from kubernetes.utils.quantity import parse_quantity
from prometheus_client.parser import text_string_to_metric_families

from autoscaling.ack.node_labels import POOL_LABEL
from live.checks import ServiceOutputs
from rehearsal.layout import PORTS, Layout
from rehearsal.report import Sample
from rehearsal.simulation.gpu_exporter import ANSWERED

_INTERVAL_SECONDS = 0.5


class Sampler:
    """Takes a sample each half second while its `with` block runs."""

    def __init__(self, layout: Layout, api: client.ApiClient, service: ServiceOutputs) -> None:
        self._url = f"http://{layout.address}:{PORTS.gpu_exporter}/metrics"
        self._service = service
        self._autoscaling = client.AutoscalingV2Api(api)
        self._apps = client.AppsV1Api(api)
        self._core = client.CoreV1Api(api)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")
        self.samples: list[Sample] = []

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        start = time.monotonic()
        before, answered_before = start, self._answered()
        ended = False
        while not ended:
            # The last sample is taken after the end: it is what the walk has led to.
            ended = self._ended.wait(_INTERVAL_SECONDS)
            now, answered = time.monotonic(), self._answered()
            rate = (answered - answered_before) / (now - before)
            before, answered_before = now, answered
            self.samples.append(self._sample(now - start, rate))

    def _sample(self, seconds: float, requests_per_second: float) -> Sample:
        namespace = self._service.namespace
        autoscaler = self._autoscaling.read_namespaced_horizontal_pod_autoscaler(self._service.hpa, namespace)
        deployment = self._apps.read_namespaced_deployment(self._service.deployment, namespace)
        nodes = self._core.list_node(label_selector=POOL_LABEL)
        current = [
            float(parse_quantity(metric.pods.current.average_value))
            for metric in autoscaler.status.current_metrics or []
            if metric.pods
            and metric.pods.metric.name == self._service.metrics[0].name
            and metric.pods.current.average_value is not None
        ]
        return Sample(
            seconds=seconds,
            requests_per_second=requests_per_second,
            metric=current[0] if current else None,
            target=float(self._service.metrics[0].target),
            desired_replicas=autoscaler.status.desired_replicas,
            ready_replicas=deployment.status.ready_replicas or 0,
            gpu_nodes=len(nodes.items),
        )

    def _answered(self) -> float:
        text = httpx.get(self._url, trust_env=False).text
        return next(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"{ANSWERED}_total"
        )
