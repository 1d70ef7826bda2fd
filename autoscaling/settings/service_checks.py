"""Whether the pods of a service find room besides their GPUs, may listen where they do, and keep their secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from decimal import Decimal

from autoscaling.ack.instance_types import InstanceType, find_instance_type, gpu_memory_mib
from autoscaling.settings.findings import Finding
from autoscaling.settings.gpu_checks import gpus_per_node, most_nodes
from autoscaling.settings.model import GpuNodePool, Service, Settings
from autoscaling.settings.model_keys import within

_TYPES = "gpuNodePool.instanceTypes"
_POOL = (_TYPES, "gpuNodePool.gpusPerNode", "gpuNodePool.cardMode", "gpuNodePool.size", "gpuNodePool.autoscaling")
_UNPRIVILEGED_PORTS = 1024
_UNITS = {"m": Decimal("0.001"), "Ki": Decimal(1) / 2**20, "Mi": Decimal(1) / 2**10, "Gi": Decimal(1)}


def service_findings(settings: Settings) -> Iterator[Finding]:
    """Every fault and warning of what the pods ask for."""
    for index, service in enumerate(settings.services):
        key = f"services[{index}]"
        yield from _room(service, key, settings.gpu_node_pool)
        if service.run_as_non_root and service.container_port < _UNPRIVILEGED_PORTS:
            yield Finding(
                f"{key}.runAsNonRoot is true, and containerPort is {service.container_port}: below "
                f"{_UNPRIVILEGED_PORTS} most container runtimes let only root listen; let the image listen above.",
                (f"{key}.runAsNonRoot", f"{key}.containerPort"),
                "warning",
            )


def secrets_in_the_environment(settings: Settings, encrypted: Collection[str]) -> Iterator[Finding]:
    """Every encrypted value that would be plain text in the cluster.

    Args:
        settings: of the stack.
        encrypted: keys with an encrypted value in them.
    """
    for index, service in enumerate(settings.services):
        keys = {f"services[{index}].env.{name}": "env" for name in service.env}
        keys |= {f"services[{index}].args[{position}]": "args" for position in range(len(service.args))}
        for key, where in keys.items():
            if any(within(key, one) for one in encrypted):
                yield Finding(
                    f"{key} is encrypted, and what is in {where} is plain text in the cluster: put it into a "
                    f"Kubernetes Secret, and the name of that into services[{index}].envFrom.",
                    # However little is known of the value, it must not stand there.
                    (),
                )


def _room(service: Service, key: str, pool: GpuNodePool) -> Iterator[Finding]:
    rows = [find_instance_type(name) for name in pool.instance_types]
    pods, nodes, most = _pods_of_a_node(service, pool), most_nodes(pool), service.autoscaler.max_replicas
    for name, text in service.requests.items():
        offers = [_offer(name, row) for row in rows if row]
        asked = _amount(text)
        if len(offers) < len(rows) or not all(offers) or not asked:
            continue
        least, largest = min(offers), max(offers)
        unit = "vCPUs" if name == "cpu" else "GiB"
        keys = (f"{key}.{name}", *_POOL)
        if asked > largest:
            yield Finding(f"{key}.{name} is {text}, but a node of the pool has {largest:f} {unit}: lower it.", keys)
        elif pods and nodes and nodes * int(largest // asked) < min(most, nodes * pods):
            held = int(largest // asked)
            yield Finding(
                f"{key}.{name} is {text}: of such pods a node of the pool holds {held} ({largest:f} {unit}), and "
                f"{nodes} nodes hold {nodes * held}, fewer than maxReplicas ({most}): lower {name} or maxReplicas, or "
                "raise the pool.",
                (*keys, f"{key}.autoscaler.maxReplicas", *_cards(key)),
            )
        elif pods and asked * pods > least:
            yield Finding(
                f"{key}.{name} is {text}, and {pods} pods, as many as the GPUs of a node take, ask for "
                f"{asked * pods:f} {unit} of a node's {least:f}: GPUs stay unused; lower it.",
                (*keys, *_cards(key)),
                "warning",
            )


def _cards(key: str) -> list[str]:
    return [f"{key}.gpus", f"{key}.gpuMemoryGiB"]


def _pods_of_a_node(service: Service, pool: GpuNodePool) -> int | None:
    """How many its GPUs take; None where that is not known."""
    cards = gpus_per_node(pool)
    if cards is None or pool.card_mode == "mig":
        return None
    if pool.card_mode == "exclusive":
        return cards // service.gpus
    card = gpu_memory_mib(pool.instance_types)
    return cards * (card // 1024 // service.gpu_memory_gib) if card and service.gpu_memory_gib else None


def _offer(name: str, row: InstanceType) -> Decimal:
    """CPUs or GiB of a node, of which the system keeps some; 0 where they are not known."""
    return Decimal(str(row.vcpus if name == "cpu" else row.memory_gib)).normalize()


def _amount(text: str) -> Decimal:
    """CPUs or GiB that a quantity of the settings stands for."""
    unit = next((one for one in _UNITS if text.endswith(one)), "")
    return Decimal(text.removesuffix(unit)) * _UNITS.get(unit, Decimal(1))
