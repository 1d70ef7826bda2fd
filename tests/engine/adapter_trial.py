"""Run the real prometheus-adapter on given rules, with a Prometheus that serves `adapter_series.prom`."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import trustme
import yaml
from kubernetes.utils.quantity import parse_quantity

from rehearsal.control_plane.kubeconfigs import write_private
from rehearsal.layout import Layout
from rehearsal.processes import Processes
from tests.engine.command import wait_until

NAMESPACE = "demo"

CONTROL_RULE: Mapping[str, Any] = {
    "seriesQuery": "queue_length",
    "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
    "metricsQuery": "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
}
"""A valid rule that precedes the rules under test: its metric shows whether they affect other rules."""

_PROCESS = "prometheus-adapter on trial"
_PORT = 6543
_API = "/apis/custom.metrics.k8s.io/v1beta1"

Values = dict[str, Decimal] | str
"""Values by object name, or `error <status>`."""


@dataclass(frozen=True)
class Served:
    """The metrics that the running adapter serves."""

    client: httpx.Client

    def names(self) -> set[str]:
        """Return `<resource>/<metric>` for each listed metric."""
        return {resource["name"] for resource in self.client.get(_API).json()["resources"]}

    def of_pods(self, metric: str, namespace: str = NAMESPACE) -> Values:
        return self._values(f"namespaces/{namespace}/pods/*/{quote(metric, safe='')}")

    def of_nodes(self, metric: str) -> Values:
        return self._values(f"nodes/*/{metric}")

    def _values(self, path: str) -> Values:
        response = self.client.get(f"{_API}/{path}")
        if not response.is_success:
            return f"error {response.status_code}"
        items = response.json()["items"]
        return {item["describedObject"]["name"]: Decimal(parse_quantity(item["value"])) for item in items}


@dataclass(frozen=True)
class Exited:
    """The adapter exited."""

    log: str


@dataclass(frozen=True)
class ListsNothing:
    """The adapter runs but lists no metrics."""

    log: str


class AdapterTrial:
    """Starts the adapter on a set of rules."""

    def __init__(self, layout: Layout, tools: Path, folder: Path, processes: Processes, prometheus: str) -> None:
        self._layout, self._tools, self._folder, self._processes = layout, tools, folder, processes
        self._prometheus = prometheus
        authority = trustme.CA()
        authority.issue_cert(layout.address).private_key_and_cert_chain_pem.write_to_path(folder / "adapter.pem")
        self._trust = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
        [user] = yaml.safe_load(layout.kubeconfig.read_text())["users"]
        _client_certificate(user["user"], folder)
        self._trust.load_cert_chain(folder / "admin.crt", folder / "admin.key")

    @contextmanager
    def run(self, rules: Sequence[Mapping[str, Any]]) -> Iterator[Served | Exited | ListsNothing]:
        """Run the adapter on the rules; yield once it lists its metrics or fails."""
        (self._folder / "config.yaml").write_text(yaml.safe_dump({"rules": list(rules)}))
        log = self._processes.log_path(_PROCESS)
        log.unlink(missing_ok=True)
        base_url = f"https://{self._layout.address}:{_PORT}"
        self._processes.start(_PROCESS, self._command())
        try:
            with httpx.Client(base_url=base_url, verify=self._trust, trust_env=False) as client:
                served = Served(client)
                wait_until(lambda: self._outcome(served), f"the adapter starts or exits: see {log}", seconds=60)
                outcome = self._outcome(served)
                assert outcome
                yield outcome
        finally:
            self._processes.stop(_PROCESS)

    def _outcome(self, served: Served) -> Served | Exited | ListsNothing | None:
        exited = not self._processes.running(_PROCESS)
        log = self._processes.log_path(_PROCESS).read_text()
        if exited:
            return Exited(log)
        if "unable to update list of all metrics" in log:
            return ListsNothing(log)
        try:
            return served if f"pods/{CONTROL_RULE['seriesQuery']}" in served.names() else None
        except (httpx.TransportError, KeyError):
            return None

    def _command(self) -> list[str | Path]:
        kubeconfig = self._layout.kubeconfig
        return [
            self._tools / "prometheus-adapter",
            f"--config={self._folder / 'config.yaml'}",
            f"--prometheus-url={self._prometheus}",
            f"--lister-kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={self._layout.address}",
            f"--secure-port={_PORT}",
            f"--tls-cert-file={self._folder / 'adapter.pem'}",
            f"--tls-private-key-file={self._folder / 'adapter.pem'}",
            "--metrics-relist-interval=1m",
            "--metrics-max-age=20m",
        ]


def _client_certificate(user: Mapping[str, str], folder: Path) -> None:
    for suffix, key in (("crt", "client-certificate-data"), ("key", "client-key-data")):
        write_private(folder / f"admin.{suffix}", base64.b64decode(user[key]))
