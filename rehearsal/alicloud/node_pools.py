"""Node pools: what their scaling groups need, how they are created and changed, and how queries list them."""

from __future__ import annotations

import uuid
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from rehearsal.alicloud.answers import Refused
from rehearsal.alicloud.store import NODE_POOL, Account, Cloud, CloudResource, CloudStore

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_SIZE = "desiredSize"
"""Output of an autoscaling pool: the API reports its size whatever the inputs say."""

# The SDK's class requires every field. These are empty unless they are set.
_TEXTS = (
    "cpuPolicy", "deploymentSetId", "imageId", "imageType", "instanceChargeType", "internetChargeType", "keyName",
    "multiAzPolicy", "nodeNameMode", "onDemandBaseCapacity", "onDemandPercentageAboveBaseCapacity", "password",
    "periodUnit", "platform", "preUserData", "ramRoleName", "resourceGroupId", "runtimeName", "runtimeVersion",
    "scalingPolicy", "securityGroupId", "spotStrategy", "systemDiskCategory", "systemDiskEncryptAlgorithm",
    "systemDiskKmsKey", "systemDiskPerformanceLevel", "systemDiskSnapshotPolicyId", "userData",
)  # fmt: skip
_FLAGS = (
    "autoRenew", "cisEnabled", "compensateWithOnDemand", "installCloudMonitor", "loginAsNonRoot",
    "securityHardeningOs", "socEnabled", "spotInstanceRemedy", "systemDiskBurstingEnabled", "systemDiskEncrypted",
    "unschedulable",
)  # fmt: skip
_NUMBERS = (
    "autoRenewPeriod", "internetMaxBandwidthOut", "period", "spotInstancePools", "systemDiskProvisionedIops",
    "systemDiskSize",
)  # fmt: skip
_LISTS = (
    "dataDisks", "instanceTypes", "labels", "rdsInstances", "securityGroupIds", "spotPriceLimits",
    "systemDiskCategories", "taints", "vswitchIds",
)  # fmt: skip
_MAPS = ("kubeletConfiguration", "management", "privatePoolOptions", "tags", "teeConfig")
_SCALING = {
    "eipBandwidth": 0, "eipInternetChargeType": "", "enable": False, "isBondEip": False, "maxSize": 0, "minSize": 0,
    "type": "",
}  # fmt: skip


class NodePool(BaseModel):
    """A node pool as its scaling group sees it.

    It refuses what the vendor's servers refuse although its provider accepts it.
    """

    id: str
    cluster_id: str
    name: str
    instance_types: list[str] = Field(min_length=1)
    labels: dict[str, str]
    taints: list[dict[str, str]]
    autoscaling: bool
    min_size: int = Field(ge=0)
    max_size: int = Field(ge=0)
    desired_size: int = Field(ge=0)

    @field_validator("taints")
    @classmethod
    def _taints_are_kubernetes_taints(cls, taints: list[dict[str, str]]) -> list[dict[str, str]]:
        for taint in taints:
            if not taint.get("key") or taint.get("effect") not in _TAINT_EFFECTS:
                raise ValueError(f"a taint needs a key and an effect of {', '.join(_TAINT_EFFECTS)}")
        return taints

    @model_validator(mode="after")
    def _limits_are_in_order(self) -> Self:
        if self.autoscaling and self.min_size > self.max_size:
            raise ValueError(f"min_size {self.min_size} is above max_size {self.max_size}")
        return self

    @classmethod
    def of(cls, resource: CloudResource) -> NodePool:
        """Return the node pool that a resource describes.

        Raises:
            ValidationError: the vendor's servers would refuse it.
        """
        inputs = resource.inputs
        scaling = inputs.get("scalingConfig") or {}
        return cls(
            id=resource.outputs["nodePoolId"],
            cluster_id=inputs["clusterId"],
            name=inputs.get("nodePoolName") or inputs.get("name", ""),
            instance_types=inputs.get("instanceTypes", []),
            labels={label["key"]: label.get("value", "") for label in inputs.get("labels", [])},
            taints=inputs.get("taints", []),
            autoscaling=bool(scaling) and bool(scaling.get("enable", True)),
            min_size=scaling.get("minSize", 0),
            max_size=scaling.get("maxSize", 0),
            desired_size=inputs.get("desiredSize") or inputs.get("nodeCount") or 0,
        )

    @property
    def first_nodes(self) -> int:
        """Number of nodes before any pod needs one."""
        return self.min_size if self.autoscaling else self.desired_size


def node_pools(cloud: Cloud) -> list[NodePool]:
    """Return all node pools."""
    return [NodePool.of(resource) for resource in cloud.resources.values() if resource.type == NODE_POOL]


def new_node_pool(cluster_id: str, inputs: dict[str, Any]) -> tuple[str, CloudResource]:
    """Create a node pool without nodes; return its id `<cluster>:<pool>` and the pool.

    Raises:
        Refused: the vendor's servers refuse the inputs.
    """
    pool_id = f"np{uuid.uuid4().hex}"
    outputs = {"nodePoolId": pool_id, "scalingGroupId": f"asg-{uuid.uuid4().hex[:20]}"}
    resource = CloudResource(type=NODE_POOL, inputs=inputs, outputs=outputs)
    check_inputs(resource)
    return f"{cluster_id}:{pool_id}", resource


def check_inputs(resource: CloudResource) -> None:
    """Check new inputs, and make the reported size fit to them.

    Raises:
        Refused: the vendor's servers refuse the inputs.
    """
    try:
        pool = NodePool.of(resource)
    except ValidationError as error:
        # The error's own text repeats the inputs, which may be secret.
        reasons = [
            ": ".join([*map(str, detail["loc"]), detail["msg"].removeprefix("Value error, ")])
            for detail in error.errors()
        ]
        raise Refused(f"InvalidParameter: {'; '.join(reasons)}") from None
    if pool.autoscaling:
        resource.outputs.setdefault(_SIZE, str(pool.first_nodes))
    else:
        resource.outputs.pop(_SIZE, None)


def report_size(store: CloudStore, pool_id: str, nodes: int) -> None:
    """Let the API report the size that the autoscaler has given a pool."""

    def outdated(cloud: Cloud) -> list[CloudResource]:
        pools = [pool for pool in cloud.resources.values() if pool.outputs.get("nodePoolId") == pool_id]
        return [pool for pool in pools if pool.outputs.get(_SIZE) != str(nodes)]

    if outdated(store.read()):
        with store.transaction() as cloud:
            for pool in outdated(cloud):
                pool.outputs[_SIZE] = str(nodes)


def get_node_pools(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer `cs.getKubernetesNodePools`: list the cluster's pools, or those of one name."""
    pools = [_listed(key, resource) for key, resource in account.cloud.resources.items() if resource.type == NODE_POOL]
    wanted = arguments.get("nodePoolName")
    found = [pool for pool in pools if not wanted or pool["nodePoolName"] == wanted]
    return {**arguments, "id": "node-pools", "ids": [pool["nodePoolId"] for pool in found], "nodepools": found}


def _listed(identity: str, resource: CloudResource) -> dict[str, Any]:
    empty: dict[str, Any] = {
        **dict.fromkeys(_TEXTS, ""),
        **dict.fromkeys(_FLAGS, False),
        **dict.fromkeys(_NUMBERS, 0),
        **{name: [] for name in _LISTS},
        **{name: {} for name in _MAPS},
    }
    inputs, outputs = resource.inputs, resource.outputs
    known = {name: value for name, value in inputs.items() if name in empty}
    return {
        **empty,
        **known,
        "desiredSize": str(inputs.get("desiredSize") or outputs.get("desiredSize") or 0),
        "labels": [{"value": "", **label} for label in inputs.get("labels") or []],
        "taints": [{"value": "", "effect": "NoSchedule", **taint} for taint in inputs.get("taints") or []],
        "scalingConfig": {**_SCALING, **(inputs.get("scalingConfig") or {})},
        "nodePoolId": identity.rpartition(":")[2],
        "nodePoolName": inputs.get("nodePoolName") or inputs.get("name") or "",
        "scalingGroupId": outputs.get("scalingGroupId", ""),
    }
