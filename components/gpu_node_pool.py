"""The GPU nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_alicloud as alicloud

from autoscaling.ack.card_modes import CARD_MODES, SCHEDULE_LABEL, CardModeName
from autoscaling.ack.node_labels import DRIVER_LABEL
from autoscaling.ack.pool_changes import not_reached
from autoscaling.ack.taints import Taint
from autoscaling.settings.gpu_node_pool import GpuNodePool as GpuNodePoolSettings
from autoscaling.settings.gpu_node_pool import PoolLimits, Spot, SystemDisk


@dataclass(frozen=True, kw_only=True)
class GpuNodePoolArgs:
    """Nodes of one kind: exactly one of `size` and `limits` is set."""

    cluster_id: pulumi.Input[str]
    vswitch_ids: pulumi.Input[Sequence[str]]
    pool_name: str
    instance_types: Sequence[str]
    system_disk: SystemDisk
    # fixed number of nodes
    size: int | None = None
    # or: between these the cluster's autoscaler decides
    limits: PoolLimits | None = None
    card_mode: CardModeName = "exclusive"
    taints: Sequence[Taint] = ()
    # NVIDIA's, such as 550.144.03; None: ACK's own for the instance type
    driver_version: str | None = None
    # SSH key pair; None: nobody can log in
    key_name: str | None = None
    # None: pay-as-you-go
    spot: Spot | None = None
    # an adopted pool stays when the stack is destroyed
    retain_on_delete: bool = False

    @classmethod
    def of(
        cls, pool: GpuNodePoolSettings, cluster_id: pulumi.Input[str], own_vswitches: pulumi.Input[Sequence[str]]
    ) -> GpuNodePoolArgs:
        """The args of the pool of the settings; `own_vswitches` are the cluster's, for a pool that names none."""
        return cls(
            cluster_id=cluster_id,
            vswitch_ids=pool.vswitch_ids or own_vswitches,
            pool_name=pool.name,
            instance_types=pool.instance_types,
            system_disk=pool.system_disk,
            size=pool.size,
            limits=pool.autoscaling,
            card_mode=pool.card_mode,
            taints=pool.taints,
            driver_version=pool.driver_version,
            key_name=pool.key_name,
            spot=pool.spot,
            retain_on_delete=pool.adopted or pool.retain_on_delete,
        )

    def __post_init__(self) -> None:
        """Refuse what the provider accepts and then misunderstands.

        Raises:
            ValueError: both or none of `size` and `limits`, or limits in the wrong order.
        """
        if (self.size is None) == (self.limits is None):
            raise ValueError("a node pool has either a size or limits")
        if self.limits and self.limits.min > self.limits.max:
            raise ValueError(f"limits of a node pool: min ({self.limits.min}) is above max ({self.limits.max})")


class GpuNodePool(pulumi.ComponentResource):
    """A node pool whose cards are given to pods as its card mode says. Needs an alicloud provider."""

    node_pool: alicloud.cs.NodePool

    def __init__(self, name: str, args: GpuNodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:GpuNodePool", name, None, opts)
        # A scaling_config of zeros turns autoscaling on and empties the pool: with a fixed size it is left out.
        scaling, mode = None, CARD_MODES[args.card_mode]
        if args.limits:
            scaling = alicloud.cs.NodePoolScalingConfigArgs(
                enable=True, type=mode.scaling_type, min_size=args.limits.min, max_size=args.limits.max
            )
        self.node_pool = alicloud.cs.NodePool(
            f"{name}-nodes",
            cluster_id=args.cluster_id,
            node_pool_name=args.pool_name,
            vswitch_ids=pulumi.Output.from_input(args.vswitch_ids).apply(_at_least_one),
            instance_types=args.instance_types,
            desired_size=None if args.limits else str(args.size),
            scaling_config=scaling,
            system_disk_category=args.system_disk.category,
            system_disk_size=args.system_disk.size_gib,
            labels=[alicloud.cs.NodePoolLabelArgs(key=key, value=value) for key, value in _labels(args).items()],
            # All three fields: the provider drops an effect that is left out, and then no node can join.
            taints=[
                alicloud.cs.NodePoolTaintArgs(key=taint.key, value=taint.value or "", effect=taint.effect)
                for taint in args.taints
            ]
            or None,
            key_name=args.key_name,
            spot_strategy=_spot_strategy(args.spot),
            spot_price_limits=[
                alicloud.cs.NodePoolSpotPriceLimitArgs(instance_type=name, price_limit=f"{price:f}")
                for name, price in (args.spot.hourly_price_limits if args.spot else {}).items()
            ]
            or None,
            opts=pulumi.ResourceOptions(
                parent=self,
                # The autoscaler owns the number.
                ignore_changes=["desiredSize"] if args.limits else None,
                retain_on_delete=args.retain_on_delete,
                hooks=pulumi.ResourceHookBinding(
                    before_update=[
                        pulumi.ResourceHook(
                            f"{name}-nodes-not-reached", _tell, pulumi.ResourceHookOptions(on_dry_run=True)
                        )
                    ]
                ),
            ),
        )
        if pulumi.runtime.is_dry_run():
            self._tell_of_a_namesake(args)

    def _tell_of_a_namesake(self, args: GpuNodePoolArgs) -> None:
        """One that outlived its stack, or was made by hand, costs as much as ours, and nobody would see it."""
        there = alicloud.cs.get_kubernetes_node_pools_output(
            cluster_id=args.cluster_id, node_pool_name=args.pool_name, opts=pulumi.InvokeOutputOptions(parent=self)
        )

        async def tell(pools: Sequence[alicloud.cs.outputs.GetKubernetesNodePoolsNodepoolResult]) -> bool:
            # Of one that the stack has already, the id is known.
            if any(one.node_pool_name == args.pool_name for one in pools) and not await self.node_pool.id.is_known():
                pulumi.log.warn(
                    f"the cluster has a node pool {args.pool_name} already, which this stack does not have: `make "
                    "adopt` takes it over, or give gpuNodePool another name; `up` makes a second one of that name."
                )
            return True

        _told: pulumi.Output[bool] = there.nodepools.apply(tell)


def _tell(args: pulumi.ResourceHookArgs) -> None:
    for sentence in not_reached(args.old_inputs or {}, args.new_inputs or {}):
        pulumi.log.warn(sentence)


def _labels(args: GpuNodePoolArgs) -> dict[str, str]:
    driver = {DRIVER_LABEL: args.driver_version} if args.driver_version else {}
    return {SCHEDULE_LABEL: CARD_MODES[args.card_mode].schedule, **driver}


def _spot_strategy(spot: Spot | None) -> str | None:
    if spot is None:
        return None
    return "SpotWithPriceLimit" if spot.hourly_price_limits else "SpotAsPriceGo"


def _at_least_one(vswitch_ids: Sequence[str]) -> Sequence[str]:
    if not vswitch_ids:
        raise pulumi.RunError("the cluster has no vSwitches of its own: set gpuNodePool.vswitchIds.")
    return vswitch_ids
