"""Whether the settings of the cluster name one, and one that can be made."""

from __future__ import annotations

from collections.abc import Iterator

from autoscaling.settings.findings import Finding
from autoscaling.settings.model import Settings


def cluster_findings(settings: Settings) -> Iterator[Finding]:
    """Every fault of `cluster`."""
    cluster = settings.cluster
    if (cluster.id is None) == (cluster.create is None):
        yield Finding(
            "cluster: set exactly one of id (of a cluster that exists) and create.", ("cluster.id", "cluster.create")
        )
