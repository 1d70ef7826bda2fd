"""The same resources as the program, without components, settings and checks."""

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.autoscaling import v2

config = pulumi.Config()
count = config.require_int("services")
cluster_id = config.require("clusterId")
stack = f"{pulumi.get_project()}/{pulumi.get_stack()}"

account = alicloud.Provider("alicloud", region=config.require("region"))
lookup = pulumi.InvokeOutputOptions(provider=account)
cluster = alicloud.cs.get_clusters_output(ids=[cluster_id], enable_details=True, opts=lookup).clusters[0]
credential = alicloud.cs.get_cluster_credential_output(cluster_id=cluster.cluster_id, opts=lookup)
in_cluster = kubernetes.Provider(
    "cluster-kubernetes",
    kubeconfig=pulumi.Output.secret(credential.kube_config),
    cluster_identifier=cluster_id,
    enable_server_side_apply=True,
)

pool = alicloud.cs.NodePool(
    "gpu-nodes",
    cluster_id=cluster.cluster_id,
    node_pool_name="gpu",
    vswitch_ids=cluster.vswitch_ids,
    instance_types=["ecs.gn6v-c8g1.2xlarge"],
    scaling_config={"enable": True, "type": "gpu", "min_size": 1, "max_size": 10 * count},
    system_disk_category="cloud_essd",
    system_disk_size=120,
    labels=[{"key": "ack.node.gpu.schedule", "value": "default"}],
    opts=pulumi.ResourceOptions(provider=account, ignore_changes=["desiredSize"]),
)

instance = alicloud.arms.Prometheus(
    "prometheus-instance",
    cluster_type="aliyun-cs",
    cluster_id=cluster.cluster_id,
    grafana_instance_id="free",
    opts=pulumi.ResourceOptions(provider=account),
)
prometheus = alicloud.arms.get_prometheus_output(
    ids=pulumi.Output.all(cluster.cluster_id),
    enable_details=True,
    opts=pulumi.InvokeOutputOptions(provider=account, depends_on=[instance]),
)
in_prometheus = {
    "enabled": True,
    "url": pulumi.Output.secret(prometheus.prometheis[0].http_api_intra_url),
    "logLevel": 5,
    "metricsRelistInterval": "5s",
    "adapter": {"rules": {"default": False, "custom": config.require_object("rules")}},
}
adapter = kubernetes.helm.v3.Release(
    "adapter-release",
    name="ack-alibaba-cloud-metrics-adapter",
    namespace="kube-system",
    chart="./rehearsal/chart",
    version="1.3.2",
    timeout=300,
    values={"global": {"ackgpu": {"stack": stack}}, "AlibabaCloudMetricsAdapter": {"prometheus": in_prometheus}},
    opts=pulumi.ResourceOptions(provider=in_cluster, replace_on_changes=["version"], delete_before_replace=True),
)

probe = {"tcp_socket": {"port": 80}, "period_seconds": 5, "timeout_seconds": 5}
dropped = ["AUDIT_WRITE", "MKNOD", "NET_RAW", "SETFCAP", "SETPCAP", "SYS_CHROOT"]
container = {
    "name": "bert-container",
    "image": "registry.cn-hangzhou.aliyuncs.com/ai-samples/bert-intent-detection:1.0.1",
    "ports": [{"container_port": 80}],
    "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1", "memory": "2Gi"}},
    "startup_probe": {**probe, "failure_threshold": 360},
    "readiness_probe": {**probe, "failure_threshold": 3},
    "lifecycle": {"pre_stop": {"exec_": {"command": ["sleep", "5"]}}},
    "security_context": {"allow_privilege_escalation": False, "capabilities": {"drop": dropped}},
}
pod = {
    "containers": [container],
    "termination_grace_period_seconds": 35,
    "automount_service_account_token": False,
    "security_context": {"seccomp_profile": {"type": "RuntimeDefault"}},
}
sm_use = {"metric": {"name": "DCGM_CUSTOM_PROCESS_SM_UTIL"}, "target": {"type": "AverageValue", "average_value": "20"}}
double = {"type": "Percent", "value": 100, "period_seconds": 15}
up_policies = [{"type": "Pods", "value": 4, "period_seconds": 15}, double]
behavior = {
    "scale_up": {"stabilization_window_seconds": 0, "select_policy": "Max", "policies": up_policies},
    "scale_down": {"stabilization_window_seconds": 15, "select_policy": "Max", "policies": [double]},
}
patience = pulumi.CustomTimeouts(create="30m", update="30m")

addresses = []
for index in range(count):
    name = f"service-{index}"
    labels = {"app": name}
    deployment = kubernetes.apps.v1.Deployment(
        f"{name}-deployment",
        metadata={"name": name, "namespace": "default", "labels": labels},
        spec={
            "selector": {"match_labels": labels},
            "strategy": {"type": "RollingUpdate", "rolling_update": {"max_surge": 0, "max_unavailable": 1}},
            "progress_deadline_seconds": 1800,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
        opts=pulumi.ResourceOptions(
            provider=in_cluster, depends_on=[pool], ignore_changes=["spec.replicas"], custom_timeouts=patience
        ),
    )
    kubernetes.policy.v1.PodDisruptionBudget(
        f"{name}-disruption-budget",
        metadata={"name": name, "namespace": "default", "labels": labels},
        spec={"max_unavailable": 1, "selector": {"match_labels": labels}},
        opts=pulumi.ResourceOptions(provider=in_cluster, depends_on=[pool]),
    )
    port = {"name": "http", "protocol": "TCP", "port": 8080, "target_port": 80}
    service = kubernetes.core.v1.Service(
        f"{name}-service",
        metadata={"name": f"{name}-svc", "namespace": "default", "labels": labels},
        spec={"type": "LoadBalancer", "selector": labels, "ports": [port]},
        opts=pulumi.ResourceOptions(
            provider=in_cluster,
            depends_on=[deployment],
            delete_before_replace=True,
            replacement_trigger="internet",
            custom_timeouts=patience,
        ),
    )
    v2.HorizontalPodAutoscaler(
        f"{name}-hpa",
        metadata={"name": f"{name}-hpa", "namespace": "default", "annotations": {"ackgpu/stack": stack}},
        spec={
            "scale_target_ref": {"api_version": "apps/v1", "kind": "Deployment", "name": deployment.metadata.name},
            "min_replicas": 1,
            "max_replicas": 10,
            "metrics": [{"type": "Pods", "pods": sm_use}],
            "behavior": behavior,
        },
        opts=pulumi.ResourceOptions(
            provider=in_cluster, depends_on=[adapter, deployment, service], delete_before_replace=True
        ),
    )
    addresses.append(service.status.load_balancer.ingress[0].ip)

pulumi.export("clusterId", cluster.cluster_id)
pulumi.export("addresses", addresses)
