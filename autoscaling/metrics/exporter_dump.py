"""Whether an HPA can work on what a GPU exporter exposes: `./ackgpu check-exporter`.

What makes dcgm-exporter name pods: its README, and of https://github.com/NVIDIA/dcgm-exporter/issues 27 (device names),
85 (`exported_`), 138 (limits), 188 and 349 (the kubelet's socket), 343 (device plugin and Kubernetes mode).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from autoscaling.metrics.catalogue import LABEL_PRESETS, GpuMetric, LabelPreset, Labels, catalogue

_SETTING = "metricsAdapter.labels"
_INSTANCE = "GPU_I_ID"
"""The label that the series of a MIG instance have."""
_NAMED_CARDS = 3


class DumpError(Exception):
    """There is no dump to judge; the message is one sentence."""


@dataclass(frozen=True)
class Judgement:
    """What is told of a dump."""

    usable: bool
    """Whether an HPA can work on it."""
    text: str


def judge(dump: str, preset: LabelPreset) -> Judgement:
    """Tell which labels a dump carries, whether they name pods, and what to do where they don't.

    Args:
        dump: an exporter's `/metrics`, or Prometheus' `/federate`, in the text format.
        preset: how the rules expect the labels to be named.

    Raises:
        DumpError: it is not in the text format, or has no GPU.
    """
    series = _gpu_series(dump)
    judged = [_inventory(series)]
    if preset == "upstream-exported" and _owned(series, catalogue().labels["upstream"]):
        judged.append(
            "This is what the exporter says itself: Prometheus gives namespace and pod the prefix exported_ as it "
            f"stores them, where it does not honor the exporter's labels, as {_SETTING} {preset} has it."
        )
        preset = "upstream"
    labels = catalogue().labels[preset]
    owned = _owned(series, labels)
    usable = _usable_metrics(owned, preset)
    if owned:
        judged.append(_owners(series, owned, labels))
        judged.append(
            f"An HPA can use {', '.join(usable)}."
            if usable
            else f"None of these series is one that an HPA can use with {_SETTING} {preset}: see the table of metrics."
        )
    else:
        judged += _no_owner(series, labels, preset)
    if any(sample.labels.get(_INSTANCE) for sample in series):
        judged.append(
            f"Some series are of MIG instances ({_INSTANCE}), for which DCGM_FI_DEV_GPU_UTIL is missing or always 0: "
            "set gpuNodePool.cardMode to mig, and the metric to DCGM_FI_PROF_GR_ENGINE_ACTIVE."
        )
    return Judgement(bool(usable), "\n".join(judged))


def _gpu_series(dump: str) -> list[Sample]:
    try:
        samples = [sample for family in text_string_to_metric_families(dump) for sample in family.samples]
    except ValueError as error:
        raise DumpError(
            f"It is not in Prometheus' text format ({error}): save what the exporter's /metrics says."
        ) from None
    series = [sample for sample in samples if sample.name.startswith("DCGM_")]
    if not series:
        raise DumpError(
            "It has no series DCGM_*: it is of no GPU exporter, or of one that sees no GPU; see the exporter's log."
        )
    return series


def _inventory(series: Sequence[Sample]) -> str:
    cards = {
        sample.labels.get("UUID") or sample.labels.get("gpu", "?"): sample.labels.get("modelName", "")
        for sample in series
    }
    models = sorted(set(cards.values()) - {""})
    names = sorted({label for sample in series for label in sample.labels})
    what = f"{len(cards)} card{'s' if len(cards) > 1 else ''}" + (f" ({', '.join(models)})" if models else "")
    return f"{len(series)} series of {what}, with the labels {', '.join(names)}."


def _owned(series: Sequence[Sample], labels: Labels) -> list[Sample]:
    """The series with a workload's namespace and pod."""
    if any(sample.labels.get(f"exported_{labels.pod}") for sample in series):
        # The plain ones are those of the exporter itself then.
        return []
    return [sample for sample in series if sample.labels.get(labels.namespace) and sample.labels.get(labels.pod)]


def _usable_metrics(owned: Sequence[Sample], preset: LabelPreset) -> list[str]:
    named = {sample.name: bool(sample.labels.get(_INSTANCE)) for sample in owned}

    def usable(metric: GpuMetric) -> bool:
        return (
            metric.ratio is None
            and metric.exported_under(preset)
            and metric.series in named
            and ("mig" in metric.card_modes or not named[metric.series])
        )

    return [metric.name for metric in catalogue().metrics if usable(metric)]


def _owners(series: Sequence[Sample], owned: Sequence[Sample], labels: Labels) -> str:
    pods = sorted({f"{sample.labels[labels.namespace]}/{sample.labels[labels.pod]}" for sample in owned})
    named = ", ".join(pods[:_NAMED_CARDS]) + (
        f" and {len(pods) - _NAMED_CARDS} more" if len(pods) > _NAMED_CARDS else ""
    )
    return (
        f"{len(owned)} of the {len(series)} say in {labels.namespace} and {labels.pod} which pod they are of: {named}."
    )


def _no_owner(series: Sequence[Sample], labels: Labels, preset: LabelPreset) -> list[str]:
    wanted = f"{labels.namespace} and {labels.pod}, which {_SETTING} {preset} expects"
    fitting = next((other for other in LABEL_PRESETS if _owned(series, catalogue().labels[other])), None)
    if fitting:
        other = catalogue().labels[fitting]
        own = next((sample.labels for sample in series if sample.labels.get(labels.pod)), None)
        first = (
            f"{labels.namespace} and {labels.pod} are those of the exporter's own pod "
            f"({own.get(labels.namespace)}/{own[labels.pod]}), since Prometheus did not honor the exporter's labels."
            if own
            else f"No series has {wanted}."
        )
        return [
            f"{first} The workload's are {other.namespace} and {other.pod}: an HPA can't work on it as it is set.",
            f"What to do: set {_SETTING} to {fitting}.",
        ]
    present = [name for name in (labels.namespace, labels.pod) if any(name in sample.labels for sample in series)]
    fault = f"has {wanted}" if not present else f"has a value in {wanted}"
    return [f"No series {fault}: nothing says which pod uses a card, and an HPA can't work on it.", _what_to_do(preset)]


def _what_to_do(preset: LabelPreset) -> str:
    steps = [
        "make the dump while a pod holds a GPU, since a card that none holds names none",
        "have the workload ask for nvidia.com/gpu in its limits, which the NVIDIA device plugin gives it: a pod that "
        "only sees the card has no device in the kubelet's list",
        "give the exporter DCGM_EXPORTER_KUBERNETES=true (its flag -k), without which it asks nobody for pods",
        "mount the node's /var/lib/kubelet/pod-resources into the exporter, where it asks the kubelet",
        "where the device plugin calls cards nvidia0 and not by UUID: DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE=device-name",
    ]
    if preset == "ack":
        steps.append(
            "ACK's own GPU monitoring has NamespaceName and PodName; NVIDIA's dcgm-exporter has namespace and pod: "
            f"then set {_SETTING} to upstream"
        )
    return "\n".join(["What to do:", *(f"- {step};" for step in steps[:-1]), f"- {steps[-1]}."])
