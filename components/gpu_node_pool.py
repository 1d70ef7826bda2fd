"""The GPU nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pulumi
import pulumi_alicloud as alicloud

from autoscaling.ack.card_modes import CARD_MODES, SCHEDULE_LABEL, CardModeName
from autoscaling.ack.node_labels import DRIVER_LABEL
from autoscaling.ack.pool_changes import update_warnings


@dataclass(frozen=True, kw_only=True)
class NodeLimits:
    """Limits of the cluster autoscaler for the number of nodes."""

    min: int = 0
    max: int


@dataclass(frozen=True, kw_only=True)
class NodeTaint:
    """Keeps pods without a matching toleration off the nodes."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, kw_only=True)
class PoolSpec:
    """Nodes of the same kind: set either `size` or `limits`."""

    pool_name: str
    instance_types: Sequence[str]
    # empty: the cluster's own vSwitches
    vswitch_ids: Sequence[str] = ()
    # fixed number of nodes
    size: int | None = None
    # or: the cluster autoscaler sets the number
    limits: NodeLimits | None = None
    card_mode: CardModeName = "exclusive"
    system_disk_category: str = "cloud_essd"
    system_disk_gib: int = 120
    taints: Sequence[NodeTaint] = ()
    # version of the NVIDIA driver, such as 550.144.03; None: ACK's default for the instance type
    driver_version: str | None = None
    # SSH key pair; None: no SSH login
    key_name: str | None = None
    # spot instances instead of pay-as-you-go
    spot: bool = False
    # highest hourly price of a spot instance by instance type; empty: the market's price
    spot_price_limits: Mapping[str, Decimal] = field(default_factory=dict)
    # the pool existed before the stack, and stays when the stack is destroyed
    adopted: bool = False
    # the pool stays when the stack is destroyed
    retain_on_delete: bool = False

    def __post_init__(self) -> None:
        """Refuse combinations that the provider accepts and misinterprets.

        Raises:
            ValueError: both or neither of `size` and `limits` are set, or `min` is above `max`.
        """
        if (self.size is None) == (self.limits is None):
            raise ValueError("set exactly one of size and limits for a node pool")
        if self.limits and self.limits.min > self.limits.max:
            raise ValueError(f"limits of a node pool: min ({self.limits.min}) must be at most max ({self.limits.max})")


@dataclass(frozen=True, kw_only=True)
class GpuNodePoolArgs:
    """A node pool of a cluster."""

    cluster_id: pulumi.Input[str]
    # vSwitches for a pool without its own
    cluster_vswitch_ids: pulumi.Input[Sequence[str]] = ()
    pool: PoolSpec


class GpuNodePool(pulumi.ComponentResource):
    """A GPU node pool with a card mode. Requires an alicloud provider."""

    node_pool: alicloud.cs.NodePool
    node_pool_id: pulumi.Output[str]

    def __init__(self, name: str, args: GpuNodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:GpuNodePool", name, None, opts)
        pool = args.pool
        # A scaling_config of zeros turns autoscaling on and empties the pool: omit it for a fixed size.
        scaling = None
        if pool.limits:
            scaling = alicloud.cs.NodePoolScalingConfigArgs(
                enable=True,
                type=CARD_MODES[pool.card_mode].scaling_type,
                min_size=pool.limits.min,
                max_size=pool.limits.max,
            )
        price_limits = [
            alicloud.cs.NodePoolSpotPriceLimitArgs(instance_type=instance_type, price_limit=f"{price:f}")
            for instance_type, price in pool.spot_price_limits.items()
        ]
        self.node_pool = alicloud.cs.NodePool(
            f"{name}-nodes",
            cluster_id=args.cluster_id,
            node_pool_name=pool.pool_name,
            vswitch_ids=pool.vswitch_ids or pulumi.Output.from_input(args.cluster_vswitch_ids).apply(_at_least_one),
            instance_types=pool.instance_types,
            desired_size=None if pool.limits else str(pool.size),
            scaling_config=scaling,
            system_disk_category=pool.system_disk_category,
            system_disk_size=pool.system_disk_gib,
            labels=[alicloud.cs.NodePoolLabelArgs(key=key, value=value) for key, value in _labels(pool).items()],
            # All three fields: the provider drops an omitted effect, and then no node can join.
            taints=[
                alicloud.cs.NodePoolTaintArgs(key=taint.key, value=taint.value, effect=taint.effect)
                for taint in pool.taints
            ]
            or None,
            key_name=pool.key_name,
            spot_strategy=_spot_strategy(pool),
            spot_price_limits=price_limits or None,
            opts=pulumi.ResourceOptions(
                parent=self,
                # The cluster autoscaler owns the node count.
                ignore_changes=["desiredSize"] if pool.limits else None,
                retain_on_delete=pool.adopted or pool.retain_on_delete,
                hooks=pulumi.ResourceHookBinding(
                    before_update=[
                        pulumi.ResourceHook(
                            f"{name}-nodes-not-reached",
                            _warn_about_existing_nodes,
                            pulumi.ResourceHookOptions(on_dry_run=True),
                        )
                    ]
                ),
            ),
        )
        self.node_pool_id = self.node_pool.node_pool_id
        if pulumi.runtime.is_dry_run():
            self._warn_about_unmanaged_pool(args)
        self.register_outputs({"nodePoolId": self.node_pool_id})

    def _warn_about_unmanaged_pool(self, args: GpuNodePoolArgs) -> None:
        """Warn about a pool of the same name: a leftover or hand-made pool costs as much and is easy to miss."""
        name = args.pool.pool_name
        found = alicloud.cs.get_kubernetes_node_pools_output(
            cluster_id=args.cluster_id, node_pool_name=name, opts=pulumi.InvokeOutputOptions(parent=self)
        )

        async def warn(pools: Sequence[alicloud.cs.outputs.GetKubernetesNodePoolsNodepoolResult]) -> bool:
            # The id is known once the stack manages the pool.
            if any(pool.node_pool_name == name for pool in pools) and not await self.node_pool.id.is_known():
                pulumi.log.warn(
                    f"the cluster already has a node pool named {name} that this stack does not manage. `up` creates a "
                    "second pool of that name. Run `./ackgpu adopt` to adopt the pool, or change gpuNodePool.name."
                )
            return True

        _warned: pulumi.Output[bool] = found.nodepools.apply(warn)


def _warn_about_existing_nodes(args: pulumi.ResourceHookArgs) -> None:
    for sentence in update_warnings(args.old_inputs or {}, args.new_inputs or {}):
        pulumi.log.warn(sentence)


def _labels(pool: PoolSpec) -> dict[str, str]:
    driver = {DRIVER_LABEL: pool.driver_version} if pool.driver_version else {}
    return {SCHEDULE_LABEL: CARD_MODES[pool.card_mode].schedule, **driver}


def _spot_strategy(pool: PoolSpec) -> str | None:
    if not pool.spot:
        return None
    return "SpotWithPriceLimit" if pool.spot_price_limits else "SpotAsPriceGo"


def _at_least_one(vswitch_ids: Sequence[str]) -> Sequence[str]:
    if not vswitch_ids:
        raise pulumi.RunError("the cluster has no vSwitches of its own: set gpuNodePool.vswitchIds.")
    return vswitch_ids
