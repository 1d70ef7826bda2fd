"""The inference services: their settings, and the checks on them.

The checks of their GPU and CPU requests are in `capacity`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from autoscaling.settings.autoscaler import Autoscaler
from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import (
    DATE_TEXT,
    MEMORY,
    Count,
    Duration,
    Form,
    Int,
    Model,
    Name,
    Text,
    UrlPath,
    duration_seconds,
)

if TYPE_CHECKING:
    from autoscaling.settings.stack import Settings

SERVICE_SUFFIX = "-svc"
"""A service's Kubernetes Service is named as in the guide: `<name>-svc`."""

_UNPRIVILEGED_PORTS = 1024

_LONGEST_SERVICE_NAME = 63 - len(SERVICE_SUFFIX)
_SERVICE_NAME = Form(
    rf"[a-z]([-a-z0-9]{{0,{_LONGEST_SERVICE_NAME - 2}}}[a-z0-9])?",
    f"must start with a letter and have at most {_LONGEST_SERVICE_NAME} characters, because its Service is named "
    f"<name>{SERVICE_SUFFIX}",
)
_SECRET_NAME = Form(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    "must be the name of a Secret (at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both "
    "ends)",
)
_IMAGE = Form(r"(?!<)[!-~]+", "must be the name of an image without white space, such as registry.example.com/model:1")
_MIG_PROFILE = Form(r"[0-9]+g\.[0-9]+gb(\+me)?", "must be a MIG profile, such as 1g.10gb or 1g.10gb+me")
_STARTUP_TIME = Duration("must be a duration of at most 60m, such as 90s or 5m", 0, 60 * 60)
_DRAIN_TIME = Duration("must be a duration of at most 10m, such as 5s or 1m", 0, 10 * 60)
_VARIABLE = Form(
    r"[A-Za-z_][A-Za-z0-9_]*",
    "must have only letters, digits and '_', and must not start with a digit; use for example MODEL_NAME",
)
_CPU = Form(r"[0-9]{1,4}(\.[0-9]{1,3})?|[0-9]{1,7}m", "must be a number of CPUs, such as 2, 0.5 or 500m")
_MEMORY = Form(MEMORY, "must be an amount of memory, such as 512Mi or 4Gi")
_ANSWER = Form(rf"(?!<|{DATE_TEXT})[\s\S]*", "must be text, not a <placeholder>")


def _number_as_text(value: object) -> object:
    # YAML reads 2 and 0.5 as numbers.
    return value if isinstance(value, bool) or not isinstance(value, int | float) else f"{value:g}"


Cpu = Annotated[
    str,
    BeforeValidator(_number_as_text),
    _CPU,
    WithJsonSchema({"type": ["string", "number"], "pattern": f"^({_CPU.pattern})$"}),
]
Port = Annotated[Int, Field(ge=1, le=65535)]


class Probe(Model):
    """The request that `./ackgpu verify` sends to check that the service works."""

    path: UrlPath = "/predict?query=Music"
    """Path of the request that `./ackgpu verify` sends."""
    answer: Annotated[str, _ANSWER] = "PlayMusic"
    """Expected body of the response. If empty, any response with status 200 is correct."""


class Service(Model):
    """An inference service: Deployment, Service of type LoadBalancer, and HPA."""

    name: Annotated[Name, _SERVICE_NAME]
    """Name of the Deployment; the Service is `<name>-svc`."""
    formerly: Annotated[Name, _SERVICE_NAME] | None = None
    """The service's first name, if you changed `name` later. The service's objects keep the first name, because
    Kubernetes can't rename objects."""
    namespace: Name = "default"
    """Namespace of the service."""
    image: Annotated[Text, _IMAGE]
    """Image of the container."""
    container_name: Name = "server"
    """Name of the container."""
    container_port: Port = 80
    """Port of the container."""
    port: Port = 80
    """Port of the load balancer."""
    gpus: Count = 1
    """Number of whole GPUs of each pod, or of MIG instances with `cardMode: mig`."""
    gpu_memory_gib: Annotated[Count | None, Field(alias="gpuMemoryGiB")] = None
    """Memory of a shared card for each pod, in GiB; only with `cardMode` `cgpu`, `share` or `core_mem`."""
    gpu_core_percent: Annotated[Int, Field(ge=1, le=100)] | None = None
    """Computing power of a shared card for each pod, in percent; only with `cardMode: core_mem`."""
    mig_profile: Annotated[str, _MIG_PROFILE] | None = None
    """Profile of the MIG instances, such as 1g.10gb; only with `cardMode: mig`."""
    startup_time: Annotated[str, _STARTUP_TIME] | None = None
    """How long a pod takes to become Ready, such as 90s. The scale-down window must be at least as long."""
    args: list[str] = []
    """Arguments of the container; by default the image's own."""
    env: dict[Annotated[str, _VARIABLE], str] = {}
    """Environment variables of the container, in plain text."""
    env_from: list[Annotated[str, _SECRET_NAME]] = []
    """Kubernetes Secrets in the namespace of the service. Each key becomes an environment variable; use this for secret
    values."""
    cpu: Cpu = "1"
    """CPU request of each pod, such as 2 or 500m."""
    memory: Annotated[str, _MEMORY] = "2Gi"
    """Memory request of each pod, such as 512Mi or 4G."""
    load_balancer: Literal["internet", "intranet"] = "internet"
    """Address of the load balancer: public (`internet`), or inside the VPC only (`intranet`). A change replaces the
    load balancer and its address."""
    health_path: UrlPath | None = None
    """Path that returns status 200 when a pod can serve requests. By default a pod is Ready when its port is open, and
    pods that hang are not restarted."""
    drain_time: Annotated[str, _DRAIN_TIME] = "5s"
    """How long a pod serves requests after its deletion, while the load balancer removes the pod. With `0s`, the pod
    stops at once."""
    run_as_non_root: bool = False
    """Let Kubernetes refuse images that run as root."""
    probe: Probe = Probe()
    autoscaler: Autoscaler = Autoscaler()
    adopted: bool = False
    """Whether Deployment, Service and HPA existed before the stack; `./ackgpu adopt` sets this to true. The stack
    manages the fields of these objects, and keeps the objects when the stack is destroyed. The pod template also stays:
    pods get only the probes, requests, security context and drain time that are set here."""
    retain_on_delete: bool = False
    """Keep Deployment, Service and HPA when the stack is destroyed."""

    @property
    def requests(self) -> dict[str, str]:
        """CPU and memory requests of each pod."""
        return {name: getattr(self, name) for name in ("cpu", "memory") if self._is_asked(name)}

    @property
    def drain_seconds(self) -> int:
        """Seconds for which a pod serves requests after its deletion."""
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
        """Name of the service's components; it is unique in the stack."""
        return self.object_name if self.namespace == "default" else f"{self.namespace}/{self.object_name}"


def service_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error and warning of the services, except for autoscalers and resource requests."""
    yield from _unique_names(settings)
    for index, service in enumerate(settings.services):
        key = f"services[{index}]"
        if service.run_as_non_root and service.container_port < _UNPRIVILEGED_PORTS:
            yield Finding(
                f"{key}.runAsNonRoot is true, but containerPort is {service.container_port}. Most container runtimes "
                f"let only root listen below {_UNPRIVILEGED_PORTS}: use a higher port.",
                ("services",),
                "warning",
            )


def _unique_names(settings: Settings) -> Iterator[Finding]:
    services: dict[str, list[str]] = defaultdict(list)
    autoscalers: dict[str, list[str]] = defaultdict(list)
    for index, service in enumerate(settings.services):
        for name in {service.name, service.object_name}:
            services[f"{service.namespace}/{name}"].append(f"services[{index}]")
        autoscalers[f"{service.namespace}/{service.autoscaler_name}"].append(f"services[{index}]")
    formerly = {f"{service.namespace}/{service.formerly}" for service in settings.services if service.formerly}
    for what, names in (("services", services), ("autoscalers", autoscalers)):
        for name, where in names.items():
            if len(where) > 1:
                are = "are or were" if what == "services" and name in formerly else "are"
                yield Finding(
                    f"services: {len(where)} {what} {are} named {name} ({', '.join(where)}): give each a different "
                    "name.",
                    ("services",),
                )
