"""What tests do to the account of a rehearsal cloud behind the program's back."""

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
    """Let the next `times` creations of a type fail with the vendor's error code."""
    with store.transaction() as cloud:
        cloud.failures[token] = [f"{code}: {_FAILURES[code]}"] * times


def require_access_key(store: CloudStore, access_key_id: str, access_key_secret: str) -> None:
    """Make the Prometheus instance one of V2 that only this AccessKey may read."""
    pair = base64.b64encode(f"{access_key_id}:{access_key_secret}".encode()).decode()
    with store.transaction() as cloud:
        cloud.prometheus_access = hashlib.sha256(f"Basic {pair}".encode()).hexdigest()


def require_no_credentials(store: CloudStore) -> None:
    """Make the Prometheus instance one of V1 without a token."""
    with store.transaction() as cloud:
        cloud.prometheus_access = None


def add_network(store: CloudStore, cidr: str, vswitches: Mapping[str, tuple[str, str]]) -> None:
    """Add a VPC that no program created.

    Args:
        store: of the account.
        cidr: of the VPC.
        vswitches: id of each vSwitch to its zone and CIDR.
    """
    vpc_id = new_id("vpc")
    with store.transaction() as cloud:
        cloud.resources[vpc_id] = CloudResource(type=NETWORK, inputs={"cidrBlock": cidr}, outputs={})
        for vswitch_id, (zone, inner) in vswitches.items():
            inputs = {"vpcId": vpc_id, "zoneId": zone, "cidrBlock": inner}
            cloud.resources[vswitch_id] = CloudResource(type=SWITCH, inputs=inputs, outputs={})
