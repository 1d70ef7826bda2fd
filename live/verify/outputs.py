"""The stack outputs that the checks start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel


class OutputsError(Exception):
    """The stack lacks outputs that the checks need. The message is a full sentence for the user."""


class _Outputs(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True)


class MetricOutputs(_Outputs):
    """A metric of an HPA."""

    name: str
    """Exposed name."""
    target: Annotated[str, Field(pattern=r"^\d+(\.\d+)?$")]
    """Target average over the pods, in the metric's unit."""


class ServiceOutputs(_Outputs):
    """An inference service."""

    name: str
    namespace: str
    deployment: str
    service: str
    address: str
    predict_url: str
    answer: str
    """Expected body of the response from `predict_url`, without surrounding white space; empty: any body."""
    hpa: str
    metrics: Annotated[list[MetricOutputs], Field(min_length=1)]
    """The load test watches the first metric."""
    min_replicas: int
    max_replicas: int

    @property
    def hpa_path(self) -> str:
        """`<namespace>/<name>` of the HPA."""
        return f"{self.namespace}/{self.hpa}"


class StackOutputs(_Outputs):
    """The outputs of the stack."""

    cluster_id: str
    api_server: str | None = None
    """Address of the API server that the stack uses; None: unknown."""
    custom_metrics_path: Annotated[str, Field(pattern=r"^/apis/[^/]+/[^/]+$")]
    metric_resources: list[str]
    """`<resource>/<metric>`, as the custom metrics API lists them."""
    services: list[ServiceOutputs]
    adapter_rules: dict[str, str] | None = None
    """Fingerprints of the stack's adapter rules; None if another stack installs the adapter."""
    monitored_node_pool_id: str | None = None
    """The pool whose GPU nodes need ACK's exporter; None if another exporter is used."""

    @classmethod
    def of(cls, stack: str, outputs: Mapping[str, Any]) -> StackOutputs:
        """Read a stack's outputs.

        Raises:
            OutputsError: an output is missing or invalid.
        """
        if not outputs:
            raise OutputsError(f"Stack {stack} has no outputs: run `pulumi up` on that stack first.")
        try:
            return cls.model_validate(dict(outputs))
        except ValidationError as error:
            location = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise OutputsError(
                f"Output {location} of stack {stack} is missing or not valid: run `pulumi up` on that stack with this "
                "version of the program."
            ) from None
