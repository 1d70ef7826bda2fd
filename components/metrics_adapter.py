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
from live.adapter_changes import BeforeChange
from live.adapter_release import INSTALLATION_SECONDS


@dataclass(frozen=True, kw_only=True)
class MetricsAdapterArgs:
    """What the release is installed with."""

    # URL of the chart, or its path relative to the project
    chart: str
    # version of the chart; None: only a download would show it
    chart_version: str | None = None
    # the name that the release carries, such as ackgpu/dev
    stack: str
    # HTTP API address of Prometheus; a secret, kept one in the state
    prometheus_url: pulumi.Input[str] = field(repr=False)
    # value of the header Authorization of each query; a secret, kept one in the state
    prometheus_authorization: pulumi.Input[str] | None = field(default=None, repr=False)
    rules: pulumi.Input[Sequence[Rule]]
    # such as 1m; at least Prometheus' scrape interval, at most 20m
    relist_interval: str
    # further values of the chart, none of them one that is set here
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # takes away what an interrupted run left of the release
    before_change: BeforeChange | None = field(default=None, repr=False)
    # an adopted release stays when the stack is destroyed
    retain_on_delete: bool = False


class MetricsAdapter(pulumi.ComponentResource):
    """The release `ack-alibaba-cloud-metrics-adapter`, one for a cluster. Needs a Kubernetes provider."""

    release: kubernetes.helm.v3.Release

    def __init__(self, name: str, args: MetricsAdapterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        # The provider looks for it at `up` only, when all that comes before is made.
        if "://" not in args.chart and not Path(args.chart).exists():
            raise pulumi.RunError(
                f"the chart of the metrics adapter is {args.chart!r}, and there is no such file or folder: give a URL, "
                "or a path from the folder of the project."
            )
        super().__init__("ackgpu:index:MetricsAdapter", name, None, opts)
        before: list[pulumi.ResourceHook | BeforeChange] = [args.before_change] if args.before_change else []
        self.release = kubernetes.helm.v3.Release(
            f"{name}-release",
            kubernetes.helm.v3.ReleaseArgs(
                # Pulumi's own suffix would give the Service another name than the APIService expects.
                name=ADAPTER_NAME,
                namespace=ADAPTER_NAMESPACE,
                chart=args.chart,
                # The provider reads it from the chart, but not at a preview where a value is unknown.
                version=args.chart_version,
                timeout=INSTALLATION_SECONDS,
                values=merged(
                    own_values(
                        stack=args.stack,
                        url=args.prometheus_url,
                        headers=_headers(args.prometheus_authorization),
                        relist_interval=args.relist_interval,
                        rules=args.rules,
                    ),
                    _as_secrets(args.values),
                ),
            ),
            # The vendor's chart can't be upgraded in place. The same chart from another place can.
            opts=pulumi.ResourceOptions(
                parent=self,
                replace_on_changes=["version"],
                delete_before_replace=True,
                retain_on_delete=args.retain_on_delete,
                hooks=pulumi.ResourceHookBinding(
                    before_create=before,
                    before_update=before,
                    on_error=[pulumi.ErrorHook(f"{name}-failed", _say_what_to_do)],
                ),
            ),
        )


def _say_what_to_do(failure: pulumi.ErrorHookArgs) -> bool:
    if failure.failed_operation != "delete":
        pulumi.log.error(
            "the adapter's release failed, and HPAs may stand still until it works: mend what is said of it, or set "
            "metricsAdapter back to what worked, and run `pulumi up` again; nothing has to be cleared by hand."
        )
    return False


def _as_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """An encrypted setting comes as plain text: which of the user's own values was one can't be told any more."""
    return {
        key: _as_secrets(value) if isinstance(value, Mapping) else pulumi.Output.secret(value)
        for key, value in values.items()
    }


def _headers(authorization: pulumi.Input[str] | None) -> list[dict[str, pulumi.Input[str]]]:
    return [] if authorization is None else [{"Authorization": pulumi.Output.secret(authorization)}]
