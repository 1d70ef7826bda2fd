"""Node labels of ACK that the program reads or sets, beside those of the card modes."""

POOL_LABEL = "alibabacloud.com/nodepool-id"
"""On each node of a pool, with the pool's id; a pod comes to a pool by it.

https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/schedule-an-application-pod-to-a-specific-node-pool
"""

DRIVER_LABEL = "ack.aliyun.com/nvidia-driver-version"
"""Read when a node joins: the version of the NVIDIA driver that it gets, where ACK offers that one."""
