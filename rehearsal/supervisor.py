"""The process of the rehearsal cloud: it starts the control plane, runs the simulation and stops everything."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from pathlib import Path

import httpx
import urllib3
from aiohttp import web
from kubernetes import client, config

from autoscaling.ack.versions import KUBERNETES_VERSION
from rehearsal.alicloud.plugin import install_plugin
from rehearsal.alicloud.store import CloudStore
from rehearsal.control_plane.intranet import intranet_endpoint
from rehearsal.control_plane.start import start_control_plane
from rehearsal.environment import link_commands, temporary_files_in, write_environment_file
from rehearsal.layout import PORTS, Layout
from rehearsal.processes import Processes, end_stray_processes, require_free_ports
from rehearsal.simulation import gpu_exporter, managed_prometheus
from rehearsal.simulation.adapter_agent import AdapterAgent
from rehearsal.simulation.cluster_copy import ClusterCopy
from rehearsal.simulation.exporter_agent import ExporterAgent
from rehearsal.simulation.inference import InferenceServers
from rehearsal.simulation.load_balancer import LoadBalancers
from rehearsal.simulation.scaling_groups import ScalingGroups, kwok_node
from rehearsal.stack_file import rehearsed_settings

_log = logging.getLogger(__name__)

_ROUND_SECONDS = 0.3
_SYSTEM_NODE = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def serve(layout: Layout, tools: Path) -> None:
    """Run the cloud until SIGTERM or SIGINT, then remove its folder.

    Raises:
        RehearsalError: a part of the cloud did not start, or ended by itself.
    """
    settings = rehearsed_settings(layout.checkout)
    cluster_id, region = settings.cluster.id, settings.region
    require_free_ports(layout.address, dataclasses.asdict(PORTS))
    require_free_ports(layout.intranet_address, {"api_server": PORTS.api_server})
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, layout.cloud, ignore_errors=True)
        prepare_folders(layout)
        # TMPDIR is not enough: tempfile may have chosen its folder before this folder existed.
        cleanup.enter_context(temporary_files_in(layout.temporary))
        layout.pid_file.write_text(str(os.getpid()))
        processes = cleanup.enter_context(Processes(layout))
        # End the engine and the load of a killed job first; the API server would wait for them.
        cleanup.callback(end_stray_processes, layout, os.getpid())
        cleanup.callback(layout.pid_file.unlink, missing_ok=True)
        start_control_plane(layout, tools, processes)
        store = CloudStore(layout.store)
        store.create(cluster_id=cluster_id, region=region, version=KUBERNETES_VERSION)
        managed_prometheus.write_address(layout, region)
        install_plugin(layout)
        _link_kubernetes_plugin(layout, tools)
        link_commands(layout, tools)
        write_environment_file(layout)
        asyncio.run(_simulate(layout, tools, processes, store, region))


def prepare_folders(layout: Layout) -> None:
    """Create the empty folders of a new cloud."""
    shutil.rmtree(layout.cloud, ignore_errors=True)
    shutil.rmtree(layout.logs, ignore_errors=True)
    layout.logs.mkdir(parents=True)
    layout.cloud.mkdir(mode=0o700)
    for folder in (layout.home, layout.temporary, layout.backend, layout.pulumi_home):
        folder.mkdir()


def _link_kubernetes_plugin(layout: Layout, tools: Path) -> None:
    folder = layout.pulumi_home / "plugins" / f"resource-kubernetes-v{version('pulumi_kubernetes')}"
    folder.mkdir(parents=True)
    for name in ("pulumi-resource-kubernetes", "schema.json", "terraform-mapping.json"):
        # A released provider has its schema inside.
        if (tools / name).is_file():
            (folder / name).symlink_to((tools / name).resolve())


async def _simulate(layout: Layout, tools: Path, processes: Processes, store: CloudStore, region: str) -> None:
    cluster = ClusterCopy(config.new_client_from_config(str(layout.own_kubeconfig)))
    if store.read().cluster:
        await asyncio.to_thread(cluster.core.create_node, kwok_node(f"{region}.10.0.0.1", {}, dict(_SYSTEM_NODE)))
    servers = InferenceServers()
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(intranet_endpoint(layout))
        upstream = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=30))
        await stack.enter_async_context(
            _listening(gpu_exporter.application(cluster, servers), layout.address, PORTS.gpu_exporter)
        )
        await stack.enter_async_context(
            _listening(
                managed_prometheus.application(layout, store, upstream), layout.address, PORTS.managed_prometheus
            )
        )
        balancers = LoadBalancers(layout, cluster, servers)
        stack.push_async_callback(balancers.close)
        agent = AdapterAgent(layout, tools, cluster, processes)
        stack.push_async_callback(agent.close)
        scaling_groups = ScalingGroups(cluster, store, region)
        exporter = ExporterAgent(cluster, store)

        async def check_children() -> None:
            processes.check(except_for=agent.process_name)
            servers.keep_only({pod["metadata"]["uid"] for pod in cluster.pods})

        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        loops = [
            asyncio.create_task(_repeat(step))
            for step in (
                balancers.reconcile,
                agent.reconcile,
                scaling_groups.reconcile,
                exporter.reconcile,
                check_children,
            )
        ]
        stopped = asyncio.create_task(ended.wait())
        layout.ready_file.touch()
        done, pending = await asyncio.wait([stopped, *loops], return_when=asyncio.FIRST_COMPLETED)
        # Let the next start proceed; it waits until this process has ended.
        layout.pid_file.unlink(missing_ok=True)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()


async def _repeat(step: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await step()
        except (client.ApiException, urllib3.exceptions.HTTPError) as error:
            # The next round reads the current state again.
            _log.warning("%s: %s", step.__qualname__, str(error).splitlines()[0])
        except (KeyError, TypeError, ValueError, AttributeError):
            # An object of an unexpected shape must not end the cloud and lose the stack's state.
            _log.exception("%s", step.__qualname__)
        await asyncio.sleep(_ROUND_SECONDS)


@contextlib.asynccontextmanager
async def _listening(application: web.Application, address: str, port: int) -> AsyncIterator[None]:
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, port, reuse_address=True).start()
    try:
        yield
    finally:
        await runner.cleanup()
