"""Versions, images, charts and names of deployed components."""

KUBERNETES_VERSION = "1.36.3-aliyun.1"
"""Version that the rehearsal's cluster reports; its control plane has the same minor.

ACK has offered 1.36 since May 2026. The vendor's patch suffix is made up.
"""

KUBERNETES_MINORS: dict[str, tuple[int, int | None]] = {"v2": (23, None), "v2beta1": (8, 24)}
"""Oldest and newest Kubernetes 1.x that serves each version of the API group `autoscaling`; None: still served.

https://kubernetes.io/docs/reference/using-api/deprecation-guide/; v2beta1 is in 1.8 and later.
"""

ADAPTER_NAME = "ack-alibaba-cloud-metrics-adapter"
"""Name of the chart and of its release, which the RAM token and the documentation expect."""
ADAPTER_NAMESPACE = "kube-system"
ADAPTER_SERVICE = f"{ADAPTER_NAMESPACE}/{ADAPTER_NAME}-custom-service"
"""Namespace and name of the Service that the vendor's chart registers."""
ADAPTER_CHART = (
    "https://aliacs-app-catalog.oss-cn-hangzhou.aliyuncs.com/charts-incubator/"
    "ack-alibaba-cloud-metrics-adapter-1.3.2.tgz"
)
"""Chart 1.3.2, from the guide."""

REPLACE_ADAPTER = "pulumi up --replace '**::adapter-release'"
"""Reinstalls the adapter's release in any state. Pulumi does not see changes inside a release."""

CUSTOM_METRICS_PATH = "/apis/custom.metrics.k8s.io/v1beta1"
"""Path of the adapter's API, in the only version that it registers."""

EXPORTER_NAMESPACE = "arms-prom"
EXPORTER_NAME = "ack-prometheus-gpu-exporter"
"""DaemonSet of ACK's GPU exporter, installed with the Prometheus agent.

https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/enable-gpu-monitoring-for-a-cluster
"""
