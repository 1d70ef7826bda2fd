"""The cluster's Managed Service for Prometheus (ARMS) and its address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_alicloud as alicloud


@dataclass(frozen=True, kw_only=True)
class ArmsPrometheusArgs:
    """The cluster and the owner of its instance.

    `instance`: this stack, as an `arms.Prometheus`. `addon`: this stack, as the add-on `arms-prometheus`. `existing`:
    another owner; this stack does not create or delete it.
    """

    cluster_id: pulumi.Input[str]
    managed_by: Literal["instance", "addon", "existing"]


class ArmsPrometheus(pulumi.ComponentResource):
    """The cluster's Prometheus. Requires an alicloud provider."""

    owner: pulumi.CustomResource | None
    """The resource of this stack; None for `existing`."""
    http_api_url: pulumi.Output[str]
    """Intranet address of the HTTP API; a secret, since its path holds a token."""

    def __init__(self, name: str, args: ArmsPrometheusArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:ArmsPrometheus", name, None, opts)
        self.owner = self._create_owner(name, args)
        cluster_id = pulumi.Output.from_input(args.cluster_id)
        if self.owner and args.managed_by == "instance" and pulumi.runtime.is_dry_run():
            self._refuse_unmanaged_instance(self.owner, cluster_id)
        found = alicloud.arms.get_prometheus_output(
            ids=cluster_id.apply(lambda known: [known]),
            # Otherwise the addresses are empty strings.
            enable_details=True,
            opts=pulumi.InvokeOutputOptions(parent=self, depends_on=[self.owner] if self.owner else None),
        )
        # Not Output.all: it turns the SDK's classes into plain dictionaries.
        address: pulumi.Output[str] = cluster_id.apply(
            lambda known: found.prometheis.apply(lambda instances: _address(known, instances))
        )
        self.http_api_url = pulumi.Output.secret(address)
        # The address is a secret, so it is not a registered output.
        self.register_outputs({})

    def _refuse_unmanaged_instance(self, owner: pulumi.CustomResource, cluster_id: pulumi.Output[str]) -> None:
        """Report an existing instance at preview; `up` would fail halfway."""
        found = alicloud.arms.get_prometheus_output(
            ids=cluster_id.apply(lambda known: [known]), opts=pulumi.InvokeOutputOptions(parent=self)
        )

        async def check(instances: Sequence[alicloud.arms.outputs.GetPrometheusPrometheiResult]) -> bool:
            # The id is known once the stack manages the instance.
            if instances and not await owner.id.is_known():
                raise pulumi.RunError(
                    f"cluster {instances[0].cluster_id} already has a Managed Prometheus instance that this stack does "
                    "not manage: set prometheus.managedBy to existing to use that instance without managing it."
                )
            return True

        _passed: pulumi.Output[bool] = found.prometheis.apply(check)

    def _create_owner(self, name: str, args: ArmsPrometheusArgs) -> pulumi.CustomResource | None:
        options = pulumi.ResourceOptions(parent=self)
        if args.managed_by == "instance":
            return alicloud.arms.Prometheus(
                f"{name}-instance",
                cluster_type="aliyun-cs",
                cluster_id=args.cluster_id,
                grafana_instance_id="free",
                opts=options,
            )
        if args.managed_by == "addon":
            return alicloud.cs.KubernetesAddon(
                f"{name}-addon", cluster_id=args.cluster_id, name="arms-prometheus", opts=options
            )
        return None


def _address(cluster_id: str, instances: Sequence[alicloud.arms.outputs.GetPrometheusPrometheiResult]) -> str:
    instance = next((found for found in instances if found.cluster_id == cluster_id), None)
    if instance is None:
        raise pulumi.RunError(
            f"cluster {cluster_id} has no Managed Prometheus instance: set prometheus.managedBy to instance or addon, "
            "or enable Prometheus monitoring for the cluster."
        )
    if not instance.http_api_intra_url:
        raise pulumi.RunError(
            f"the Prometheus instance of cluster {cluster_id} has no intranet HTTP API address yet: wait until the "
            "instance is ready in the ARMS console, then run `pulumi up` again."
        )
    return instance.http_api_intra_url
