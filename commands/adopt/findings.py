"""What is there under the names of the settings, what is not, and what the stack has already."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE
from autoscaling.settings import Settings
from autoscaling.settings.services import SERVICE_SUFFIX
from commands.adopt.account import Account
from commands.adopt.import_files import NODE_POOL, RELEASE, Thing
from commands.adopt.live import Live, Object, ServiceObjects
from commands.adopt.part import Key, Part, Removed
from commands.adopt.pool_settings import of_pool
from commands.adopt.release_settings import of_release
from commands.adopt.service_settings import of_service

_PROMETHEUS = ("alicloud:arms/prometheus:Prometheus", "alicloud:cs/kubernetesAddon:KubernetesAddon")

Owned = Collection[tuple[str, str]]
"""Type and id of what the stack has."""


@dataclass
class Findings:
    """All of it."""

    part: Part = field(default_factory=Part)
    found: list[str] = field(default_factory=list)
    owned: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    things: dict[tuple[str, ...], Thing] = field(default_factory=dict)
    """What can be imported."""

    def lines(self) -> Iterator[str]:
        """Of what was looked for, one a line."""
        yield from (f"found    {one}" for one in self.found)
        yield from (f"have     {one}: in the stack already" for one in self.owned)
        yield from (f"missing  {one}" for one in self.missing)


def findings(settings: Settings, account: Account, live: Live, owned: Owned) -> Findings:
    """Compare what there is with the settings and with the state."""
    all_of_it = Findings()
    _pool(all_of_it, settings, account, owned)
    _prometheus(all_of_it, account, owned)
    _release(all_of_it, settings, account, live, owned)
    for index, service in enumerate(settings.services):
        objects = live.services[index]
        name = f"{service.namespace}/{service.object_name}"
        left = replace(
            objects,
            deployment=_left(all_of_it, objects.deployment, f"Deployment {name}", owned),
            service=_left(all_of_it, objects.service, _missing_service(name, objects), owned),
            autoscalers=[one for one in objects.autoscalers if _left(all_of_it, one, "", owned)],
        )
        if not objects.autoscalers:
            all_of_it.missing.append(f"HPA of Deployment {name}")
        all_of_it.part.add(of_service(service, ("services", index), left))
    return all_of_it


def _missing_service(name: str, objects: ServiceObjects) -> str:
    missing = f"Service {name}{SERVICE_SUFFIX}"
    others = ", ".join(
        f"{one['metadata']['namespace']}/{one['metadata']['name']} ({one['spec']['type']})"
        for one in objects.other_services
    )
    if not others:
        return missing
    return f"{missing}: the pods have {others}, and `up` makes this one beside, with a load balancer of its own"


def different(wanted: Mapping[Key, Any], settings: Settings) -> dict[Key, Any]:
    """Those of the wanted settings that are others now."""
    now = settings.model_dump(by_alias=True)
    return {
        key: value
        for key, value in wanted.items()
        if (_at(now, key) is not None if isinstance(value, Removed) else _filled(_at(now, key)) != _filled(value))
    }


def _at(values: Any, key: Key) -> Any:
    for one in key:
        if values is None:
            return None
        values = values[one] if isinstance(one, int) else values.get(one)
    return values


def _filled(value: Any) -> Any:
    """Without the inner keys that say nothing."""
    if isinstance(value, Mapping):
        inner = {key: _filled(one) for key, one in value.items()}
        return {key: one for key, one in inner.items() if one not in (None, "", {}, [])}
    return [_filled(one) for one in value] if isinstance(value, list) else value


def _pool(found: Findings, settings: Settings, account: Account, owned: Owned) -> None:
    name = settings.gpu_node_pool.name
    ids = [f"{account.cluster_id}:{pool.pool_id}" for pool in account.pools]
    if not account.pools:
        others = ", ".join(f"{other} ({', '.join(types)})" for other, types in account.other_gpu_pools.items())
        meant = f": there is {others}; set gpuNodePool.name to the one that is meant, or `up` makes another"
        found.missing.append(f"node pool {name}{meant if others else ''}")
    elif any((NODE_POOL, one) in owned for one in ids):
        found.owned.append(f"node pool {name}")
    elif len(account.pools) > 1:
        found.found.append(f"node pools {name}: {', '.join(pool.pool_id for pool in account.pools)}")
        found.part.problems.append(
            f"the cluster has {len(account.pools)} node pools of the name {name}: give the one that is meant another "
            "name in the ACK console, and set gpuNodePool.name to it."
        )
    else:
        [pool], [identity] = account.pools, ids
        found.found.append(f"node pool {name} ({pool.pool_id})")
        found.things[NODE_POOL, name] = Thing(identity)
        found.part.add(of_pool(pool, account.vswitch_ids))


def _prometheus(found: Findings, account: Account, owned: Owned) -> None:
    what = "Prometheus instance of the cluster"
    if account.prometheus is None:
        found.missing.append(what)
    elif any(type_ in _PROMETHEUS for type_, _ in owned):
        found.owned.append(what)
    else:
        found.found.append(f"{what}, which is used and not imported")
        found.part.settings["prometheus", "managedBy"] = "existing"


def _release(found: Findings, settings: Settings, account: Account, live: Live, owned: Owned) -> None:
    identity, what = f"{ADAPTER_NAMESPACE}/{ADAPTER_NAME}", f"release {ADAPTER_NAMESPACE}/{ADAPTER_NAME}"
    if live.release is None:
        found.missing.append(what)
    elif (RELEASE, identity) in owned:
        found.owned.append(what)
    else:
        found.found.append(f"{what}, chart {live.release.version}, revision {live.release.revision}")
        found.things[RELEASE, ADAPTER_NAMESPACE, ADAPTER_NAME] = Thing(identity, live.release)
        found.part.add(of_release(live.release, settings, account.prometheus))


def _left(found: Findings, live: Object | None, wanted: str, owned: Owned) -> Object | None:
    """The object, where the stack does not have it already."""
    if live is None:
        found.missing.append(wanted)
        return None
    kind, metadata = live["kind"], live["metadata"]
    identity = f"{metadata['namespace']}/{metadata['name']}"
    what = f"{'HPA' if kind == 'HorizontalPodAutoscaler' else kind} {identity}"
    if any(type_.endswith(f":{kind}") and one == identity for type_, one in owned):
        found.owned.append(what)
        return None
    found.found.append(what)
    found.things[kind, metadata["namespace"], metadata["name"]] = Thing(identity, live)
    return live
