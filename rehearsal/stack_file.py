"""What the rehearsal must know of the stack that it rehearses: the cluster that the stack adopts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from rehearsal.errors import RehearsalError
from rehearsal.layout import STACK


@dataclass(frozen=True)
class RehearsedCluster:
    """The ACK cluster that exists before the program runs."""

    id: str
    region: str


def rehearsed_cluster(checkout: Path) -> RehearsedCluster:
    """Read the cluster's id and region from the stack's configuration.

    Raises:
        RehearsalError: the file is missing, is no YAML, or lacks one of the two.
    """
    path = checkout / f"Pulumi.{STACK}.yaml"
    try:
        values = yaml.safe_load(path.read_text())["config"]
        return RehearsedCluster(id=values["ackgpu:cluster"]["id"], region=values["ackgpu:region"])
    except OSError as error:
        raise RehearsalError(f"{path.name} can't be read: {error.strerror}.") from None
    except yaml.YAMLError as error:
        raise RehearsalError(f"{path.name} is no YAML: {error}.") from None
    except (KeyError, TypeError):
        raise RehearsalError(
            f"{path.name} must set ackgpu:region and ackgpu:cluster.id: the rehearsal makes that cluster."
        ) from None
