"""The adapter that serves Prometheus' series as Kubernetes custom metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE
from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.adapter_values import merged, own_values
from live.adapter_changes import clear_leftover, rules_for_this_run
from live.adapter_release import INSTALLATION_SECONDS
from live.preflight import SharedSnapshot


@dataclass(frozen=True, kw_only=True)
class ReleaseSpec:
    """The release of the chart."""

    # URL of the chart, or its path relative to the project
    chart: str
    # version of the chart; None: unknown without a download
    chart_version: str | None = None
    # name of the stack, such as ackgpu/dev, recorded in the release's values
    stack: str
    rules: Sequence[Rule]
    # such as 1m; at least Prometheus' scrape interval, at most 20m
    relist_interval: str
    # value of the header Authorization of each query; a secret, also in the state
    prometheus_authorization: pulumi.Input[str] | None = field(default=None, repr=False)
    # further values of the chart; the values that are set here take precedence
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # the release existed before the stack, and stays when the stack is destroyed
    adopted: bool = False
    # the release stays when the stack is destroyed
    retain_on_delete: bool = False


@dataclass(frozen=True, kw_only=True)
class MetricsAdapterArgs:
    """A release and the Prometheus that it reads."""

    release: ReleaseSpec
    # HTTP API address of Prometheus; a secret, also in the state
    prometheus_url: pulumi.Input[str] = field(repr=False)
    # access to the cluster, to keep live rules in use and to clean up after a killed run; None: skip both
    kubeconfig: pulumi.Output[str] | None = field(default=None, repr=False)
    snapshot: SharedSnapshot | None = field(default=None, repr=False)


class MetricsAdapter(pulumi.ComponentResource):
    """The release `ack-alibaba-cloud-metrics-adapter`, at most one per cluster. Requires a Kubernetes provider."""

    release: kubernetes.helm.v3.Release
    rules: pulumi.Output[Sequence[Rule]]
    """The rules of the args, and live rules that an HPA still reads."""

    def __init__(self, name: str, args: MetricsAdapterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        spec = args.release
        # The provider looks for the chart only at `up`, after it has created other resources.
        if "://" not in spec.chart and not Path(spec.chart).exists():
            raise pulumi.RunError(
                f"metricsAdapter.chart is {spec.chart!r}, which does not exist: use a URL, or a path "
                "relative to the project's folder."
            )
        super().__init__("ackgpu:index:MetricsAdapter", name, None, opts)
        self.rules, before = pulumi.Output.from_input(spec.rules), []
        if args.kubeconfig is not None and args.snapshot is not None:
            self.rules = rules_for_this_run(
                args.snapshot, args.kubeconfig, spec.rules, spec.chart_version, stack=spec.stack
            )
            before = [clear_leftover(args.kubeconfig, stack=spec.stack)]
        self.release = kubernetes.helm.v3.Release(
            f"{name}-release",
            kubernetes.helm.v3.ReleaseArgs(
                # With Pulumi's random suffix, the Service would not have the name that the APIService expects.
                name=ADAPTER_NAME,
                namespace=ADAPTER_NAMESPACE,
                chart=spec.chart,
                # The provider reads the version from the chart, but not at a preview with an unknown value.
                version=spec.chart_version,
                timeout=INSTALLATION_SECONDS,
                values=merged(
                    own_values(
                        stack=spec.stack,
                        url=args.prometheus_url,
                        headers=_headers(spec.prometheus_authorization),
                        relist_interval=spec.relist_interval,
                        rules=self.rules,
                    ),
                    _as_secrets(spec.values),
                ),
            ),
            # The vendor's chart does not upgrade in place. A new location of the same chart needs no replacement.
            opts=pulumi.ResourceOptions(
                parent=self,
                replace_on_changes=["version"],
                delete_before_replace=True,
                retain_on_delete=spec.adopted or spec.retain_on_delete,
                hooks=pulumi.ResourceHookBinding(
                    before_create=before,
                    before_update=before,
                    on_error=[pulumi.ErrorHook(f"{name}-failed", _report_failure)],
                ),
            ),
        )
        self.register_outputs({"release": self.release.name, "namespace": self.release.namespace})


def _report_failure(failure: pulumi.ErrorHookArgs) -> bool:
    if failure.failed_operation != "delete":
        pulumi.log.error(
            "the adapter's release failed, and HPAs can't scale until the release is healthy. Fix the error or restore "
            "the previous metricsAdapter settings, then run `pulumi up` again. No manual cleanup is needed."
        )
    return False


def _as_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """Mark all values as secrets: Pulumi decrypts settings, so any of them may have been encrypted."""
    return {
        key: _as_secrets(value) if isinstance(value, Mapping) else pulumi.Output.secret(value)
        for key, value in values.items()
    }


def _headers(authorization: pulumi.Input[str] | None) -> list[dict[str, pulumi.Input[str]]]:
    return [] if authorization is None else [{"Authorization": pulumi.Output.secret(authorization)}]
