"""The check of a GPU exporter's metrics for use by an HPA: `./ackgpu check-exporter`.

Sources on dcgm-exporter's pod labels: its README, and in https://github.com/NVIDIA/dcgm-exporter/issues 27 (device
names), 85 (`exported_`), 138 (limits), 188 and 349 (the kubelet's socket), 343 (device plugin and Kubernetes mode).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from autoscaling.metrics.catalogue import LABEL_PRESETS, GpuMetric, LabelPreset, Labels, catalogue

_SETTING = "metricsAdapter.labels"
_INSTANCE = "GPU_I_ID"
"""Label of the series of MIG instances."""
_LISTED_PODS = 3


class DumpError(Exception):
    """The text is not a GPU exporter's dump. The message is a full sentence for the user."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on a dump, with its explanation."""

    usable: bool
    """Whether an HPA can use at least one of its metrics."""
    text: str


def judge(dump: str, preset: LabelPreset) -> Judgement:
    """Report the labels of a dump and whether they name pods, or what to do if they do not.

    Args:
        dump: an exporter's `/metrics`, or Prometheus' `/federate`, in the text format.
        preset: names of the labels in the adapter's rules.

    Raises:
        DumpError: the dump is not in the text format, or has no GPU series.
    """
    series = _gpu_series(dump)
    lines = [_inventory(series)]
    if preset == "upstream-exported" and _owned(series, catalogue().labels["upstream"]):
        lines.append(
            "This is the exporter's own output. If Prometheus scrapes the exporter without honor_labels: true, it adds "
            f"the prefix exported_ to namespace and pod. With {_SETTING} set to {preset}, the adapter uses this prefix."
        )
        preset = "upstream"
    labels = catalogue().labels[preset]
    owned = _owned(series, labels)
    usable = _usable_metrics(owned, preset)
    if owned:
        lines.append(_owners(series, owned, labels))
        lines.append(
            f"An HPA can use {', '.join(usable)}."
            if usable
            else f"No HPA can use these series with {_SETTING} set to {preset}: docs/metrics.md lists the metrics "
            "that an HPA can use."
        )
    else:
        lines += _no_owner(series, labels, preset)
    if any(sample.labels.get(_INSTANCE) for sample in series):
        lines.append(
            f"Some series belong to MIG instances ({_INSTANCE}). Their DCGM_FI_DEV_GPU_UTIL is missing or always 0: "
            "set gpuNodePool.cardMode to mig, and use the metric DCGM_FI_PROF_GR_ENGINE_ACTIVE."
        )
    return Judgement(bool(usable), "\n".join(lines))


def _gpu_series(dump: str) -> list[Sample]:
    try:
        samples = [sample for family in text_string_to_metric_families(dump) for sample in family.samples]
    except ValueError as error:
        raise DumpError(
            f"It is not in the Prometheus text format ({error}): save the exporter's /metrics page as FILE."
        ) from None
    series = [sample for sample in samples if sample.name.startswith("DCGM_")]
    if not series:
        raise DumpError(
            "It has no DCGM_* series: either FILE is not from a GPU exporter, or the exporter sees no GPU. Check the "
            "exporter's log."
        )
    return series


def _inventory(series: Sequence[Sample]) -> str:
    cards = {
        sample.labels.get("UUID") or sample.labels.get("gpu", "?"): sample.labels.get("modelName", "")
        for sample in series
    }
    models = sorted(set(cards.values()) - {""})
    names = sorted({label for sample in series for label in sample.labels})
    content = f"{len(cards)} card{'s' if len(cards) > 1 else ''}" + (f" ({', '.join(models)})" if models else "")
    return f"{len(series)} series of {content}, with the labels {', '.join(names)}."


def _owned(series: Sequence[Sample], labels: Labels) -> list[Sample]:
    """Return the series with a workload's namespace and pod."""
    if any(sample.labels.get(f"exported_{labels.pod}") for sample in series):
        # Then the labels without prefix name the exporter's own pod.
        return []
    return [sample for sample in series if sample.labels.get(labels.namespace) and sample.labels.get(labels.pod)]


def _usable_metrics(owned: Sequence[Sample], preset: LabelPreset) -> list[str]:
    on_instance = {sample.name: bool(sample.labels.get(_INSTANCE)) for sample in owned}

    def usable(metric: GpuMetric) -> bool:
        return (
            metric.ratio is None
            and metric.exported_under(preset)
            and metric.series in on_instance
            and ("mig" in metric.card_modes or not on_instance[metric.series])
        )

    return [metric.name for metric in catalogue().metrics if usable(metric)]


def _owners(series: Sequence[Sample], owned: Sequence[Sample], labels: Labels) -> str:
    pods = sorted({f"{sample.labels[labels.namespace]}/{sample.labels[labels.pod]}" for sample in owned})
    listed = ", ".join(pods[:_LISTED_PODS])
    rest = f" and {len(pods) - _LISTED_PODS} more" if len(pods) > _LISTED_PODS else ""
    return (
        f"{len(owned)} of {len(series)} series identify a pod by {labels.namespace} and {labels.pod}: {listed}{rest}."
    )


def _no_owner(series: Sequence[Sample], labels: Labels, preset: LabelPreset) -> list[str]:
    wanted = f"the labels {labels.namespace} and {labels.pod}, which the adapter uses with {_SETTING} set to {preset}"
    fitting = next((other for other in LABEL_PRESETS if _owned(series, catalogue().labels[other])), None)
    if fitting:
        other = catalogue().labels[fitting]
        own = next((sample.labels for sample in series if sample.labels.get(labels.pod)), None)
        first = (
            f"The labels {labels.namespace} and {labels.pod} name the exporter's own pod "
            f"({own.get(labels.namespace)}/{own[labels.pod]}), because Prometheus scraped the exporter without "
            "honor_labels: true."
            if own
            else f"No series has {wanted}."
        )
        return [
            f"{first} The workload's pod is in {other.namespace} and {other.pod}, so an HPA can't use the series "
            "with the current setting.",
            f"What to do: set {_SETTING} to {fitting}.",
        ]
    present = [name for name in (labels.namespace, labels.pod) if any(name in sample.labels for sample in series)]
    fault = f"has {wanted}" if not present else f"has values for {wanted}"
    return [f"No series {fault}. An HPA can only use metrics that name their pod.", _advice(preset)]


def _advice(preset: LabelPreset) -> str:
    steps = [
        "make the dump while a pod uses a GPU: series of an idle card do not name a pod",
        "set nvidia.com/gpu in the workload's limits: the kubelet lists only devices that the NVIDIA device plugin "
        "allocated",
        "set DCGM_EXPORTER_KUBERNETES=true (flag -k) on the exporter: otherwise the exporter does not look up pods",
        "mount the node's /var/lib/kubelet/pod-resources into the exporter: it asks the kubelet for pods there",
        "set DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE=device-name if the device plugin identifies cards as nvidia0 and not "
        "by UUID",
    ]
    if preset == "ack":
        steps.append(
            f"if you run NVIDIA's dcgm-exporter, set {_SETTING} to upstream: its labels are namespace and pod, while "
            "ACK's exporter has NamespaceName and PodName"
        )
    return "\n".join(["What to do:", *(f"- {step};" for step in steps[:-1]), f"- {steps[-1]}."])
