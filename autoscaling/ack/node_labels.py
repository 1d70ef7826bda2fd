"""Node labels of ACK that the program reads or sets, except for card modes."""

POOL_LABEL = "alibabacloud.com/nodepool-id"
"""Pool id, set on each node of a pool; node selectors use it.

https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/schedule-an-application-pod-to-a-specific-node-pool
"""

DRIVER_LABEL = "ack.aliyun.com/nvidia-driver-version"
"""Version of the NVIDIA driver to install when a node joins, if ACK offers that version."""
