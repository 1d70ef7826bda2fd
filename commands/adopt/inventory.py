"""The resources that the settings name: live, missing or already in the stack."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from autoscaling.ack.instance_types import has_gpus
from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE
from autoscaling.settings import Settings
from autoscaling.settings.services import SERVICE_SUFFIX
from commands.account_query import Account
from commands.adopt.import_files import NODE_POOL, RELEASE, LiveResource
from commands.adopt.live_objects import LiveObjects, ServiceObjects, display_name
from commands.adopt.pool_settings import propose_pool
from commands.adopt.proposal import Proposal
from commands.adopt.release_settings import propose_release
from commands.adopt.service_settings import propose_service
from live.cluster_client import Object
from live.helm_release import HelmRelease

_PROMETHEUS = ("alicloud:arms/prometheus:Prometheus", "alicloud:cs/kubernetesAddon:KubernetesAddon")

Owned = Collection[tuple[str, str]]
"""Type and ID of each resource in the stack."""


@dataclass
class Inventory:
    """The resources that the settings name."""

    proposal: Proposal = field(default_factory=Proposal)
    found: list[str] = field(default_factory=list)
    owned: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    importable: dict[tuple[str, ...], LiveResource] = field(default_factory=dict)
    """Resources to import."""

    def lines(self) -> Iterator[str]:
        """Yield a line for each resource."""
        yield from (f"found    {name}" for name in self.found)
        yield from (f"in stack {name}" for name in self.owned)
        yield from (f"missing  {name}" for name in self.missing)

    def add(self, name: str, *, exists: object, owned: bool, if_new: str = "", if_missing: str = "") -> bool:
        """Add a line. Return True if the resource is live and the stack does not have it yet."""
        if not exists:
            self.missing.append(name + if_missing)
        elif owned:
            self.owned.append(name)
        else:
            self.found.append(name + if_new)
        return bool(exists and not owned)


def take_inventory(settings: Settings, account: Account, cluster: LiveObjects, owned: Owned) -> Inventory:
    """Look up the resources of the settings in the account, the cluster and the stack's state."""
    inventory = Inventory()
    _pool(inventory, settings, account, owned)
    if inventory.add(
        "Prometheus instance of the cluster",
        exists=account.prometheus,
        owned=any(type_ in _PROMETHEUS for type_, _ in owned),
        if_new=": used, not imported",
    ):
        inventory.proposal.settings["prometheus", "managedBy"] = "existing"
    _release(inventory, settings, account, cluster.release, owned)
    for index, (service, objects) in enumerate(zip(settings.services, cluster.services, strict=True)):
        name = f"{service.namespace}/{service.object_name}"
        new = replace(
            objects,
            deployment=_new(inventory, objects.deployment, f"Deployment {name}", owned),
            service=_new(inventory, objects.service, _missing_service(name, objects), owned),
            autoscalers=[hpa for hpa in objects.autoscalers if _new(inventory, hpa, "", owned)],
        )
        if not objects.autoscalers:
            inventory.missing.append(f"HPA of Deployment {name}")
        propose_service(inventory.proposal, service, ("services", index), new)
    return inventory


def _missing_service(name: str, objects: ServiceObjects) -> str:
    missing = f"Service {name}{SERVICE_SUFFIX}"
    others = ", ".join(
        f"{service['metadata']['namespace']}/{service['metadata']['name']} ({service['spec']['type']})"
        for service in objects.other_services
    )
    if not others:
        return missing
    return f"{missing}: the pods already have {others}; `pulumi up` would add this Service with its own load balancer"


def _pool(inventory: Inventory, settings: Settings, account: Account, owned: Owned) -> None:
    name, proposal = settings.gpu_node_pool.name, inventory.proposal
    pools = {
        f"{settings.cluster.id}:{pool.node_pool_id}": pool for pool in account.pools if pool.node_pool_name == name
    }
    others = ", ".join(
        f"{pool.node_pool_name} ({', '.join(pool.instance_types)})"
        for pool in account.pools
        if any(has_gpus(type_) for type_ in pool.instance_types or [])
    )
    hint = f": the cluster has {others}; set gpuNodePool.name to adopt a pool, or `pulumi up` creates a new pool"
    ids = ", ".join(pool.node_pool_id for pool in pools.values())
    if not inventory.add(
        f"node pool {name}",
        exists=pools,
        owned=any((NODE_POOL, identity) in owned for identity in pools),
        if_new=f" ({ids})",
        if_missing=hint if others else "",
    ):
        return
    if len(pools) > 1:
        proposal.problems.append(
            f"The cluster has {len(pools)} node pools named {name}. Rename one of them in the ACK console and set "
            "gpuNodePool.name to the new name."
        )
        return
    [(identity, pool)] = pools.items()
    inventory.importable[NODE_POOL,] = LiveResource(identity)
    propose_pool(proposal, pool, account.vswitch_ids)


def _release(
    inventory: Inventory, settings: Settings, account: Account, release: HelmRelease | None, owned: Owned
) -> None:
    identity = f"{ADAPTER_NAMESPACE}/{ADAPTER_NAME}"
    version = f", chart {release.version}, revision {release.revision}" if release else ""
    is_new = inventory.add(f"release {identity}", exists=release, owned=(RELEASE, identity) in owned, if_new=version)
    if release and is_new:
        inventory.importable[RELEASE,] = LiveResource(identity, release)
        propose_release(inventory.proposal, release, settings, account.prometheus)


def _new(inventory: Inventory, live: Object | None, name: str, owned: Owned) -> Object | None:
    """Record an object. Return it if the stack does not have it yet."""
    if live is None:
        inventory.missing.append(name)
        return None
    kind, metadata = live["kind"], live["metadata"]
    identity = f"{metadata['namespace']}/{metadata['name']}"
    is_owned = any(type_.endswith(f":{kind}") and id_ == identity for type_, id_ in owned)
    if not inventory.add(display_name(live), exists=True, owned=is_owned):
        return None
    inventory.importable[kind, metadata["namespace"], metadata["name"]] = LiveResource(identity, live)
    return live
