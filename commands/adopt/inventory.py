"""Which resources the settings name: live ones, missing ones, and those that the stack already has."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE
from autoscaling.settings import Settings
from autoscaling.settings.services import SERVICE_SUFFIX
from commands.adopt.account import Account
from commands.adopt.import_files import NODE_POOL, RELEASE, Thing
from commands.adopt.live_objects import LiveObjects, Object, ServiceObjects
from commands.adopt.pool_settings import of_pool
from commands.adopt.proposal import Proposal
from commands.adopt.release_settings import of_release
from commands.adopt.service_settings import of_service
from live.helm_release import HelmRelease

_PROMETHEUS = ("alicloud:arms/prometheus:Prometheus", "alicloud:cs/kubernetesAddon:KubernetesAddon")

Owned = Collection[tuple[str, str]]
"""Type and id of what the stack has."""


@dataclass
class Inventory:
    """All resources that the settings name."""

    proposal: Proposal = field(default_factory=Proposal)
    found: list[str] = field(default_factory=list)
    owned: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    things: dict[tuple[str, ...], Thing] = field(default_factory=dict)
    """What can be imported."""

    def lines(self) -> Iterator[str]:
        """A line for each resource."""
        yield from (f"found    {name}" for name in self.found)
        yield from (f"have     {name}: in the stack already" for name in self.owned)
        yield from (f"missing  {name}" for name in self.missing)


def take_inventory(settings: Settings, account: Account, cluster: LiveObjects, owned: Owned) -> Inventory:
    """Look up what the settings name in the account, in the cluster and in the stack's state."""
    inventory = Inventory()
    _pool(inventory, settings, account, owned)
    _prometheus(inventory, account, owned)
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
        inventory.proposal.add(of_service(service, ("services", index), new))
    return inventory


def _missing_service(name: str, objects: ServiceObjects) -> str:
    missing = f"Service {name}{SERVICE_SUFFIX}"
    others = ", ".join(
        f"{service['metadata']['namespace']}/{service['metadata']['name']} ({service['spec']['type']})"
        for service in objects.other_services
    )
    if not others:
        return missing
    return f"{missing}: the pods have {others}; `up` creates this one too, with a load balancer of its own"


def _pool(inventory: Inventory, settings: Settings, account: Account, owned: Owned) -> None:
    name = settings.gpu_node_pool.name
    ids = [f"{account.cluster_id}:{pool.pool_id}" for pool in account.pools]
    if not account.pools:
        others = ", ".join(f"{other} ({', '.join(types)})" for other, types in account.other_gpu_pools.items())
        hint = f": the cluster has {others}; set gpuNodePool.name to adopt one, or `up` creates another"
        inventory.missing.append(f"node pool {name}{hint if others else ''}")
    elif any((NODE_POOL, identity) in owned for identity in ids):
        inventory.owned.append(f"node pool {name}")
    elif len(account.pools) > 1:
        inventory.found.append(f"node pools {name}: {', '.join(pool.pool_id for pool in account.pools)}")
        inventory.proposal.problems.append(
            f"The cluster has {len(account.pools)} node pools named {name}: rename the one to adopt in the ACK "
            "console, and set gpuNodePool.name to its new name."
        )
    else:
        [pool], [identity] = account.pools, ids
        inventory.found.append(f"node pool {name} ({pool.pool_id})")
        inventory.things[NODE_POOL, name] = Thing(identity)
        inventory.proposal.add(of_pool(pool, account.vswitch_ids))


def _prometheus(inventory: Inventory, account: Account, owned: Owned) -> None:
    what = "Prometheus instance of the cluster"
    if account.prometheus is None:
        inventory.missing.append(what)
    elif any(type_ in _PROMETHEUS for type_, _ in owned):
        inventory.owned.append(what)
    else:
        inventory.found.append(f"{what}, which is used and not imported")
        inventory.proposal.settings["prometheus", "managedBy"] = "existing"


def _release(
    inventory: Inventory, settings: Settings, account: Account, release: HelmRelease | None, owned: Owned
) -> None:
    identity = f"{ADAPTER_NAMESPACE}/{ADAPTER_NAME}"
    what = f"release {identity}"
    if release is None:
        inventory.missing.append(what)
    elif (RELEASE, identity) in owned:
        inventory.owned.append(what)
    else:
        inventory.found.append(f"{what}, chart {release.version}, revision {release.revision}")
        inventory.things[RELEASE, ADAPTER_NAMESPACE, ADAPTER_NAME] = Thing(identity, release)
        inventory.proposal.add(of_release(release, settings, account.prometheus))


def _new(inventory: Inventory, live: Object | None, name: str, owned: Owned) -> Object | None:
    """The object, if the stack does not have it yet."""
    if live is None:
        inventory.missing.append(name)
        return None
    kind, metadata = live["kind"], live["metadata"]
    identity = f"{metadata['namespace']}/{metadata['name']}"
    what = f"{'HPA' if kind == 'HorizontalPodAutoscaler' else kind} {identity}"
    if any(type_.endswith(f":{kind}") and id_ == identity for type_, id_ in owned):
        inventory.owned.append(what)
        return None
    inventory.found.append(what)
    inventory.things[kind, metadata["namespace"], metadata["name"]] = Thing(identity, live)
    return live
