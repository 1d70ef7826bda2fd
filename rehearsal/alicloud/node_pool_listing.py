"""A node pool as the answer of `cs.getKubernetesNodePools` has it."""

from __future__ import annotations

from typing import Any

from rehearsal.alicloud.store import CloudResource

# The SDK's class asks for every field, and those of these kinds are empty where nothing was set.
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


def listed(identity: str, resource: CloudResource) -> dict[str, Any]:
    """The entry of a pool in the listing of its cluster's pools.

    Args:
        identity: by which the provider knows it: `<cluster>:<pool>`.
        resource: the pool.
    """
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
