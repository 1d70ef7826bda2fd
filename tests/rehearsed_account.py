"""Changes to the simulated account outside the program."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from rehearsal.alicloud.store import NETWORK, SWITCH, CloudResource, CloudStore, new_id

_FAILURES = {
    "OperationDenied.NoStock": "the requested resource is sold out in the specified zone; try other types or zones",
    "QuotaExceeded": "the quota of the resource is used up",
    "Throttling": "the request was denied due to request throttling",
}


def fail_creations(store: CloudStore, token: str, code: str, times: int = 1) -> None:
    """Make the next `times` creations of a type fail with a vendor error code."""
    with store.transaction() as cloud:
        cloud.failures[token] = [f"{code}: {_FAILURES[code]}"] * times


def require_access_key(store: CloudStore, access_key_id: str, access_key_secret: str) -> None:
    """Turn the Prometheus instance into a V2 instance that requires this AccessKey."""
    pair = base64.b64encode(f"{access_key_id}:{access_key_secret}".encode()).decode()
    with store.transaction() as cloud:
        cloud.prometheus_access = hashlib.sha256(f"Basic {pair}".encode()).hexdigest()


def require_no_credentials(store: CloudStore) -> None:
    """Turn the Prometheus instance into a V1 instance without credentials."""
    with store.transaction() as cloud:
        cloud.prometheus_access = None


def add_network(store: CloudStore, cidr: str, vswitches: Mapping[str, tuple[str, str]]) -> None:
    """Add a VPC that no program created.

    Args:
        store: state of the account.
        cidr: CIDR block of the VPC.
        vswitches: zone and CIDR block of each vSwitch, by id.
    """
    vpc_id = new_id("vpc")
    with store.transaction() as cloud:
        cloud.resources[vpc_id] = CloudResource(type=NETWORK, inputs={"cidrBlock": cidr}, outputs={})
        for vswitch_id, (zone, block) in vswitches.items():
            inputs = {"vpcId": vpc_id, "zoneId": zone, "cidrBlock": block}
            cloud.resources[vswitch_id] = CloudResource(type=SWITCH, inputs=inputs, outputs={})
