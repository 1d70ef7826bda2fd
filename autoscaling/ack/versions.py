"""Every version, image and chart that the program deploys, once."""

KUBERNETES_VERSION = "1.36.3-aliyun.1"
"""Version the rehearsal's cluster reports; its control plane is built from the same minor.

ACK offers 1.36 since May 2026; the vendor's patch suffix is made up.
"""

KUBERNETES_MINORS: dict[str, tuple[int, int | None]] = {"v2": (23, None), "v2beta1": (8, 24)}
"""Oldest and newest minor of Kubernetes 1 that serves this version of the API group `autoscaling`.

https://kubernetes.io/docs/reference/using-api/deprecation-guide/; v2beta1 came with 1.8.
"""

ADAPTER_NAME = "ack-alibaba-cloud-metrics-adapter"
"""Name of the chart, and of its release: its RAM token and its documentation expect this one."""
ADAPTER_NAMESPACE = "kube-system"
ADAPTER_SERVICE = f"{ADAPTER_NAMESPACE}/{ADAPTER_NAME}-custom-service"
"""Namespace and name of the Service that the vendor's chart registers."""
ADAPTER_CHART = (
    "https://aliacs-app-catalog.oss-cn-hangzhou.aliyuncs.com/charts-incubator/"
    "ack-alibaba-cloud-metrics-adapter-1.3.2.tgz"
)
"""Chart 1.3.2, from the guide."""

REPLACE_ADAPTER = "pulumi up --replace '**::adapter-release'"
"""Uninstalls the adapter's release and installs it, whatever its state; Pulumi does not see what is changed inside."""

CUSTOM_METRICS_PATH = "/apis/custom.metrics.k8s.io/v1beta1"
"""Where the adapter serves, in the one version that it registers."""

EXPORTER_NAMESPACE = "arms-prom"
EXPORTER_NAME = "ack-prometheus-gpu-exporter"
"""DaemonSet of ACK's GPU exporter, which the Prometheus agent brings.

https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/enable-gpu-monitoring-for-a-cluster
"""
