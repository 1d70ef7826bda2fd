"""The stack's configuration as strict, typed models; each default stands here and nowhere else.

The docstring of a field, or else of its model, is its description in README.md and Pulumi.yaml: `make docs`.

The models check one value at a time; `cross_checks` has what holds between values. The example of a required field is
also its stand-in where the user's value is wrong, so that the rest can still be checked.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from autoscaling.ack.card_modes import CardModeName
from autoscaling.ack.versions import ADAPTER_CHART
from autoscaling.metrics.adapter_rules import Rule, RulePreset, RuleSet
from autoscaling.metrics.catalogue import Aggregation, LabelPreset, catalogue
from autoscaling.metrics.extra_rules import ExtraRule
from autoscaling.settings.forms import DATE_TEXT, FORM, DurationForm, Form

Region = Literal[
    "ap-northeast-1", "ap-northeast-2", "ap-southeast-1", "ap-southeast-3", "ap-southeast-5",
    "ap-southeast-6", "ap-southeast-7", "cn-beijing", "cn-chengdu", "cn-guangzhou", "cn-hangzhou",
    "cn-hangzhou-finance", "cn-heyuan", "cn-hongkong", "cn-huhehaote", "cn-north-2-gov-1", "cn-qingdao",
    "cn-shanghai", "cn-shanghai-finance-1", "cn-shenzhen", "cn-shenzhen-finance-1", "cn-wulanchabu",
    "cn-zhangjiakou", "eu-central-1", "eu-west-1", "me-central-1", "us-east-1", "us-west-1",
]  # fmt: skip
"""Regions with both ACK and Managed Prometheus, from their pages of supported regions (2024-11 to 2026-10)."""

ADAPTER_MAX_AGE_SECONDS = 20 * 60
"""The adapter forgets series older than this; its chart has no value for it, and a longer relist stops its start."""

LIMITS_MAX_NODES = 2000
"""Largest `max_size` of a node pool that the provider accepts."""

LONGEST_WAIT_SECONDS = 60 * 60

DEFAULT_SCALE_DOWN_WINDOW_SECONDS = 300
"""Kubernetes' own, of every HPA that sets none."""

_INT32_MAX = 2**31 - 1
"""Kubernetes' own type for numbers of replicas; whatever else is counted here is fewer."""

_LARGEST_AMOUNT = 10**12
"""No metric and no price comes near it; beyond, numbers that are no longer exact begin."""

_MOST_DIGITS = 18
"""Python itself makes no number of thousands of them."""

SERVICE_SUFFIX = "-svc"
"""A service's Kubernetes Service is named as in the guide: `<name>-svc`."""


def _digits(value: object) -> object:
    # `pulumi stack init` writes a number back in quotes.
    digits = isinstance(value, str) and re.fullmatch(rf"[0-9]{{1,{_MOST_DIGITS}}}", value)
    return int(digits[0]) if digits else value


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return value
    return number if number.is_finite() and len(number.as_tuple().digits) <= _MOST_DIGITS else value


def _quantity(value: object) -> object:
    # YAML reads 2 and 0.5 as numbers.
    return value if isinstance(value, bool) or not isinstance(value, int | float) else f"{value:g}"


def _target(value: object) -> object:
    if isinstance(value, str) and not _is_number(value):
        raise PydanticCustomError(
            FORM, "a number in the metric's unit is expected, such as 20; for a metric in MiB also 512Mi or 10Gi"
        )
    return value


def _is_number(text: str) -> bool:
    try:
        Decimal(text)
    except ArithmeticError:
        return False
    return True


def _plain_number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


_FILLED_IN = Form(rf"(?!<|{DATE_TEXT})[\s\S]+", "a text is expected that is filled in")
_ANSWER = Form(rf"(?!<|{DATE_TEXT})[\s\S]*", "a text is expected that is filled in")
_DNS_LABEL = Form(
    r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
    "a Kubernetes name has at most 63 lower-case letters, digits and '-', with a letter or digit at both ends",
)
_DNS_SUBDOMAIN = Form(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    "the name of a Secret has at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both ends",
)
_LONGEST_SERVICE_NAME = 63 - len(SERVICE_SUFFIX)
_SERVICE_NAME = Form(
    rf"[a-z]([-a-z0-9]{{0,{_LONGEST_SERVICE_NAME - 2}}}[a-z0-9])?",
    f"the Service <name>{SERVICE_SUFFIX} needs a name that starts with a letter and has at most "
    f"{_LONGEST_SERVICE_NAME} characters before {SERVICE_SUFFIX}",
)
_INSTANCE_TYPE = Form(r"ecs\.[a-z0-9-]+(\.[a-z0-9-]+)+", "an ECS instance type looks like ecs.gn6i-c4g1.xlarge")
_MIG_PROFILE = Form(r"[0-9]+g\.[0-9]+gb(\+me)?", "a MIG profile looks like 1g.10gb or 1g.10gb+me")
_DURATION = r"(?=[0-9])(?:([0-9]{1,5})m)?(?:([0-9]{1,5})s)?"
_RELIST_INTERVAL = DurationForm(
    _DURATION,
    "a duration such as 30s or 1m, from 1s to 20m, the adapter's fixed maximum age",
    1,
    ADAPTER_MAX_AGE_SECONDS,
)
_SCRAPE_INTERVAL = DurationForm(_DURATION, "a duration such as 15s or 1m, from 1s to 10m, is expected", 1, 10 * 60)
_STARTUP_TIME = DurationForm(
    _DURATION, "a duration such as 90s or 5m, of at most 60m, is expected", 0, LONGEST_WAIT_SECONDS
)
_WAIT = DurationForm(
    _DURATION,
    "a duration such as 90s or 5m, of at most 60m, is expected; 0s is not to wait",
    0,
    LONGEST_WAIT_SECONDS,
)
_HEADER_PART = Form(r"[!-~]+", "a text of visible ASCII characters is expected, without white space or a line's end")
_PATH = Form(r"/.*", "a path starts with /, such as /predict?query=Music")
_CREDENTIAL = DurationForm(
    _DURATION, "a duration such as 60m, from 15m to 4320m (three days), is expected", 15 * 60, 4320 * 60
)
_DRIVER_VERSION = Form(r"[0-9]{3}(\.[0-9]{1,3}){1,2}", "a driver version looks like 550.144.03")
_DRAIN_TIME = DurationForm(_DURATION, "a duration such as 5s or 1m, of at most 10m, is expected", 0, 10 * 60)
_KUBERNETES_VERSION = Form(
    r"1\.[0-9]{1,3}\.[0-9]{1,3}-aliyun\.[0-9]{1,3}", "ACK writes a version such as 1.35.2-aliyun.1"
)
_ZONE = Form(r"[a-z]+-[a-z0-9-]+", "a zone looks like cn-hangzhou-h")
_CIDR = Form(r"[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}", "an IPv4 CIDR block looks like 10.0.0.0/16")
_IDENTIFIER = Form(r"[A-Za-z0-9][-A-Za-z0-9_.]*", "letters, digits, '-', '_' and '.' are expected")
_IMAGE = Form(r"(?!<)[!-~]+", "the name of an image has no white space, such as registry.example.com/model:1")
_STACK = Form(
    r"(?!<)[-A-Za-z0-9_.]+(/[-A-Za-z0-9_.]+){0,2}", "the name of a stack looks like organization/ackgpu/platform"
)
_VSWITCH = Form(r"vsw-[a-z0-9-]+", "the id of a vSwitch looks like vsw-bp1abc")
_CPU = Form(r"[0-9]{1,4}(\.[0-9]{1,3})?|[0-9]{1,7}m", "a number of CPUs such as 2, 0.5 or 500m is expected")
_MEMORY = Form(r"[0-9]{1,9}(Ki|Mi|Gi)", "an amount of memory such as 512Mi or 4Gi is expected")
_TAINT_KEY = Form(
    r"((?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    "the key of a taint looks like gpu or example.com/gpu",
)
_LABEL_VALUE = Form(
    r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?",
    "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, are expected",
)
_VARIABLE = Form(r"[A-Za-z_][A-Za-z0-9_]*", "an environment variable has letters, digits and '_', such as MODEL_NAME")


def duration_seconds(text: str) -> int:
    """Seconds of a duration such as `30s`, `1m` or `1m30s`.

    Raises:
        ValueError: it is not written so.
    """
    return _RELIST_INTERVAL.seconds(text)


def _header_part(value: SecretStr) -> SecretStr:
    _HEADER_PART.matched(value.get_secret_value())
    return value


Text = Annotated[str, Field(min_length=1), _FILLED_IN]
Name = Annotated[str, _DNS_LABEL]
SecretName = Annotated[str, _DNS_SUBDOMAIN]
InstanceTypeName = Annotated[str, _INSTANCE_TYPE]
Secret = Annotated[SecretStr, AfterValidator(_header_part)]
"""Encrypted in the stack's file, and no part of any message."""
Count = Annotated[int, BeforeValidator(_digits), Field(ge=1, le=_INT32_MAX)]
Port = Annotated[int, BeforeValidator(_digits), Field(ge=1, le=65535)]
Window = Annotated[int, BeforeValidator(_digits), Field(ge=0, le=3600)]
Amount = Annotated[
    Decimal,
    BeforeValidator(_number),
    PlainSerializer(_plain_number),
    Field(gt=0, le=_LARGEST_AMOUNT, decimal_places=3),
]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=False,
        use_attribute_docstrings=True,
    )


class SystemPool(_Model):
    """CPU nodes of a new cluster for all that needs no GPU, such as the adapter and CoreDNS."""

    instance_types: Annotated[list[InstanceTypeName], Field(min_length=1, max_length=10)] = ["ecs.g7.xlarge"]
    """ECS instance types of the CPU nodes."""
    size: Annotated[int, BeforeValidator(_digits), Field(ge=1, le=LIMITS_MAX_NODES)] = 2
    """Number of CPU nodes."""


class ClusterCreation(_Model):
    """A new managed cluster with Terway, in a VPC of its own or in vSwitches that are there."""

    name: Name = "ackgpu"
    """Name of the cluster and of its VPC."""
    version: Annotated[str, _KUBERNETES_VERSION] | None = None
    """Kubernetes version, such as 1.35.2-aliyun.1; by default the newest that ACK offers when it is created."""
    spec: Literal["ack.pro.small", "ack.standard"] = "ack.pro.small"
    """Edition of the cluster: sharing of cards needs Pro."""
    zones: Annotated[list[Annotated[str, _ZONE]], Field(min_length=1, max_length=3)] | None = None
    """Zones of a new VPC, three where the region has as many, such as cn-hangzhou-h."""
    vpc_cidr: Annotated[str, _CIDR] = "10.0.0.0/16"
    """Addresses of a new VPC, for nodes and pods."""
    vswitch_ids: Annotated[list[Annotated[str, _VSWITCH]], Field(min_length=1, max_length=5)] | None = None
    """vSwitches for the nodes in a VPC that exists, instead of `zones`."""
    pod_vswitch_ids: Annotated[list[Annotated[str, _VSWITCH]], Field(min_length=1, max_length=5)] | None = None
    """vSwitches for the pods, in the same zones as `vswitchIds`."""
    service_cidr: Annotated[str, _CIDR] = "172.21.0.0/20"
    """Addresses of Services; they overlap with nothing else."""
    system_pool: SystemPool = SystemPool()
    deletion_protection: bool = True
    """Whether the cluster and its network refuse to be deleted: set it to false, `pulumi up`, and then they can be."""


class Cluster(_Model):
    """The ACK cluster: one that exists, by its id, or a new one."""

    id: Annotated[Text, _IDENTIFIER] | None = None
    """Id of a cluster that exists, instead of `create`."""
    create: ClusterCreation | None = None
    """A new cluster, instead of `id`."""
    api_endpoint: Literal["internet", "intranet"] = "internet"
    """By which address of the API server the cluster is reached: `intranet` from inside its VPC only."""
    temporary_credential: Annotated[str, _CREDENTIAL] | None = None
    """How long each kubeconfig is valid, such as 60m; by default it is the account's long-lived one, and a second
    `pulumi up` changes nothing."""
    autoscaling_api: Literal["v2", "v2beta1"] = "v2"
    """Version of the HPA's API: `v2` from Kubernetes 1.23, `v2beta1` below."""


class PoolLimits(_Model):
    """Between how many nodes the pool's autoscaler moves."""

    min: Annotated[int, BeforeValidator(_digits), Field(ge=0, le=1000)] = 0
    """Fewest nodes."""
    max: Annotated[int, BeforeValidator(_digits), Field(ge=1, le=LIMITS_MAX_NODES, examples=[1])]
    """Most nodes."""


class SystemDisk(_Model):
    """System disk of each node."""

    category: Literal["cloud_efficiency", "cloud_ssd", "cloud_essd", "cloud_auto"] = "cloud_essd"
    """Kind of disk."""
    size_gib: Annotated[int, BeforeValidator(_digits), Field(ge=40, le=500, alias="sizeGiB")] = 120
    """Size of the disk."""


class Taint(_Model):
    """What keeps pods without a toleration off the nodes."""

    key: Annotated[str, _TAINT_KEY, Field(examples=["gpu"])]
    """Key of the taint."""
    value: Annotated[str, _LABEL_VALUE] = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """What happens to pods that do not tolerate it."""


class Spot(_Model):
    """Spot instances: cheaper, and taken back by ECS with a warning of five minutes."""

    hourly_price_limits: dict[InstanceTypeName, Amount] = {}
    """Most that a node of an instance type may cost an hour, in the account's currency; without one the market's
    price, up to that of a pay-as-you-go instance."""


class GpuNodePool(_Model):
    """The pool of GPU nodes: a fixed size, or limits for its autoscaler."""

    name: Name = "gpu"
    """Name of the pool."""
    instance_types: Annotated[
        list[InstanceTypeName], Field(min_length=1, max_length=10, examples=[["ecs.gn6i-c4g1.xlarge"]])
    ]
    """GPU instance types, all with the same number of GPUs; at most 10."""
    vswitch_ids: Annotated[list[Annotated[str, _VSWITCH]] | None, Field(min_length=1)] = None
    """vSwitches of the nodes; by default the cluster's own."""
    size: Annotated[int, BeforeValidator(_digits), Field(ge=1, le=LIMITS_MAX_NODES)] | None = None
    """A fixed number of nodes, instead of `autoscaling`."""
    autoscaling: PoolLimits | None = None
    """Limits for the pool's autoscaler, instead of `size`."""
    gpus_per_node: Count | None = None
    """For an instance type that the table of instance types lacks."""
    card_mode: CardModeName = "exclusive"
    """Whole cards for each pod, a part of a card's memory (`cgpu`; `share` without isolation) and of its computing
    power too (`core_mem`), or MIG instances."""
    system_disk: SystemDisk = SystemDisk()
    taints: list[Taint] = []
    """Taints of the nodes; the services' pods tolerate them."""
    driver_version: Annotated[str, _DRIVER_VERSION] | None = None
    """NVIDIA driver of the nodes, such as 550.144.03; by default ACK's own for the instance type."""
    key_name: Annotated[Text, _IDENTIFIER] | None = None
    """SSH key pair of the nodes; by default none, and nobody can log in."""
    spot: Spot | None = None
    """Spot instances, such as `{}` for the market's price; by default pay-as-you-go."""
    warm_gpus: Annotated[int, BeforeValidator(_digits), Field(ge=0, le=1000)] = 0
    """GPUs that are kept ready by low-priority placeholder pods, which real replicas push out; they cost as much as
    used ones."""
    adopted: bool = False
    """Whether the pool existed before the stack, as `make adopt` writes; it stays when the stack is destroyed."""
    retain_on_delete: bool = False
    """Whether the pool stays when the stack is destroyed."""


class PrometheusAuth(_Model):
    """How the adapter authenticates: an instance of V1 takes a token or nothing, one of V2 needs an AccessKey."""

    type: Literal["none", "token", "basic"] = "none"
    """`token` for an instance of V1 for which one was generated, `basic` for one of V2."""
    token: Secret | None = None
    """The instance's token; encrypted, by `pulumi config set --secret --path prometheus.auth.token`."""
    access_key_id: Text | None = None
    """AccessKey ID of a RAM user with the policy `AliyunPrometheusMetricReadAccess`."""
    access_key_secret: Secret | None = None
    """Its AccessKey secret; encrypted, by `pulumi config set --secret --path prometheus.auth.accessKeySecret`."""

    @property
    def authorization(self) -> str | None:
        """Value of the HTTP header `Authorization`, a secret; None where there is none to send."""
        if self.type == "token" and self.token:
            return self.token.get_secret_value()
        if self.type == "basic" and self.access_key_id and self.access_key_secret:
            pair = f"{self.access_key_id}:{self.access_key_secret.get_secret_value()}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return None


class Prometheus(_Model):
    """Who owns the cluster's Managed Prometheus."""

    managed_by: Literal["instance", "addon", "existing"] = "instance"
    """This stack creates it, as an instance or as an addon of the cluster, or it is there already."""
    scrape_interval: Annotated[str, _SCRAPE_INTERVAL] = "30s"
    """How often it reads the GPU exporter; the adapter must look for series half as often, or less."""
    auth: PrometheusAuth = PrometheusAuth()


class MetricUse(_Model):
    """A metric that the adapter exposes though no service of the stack uses it."""

    name: Annotated[Text, Field(examples=["DCGM_CUSTOM_PROCESS_SM_UTIL"])]
    """One of the metrics below, or one that a rule of your own exposes."""
    aggregation: Aggregation | None = None
    """How the series of one pod become one value; by default as the table of metrics has it."""

    @property
    def exposed_name(self) -> str:
        """Under which the adapter exposes this use of the metric."""
        metric = catalogue().find(self.name)
        return metric.exposed_as(self.aggregation) if metric else self.name


class MetricsAdapter(_Model):
    """The adapter's release."""

    chart: Text = ADAPTER_CHART
    """URL of a chart, or a path relative to the project."""
    rules: RulePreset = "hardened"
    """The guide's rules with their faults mended, or its own two lists."""
    labels: LabelPreset = "ack"
    """How the GPU exporter names its labels: ACK's own, or NVIDIA's dcgm-exporter, whose labels Prometheus keeps or
    gives the prefix `exported_`."""
    extra_rules: list[ExtraRule] = []
    """Rules of your own, after those: see below."""
    idle_as_zero: bool = False
    """Whether a pod with a GPU and no process on it counts as 0; otherwise it has no value for the HPA."""
    relist_interval: Annotated[str, _RELIST_INTERVAL] = "1m"
    """How often the adapter looks for new series, such as 1m; from twice Prometheus' scrape interval to 20m."""
    expose: list[MetricUse] = []
    """Metrics for services of other stacks, besides those that this stack's services use."""
    values: dict[str, Any] = {}
    """Further values of the chart, such as `{AlibabaCloudMetricsAdapter: {nodeSelector: {...}}}`."""
    adopted: bool = False
    """Whether the release existed before the stack, as `make adopt` writes; it stays when the stack is destroyed."""
    retain_on_delete: bool = False
    """Whether the release stays when the stack is destroyed."""


class Probe(_Model):
    """A request by which `verify` sees that the service works."""

    path: Annotated[str, _PATH] = "/predict?query=Music"
    """Path of the request by which `make verify` sees that the service works."""
    answer: Annotated[str, _ANSWER] = "PlayMusic"
    """What it answers, in full; empty: anything, with the status 200."""


class ScalingPolicy(_Model):
    """At most `value` pods, or percent of the pods, more or fewer in `periodSeconds`."""

    type: Annotated[Literal["Pods", "Percent"], Field(examples=["Pods"])]
    """What `value` counts."""
    value: Annotated[int, BeforeValidator(_digits), Field(ge=1, le=10000, examples=[1])]
    """Pods, or percent of the pods."""
    period_seconds: Annotated[int, BeforeValidator(_digits), Field(ge=1, le=1800, examples=[15])]
    """The time in which at most that many are added or taken away."""


class ScaleUp(_Model):
    """How fast replicas are added; by default Kubernetes' own documented limits."""

    stabilization_window_seconds: Window = 0
    """How many seconds the metric must ask for more replicas before they are added."""
    policies: Annotated[list[ScalingPolicy], Field(min_length=1)] = [
        ScalingPolicy(type="Pods", value=4, periodSeconds=15),
        ScalingPolicy(type="Percent", value=100, periodSeconds=15),
    ]
    """The one that allows most counts; by default Kubernetes' own."""


class ScaleDown(_Model):
    """How fast replicas are taken away."""

    stabilization_window_seconds: Window = DEFAULT_SCALE_DOWN_WINDOW_SECONDS
    """How many seconds the metric must ask for fewer replicas before they are taken away."""
    policies: Annotated[list[ScalingPolicy], Field(min_length=1)] = [
        ScalingPolicy(type="Percent", value=100, periodSeconds=15)
    ]
    """As for `scaleUp`."""


class MetricTarget(MetricUse):
    """A metric and the value that the HPA steers its average to."""

    target: Annotated[Amount, BeforeValidator(_target), Field(examples=[20])]
    """Average over the pods, in the metric's unit; for a metric in MiB also written as `512Mi` or `10Gi`."""

    @model_validator(mode="before")
    @classmethod
    def _memory_in_mib(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        metric = catalogue().find(str(values.get("name")))
        amount = re.fullmatch(rf"([0-9]{{1,{_MOST_DIGITS}}})(Mi|Gi)", str(values.get("target")))
        if not amount or not metric or metric.unit != "MiB":
            return values
        return {**values, "target": int(amount[1]) * (1024 if amount[2] == "Gi" else 1)}


class Autoscaler(_Model):
    """The HPA of a service."""

    name: Name | None = None
    """Name of the HPA; by default `<name of the service>-hpa`."""
    metrics: Annotated[list[MetricTarget], Field(min_length=1)] = [
        MetricTarget(name="DCGM_CUSTOM_PROCESS_SM_UTIL", target=Decimal(20))
    ]
    """What to scale on; of several metrics, the one that asks for most replicas counts."""
    min_replicas: Count = 1
    """Fewest replicas."""
    max_replicas: Count = 10
    """Most replicas; their GPUs must fit into the pool."""
    scale_up: ScaleUp = ScaleUp()
    scale_down: ScaleDown = ScaleDown()


class Service(_Model):
    """An inference service: Deployment, Service of type LoadBalancer, and HPA."""

    name: Annotated[Name, _SERVICE_NAME, Field(examples=["service"])]
    """Name of the Deployment; the Service is `<name>-svc`."""
    formerly: Annotated[Name, _SERVICE_NAME] | None = None
    """The service's first name, where `name` is another since: its objects keep that one, for Kubernetes renames
    none."""
    namespace: Name = "default"
    """Namespace of the service."""
    image: Annotated[Text, _IMAGE, Field(examples=["image"])]
    """Image of the container."""
    container_name: Name = "server"
    """Name of the container."""
    container_port: Port = 80
    """Where the container listens."""
    port: Port = 80
    """Where the load balancer listens."""
    gpus: Count = 1
    """Whole GPUs of each pod; with `cardMode: mig`, MIG instances."""
    gpu_memory_gib: Annotated[Count | None, Field(alias="gpuMemoryGiB")] = None
    """GiB of a shared card's memory for each pod; with `cgpu`, `share` and `core_mem`."""
    gpu_core_percent: Annotated[int, BeforeValidator(_digits), Field(ge=1, le=100)] | None = None
    """Percent of a shared card's computing power for each pod; with `core_mem`."""
    mig_profile: Annotated[str, _MIG_PROFILE] | None = None
    """Kind of MIG instance, such as 1g.10gb; with `cardMode: mig`."""
    startup_time: Annotated[str, _STARTUP_TIME] | None = None
    """How long a pod takes to become Ready, such as 90s; no scale-down window may be shorter."""
    args: list[str] = []
    """Arguments of the container; by default those of its image."""
    env: dict[Annotated[str, _VARIABLE], str] = {}
    """Environment of the container, in plain text."""
    env_from: list[SecretName] = []
    """Kubernetes Secrets of the namespace whose keys become environment variables: for what is secret."""
    cpu: Annotated[
        str,
        BeforeValidator(_quantity),
        _CPU,
        WithJsonSchema({"type": ["string", "number"], "pattern": f"^({_CPU.pattern})$"}),
    ] = "1"
    """CPUs that each pod asks for, such as 2 or 500m."""
    memory: Annotated[str, _MEMORY] = "2Gi"
    """Memory that each pod asks for, such as 512Mi or 4Gi."""
    load_balancer: Literal["internet", "intranet"] = "internet"
    """Whether the load balancer has a public address, or one of the VPC only; a change makes another load balancer,
    with another address."""
    health_path: Annotated[str, _PATH] | None = None
    """Path that answers 200 when a pod can serve; by default a pod is Ready when its port is open, and none is
    restarted because it hangs."""
    drain_time: Annotated[str, _DRAIN_TIME] = "5s"
    """How long a pod still serves after it was asked to end, while the load balancer takes it out; `0s`: not at
    all."""
    run_as_non_root: bool = False
    """Whether Kubernetes refuses an image that runs as root."""
    probe: Probe = Probe()
    autoscaler: Autoscaler = Autoscaler()
    adopted: bool = False
    """Whether Deployment, Service and HPA existed before the stack, as `make adopt` writes. They stay when the stack is
    destroyed, and the stack takes over their fields. Their pods get only what is set here: probes, requests and a
    security context by default would restart them."""
    retain_on_delete: bool = False
    """Whether Deployment, Service and HPA stay when the stack is destroyed."""

    @property
    def requests(self) -> dict[str, str]:
        """What the scheduler counts of each pod besides GPUs."""
        return {name: getattr(self, name) for name in ("cpu", "memory") if self._is_asked(name)}

    @property
    def drain_seconds(self) -> int:
        """How long a pod still serves after it was asked to end."""
        return duration_seconds(self.drain_time) if self._is_asked("drain_time") else 0

    def _is_asked(self, field: str) -> bool:
        return not self.adopted or field in self.model_fields_set

    @property
    def object_name(self) -> str:
        """Name of the service's Kubernetes objects."""
        return self.formerly or self.name

    @property
    def autoscaler_name(self) -> str:
        """Name of the HPA."""
        return self.autoscaler.name or f"{self.object_name}-hpa"

    @property
    def resource_name(self) -> str:
        """Name of the service's components in the stack: no two services of a stack share one."""
        return self.object_name if self.namespace == "default" else f"{self.namespace}/{self.object_name}"


class Budget(_Model):
    """What the stack may grow to; a preview above it is refused."""

    max_gpus: Count | None = None
    """Most GPUs that the node pool may have."""
    max_hourly_cost: Amount | None = None
    """Most that the GPU nodes may cost an hour, in the currency of `hourlyPrices`."""
    hourly_prices: dict[InstanceTypeName, Amount] = {}
    """Price of a node an hour by instance type; no price is guessed."""


class Settings(_Model):
    """All that a stack can set, under the namespace of the project."""

    region: Annotated[Region, Field(examples=["cn-hangzhou"])]
    """Region of the cluster, such as cn-hangzhou."""
    cluster: Annotated[Cluster, Field(examples=[{"id": "c0"}])]
    gpu_node_pool: Annotated[
        GpuNodePool, Field(examples=[{"instanceTypes": ["ecs.gn6i-c4g1.xlarge"], "autoscaling": {"max": 1}}])
    ]
    prometheus: Prometheus = Prometheus()
    metrics_adapter: MetricsAdapter = MetricsAdapter()
    budget: Budget = Budget()
    services: Annotated[list[Service], Field(examples=[[{"name": "service", "image": "image"}]])]
    """The inference services, as a list; `[]` is a platform for services of other stacks."""
    platform: Annotated[Text, _STACK] | None = None
    """Name of another stack, such as `organization/ackgpu/platform`, whose cluster, nodes, Prometheus and adapter the
    services use; this stack then sets `services` and `waitForMetrics` only."""
    wait_for_metrics: Annotated[str, _WAIT] = "5m"
    """How long `up` waits until each HPA reads its metric; `0s`: not at all, when a change must go through while
    metrics are down."""

    @cached_property
    def rule_set(self) -> RuleSet:
        """What the program's own rules expose for the services."""
        adapter = self.metrics_adapter
        uses = {(one.name, one.aggregation) for service in self.services for one in service.autoscaler.metrics}
        uses |= {(one.name, one.aggregation) for one in adapter.expose}
        return RuleSet(
            preset=adapter.rules,
            labels=adapter.labels,
            card_mode=self.gpu_node_pool.card_mode,
            idle_as_zero=adapter.idle_as_zero,
            uses=frozenset(uses),
        )

    @property
    def adapter_rules(self) -> list[Rule]:
        """All rules of the adapter, in the order of its chart."""
        return [*self.rule_set.rules(), *(rule.as_written() for rule in self.metrics_adapter.extra_rules)]
