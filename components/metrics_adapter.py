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
from live.preflight import ClusterLook


@dataclass(frozen=True, kw_only=True)
class ReleaseSpec:
    """The release of the chart."""

    # URL of the chart, or its path relative to the project
    chart: str
    # version of the chart; None: only a download would show it
    chart_version: str | None = None
    # the name that the release carries, such as ackgpu/dev
    stack: str
    rules: Sequence[Rule]
    # such as 1m; at least Prometheus' scrape interval, at most 20m
    relist_interval: str
    # value of the header Authorization of each query; a secret, also in the state
    prometheus_authorization: pulumi.Input[str] | None = field(default=None, repr=False)
    # further values of the chart, none of them one that is set here
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # the release existed before the stack, and stays when the stack is destroyed
    adopted: bool = False
    # the release stays when the stack is destroyed
    retain_on_delete: bool = False


@dataclass(frozen=True, kw_only=True)
class MetricsAdapterArgs:
    """A release, and the Prometheus that it reads."""

    release: ReleaseSpec
    # HTTP API address of Prometheus; a secret, also in the state
    prometheus_url: pulumi.Input[str] = field(repr=False)
    # of the cluster, and the look at it: keep the live rules in use, clean up after a killed run; None: do neither
    kubeconfig: pulumi.Output[str] | None = field(default=None, repr=False)
    look: ClusterLook | None = field(default=None, repr=False)


class MetricsAdapter(pulumi.ComponentResource):
    """The release `ack-alibaba-cloud-metrics-adapter`, one for a cluster. Requires a Kubernetes provider."""

    release: kubernetes.helm.v3.Release
    rules: pulumi.Output[Sequence[Rule]]
    """The rules of the args, and the live ones that an HPA still reads."""

    def __init__(self, name: str, args: MetricsAdapterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        spec = args.release
        # The provider looks for the chart at `up` only, after it has created everything before.
        if "://" not in spec.chart and not Path(spec.chart).exists():
            raise pulumi.RunError(
                f"the chart of the metrics adapter is {spec.chart!r}, and there is no such file or folder: give a URL, "
                "or a path from the folder of the project."
            )
        super().__init__("ackgpu:index:MetricsAdapter", name, None, opts)
        self.rules, before = pulumi.Output.from_input(spec.rules), []
        if args.kubeconfig is not None and args.look is not None:
            self.rules = rules_for_this_run(
                args.look, args.kubeconfig, spec.rules, spec.chart_version, stack=spec.stack
            )
            before = [clear_leftover(args.kubeconfig, stack=spec.stack)]
        self.release = kubernetes.helm.v3.Release(
            f"{name}-release",
            kubernetes.helm.v3.ReleaseArgs(
                # Pulumi's own suffix would give the Service another name than the APIService expects.
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
            # The vendor's chart does not upgrade in place. The same chart from another place does.
            opts=pulumi.ResourceOptions(
                parent=self,
                replace_on_changes=["version"],
                delete_before_replace=True,
                retain_on_delete=spec.adopted or spec.retain_on_delete,
                hooks=pulumi.ResourceHookBinding(
                    before_create=before,
                    before_update=before,
                    on_error=[pulumi.ErrorHook(f"{name}-failed", _say_what_to_do)],
                ),
            ),
        )
        self.register_outputs({"release": self.release.name, "namespace": self.release.namespace})


def _say_what_to_do(failure: pulumi.ErrorHookArgs) -> bool:
    if failure.failed_operation != "delete":
        pulumi.log.error(
            "the adapter's release failed, and HPAs may not scale until it is healthy: fix the error, or set "
            "metricsAdapter back to what worked, and run `pulumi up` again; nothing has to be cleaned up by hand."
        )
    return False


def _as_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """The engine decrypts settings, so that each of the user's values may have been encrypted."""
    return {
        key: _as_secrets(value) if isinstance(value, Mapping) else pulumi.Output.secret(value)
        for key, value in values.items()
    }


def _headers(authorization: pulumi.Input[str] | None) -> list[dict[str, pulumi.Input[str]]]:
    return [] if authorization is None else [{"Authorization": pulumi.Output.secret(authorization)}]
