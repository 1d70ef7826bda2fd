"""Cluster access by kubeconfig, proxy and TLS; no message has a secret."""

from __future__ import annotations

import base64
import json
import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from live import cluster_client
from live.cluster_client import connected
from live.kubeconfig import read_kubeconfig
from rehearsal.control_plane.kubeconfigs import certificate_user, kubeconfig
from tests.unit.fake_cluster import FakeCluster, running
from tests.unit.fake_cluster import kubeconfig_of as access

PATH = "/apis"
ANSWERS: dict[str, Any] = {PATH: {}}


def read(content: str) -> None:
    with connected(content) as client:
        client.read(PATH)


def test_an_empty_token_is_not_sent() -> None:
    with running(ANSWERS) as cluster:
        read(access({"server": cluster.host}, {"token": ""}))
    assert set(cluster.authorizations.values()) == {None}


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_requests_go_through_the_proxy(scheme: str, proxied: pytest.MonkeyPatch) -> None:
    server = "http://cluster.invalid"
    with running({f"{server}{PATH}": {}}) as proxy:
        proxied.setenv("http_proxy", proxy.host.replace("http://", scheme))
        read(access({"server": server}))
    assert proxy.requests == [f"{server}{PATH}"]


@pytest.mark.parametrize(
    "address", ["socks5://u:c2VjcmV0@localhost:1080", "ftp://u:c2VjcmV0@localhost:1", "http://u@localhost:c2VjcmV0"]
)
def test_refuses_a_proxy_that_it_cannot_use(address: str, proxied: pytest.MonkeyPatch) -> None:
    proxied.setenv("https_proxy", address)
    phrase = "^can't be reached: this client does not support the proxy in HTTPS_PROXY"
    with pytest.raises(cluster_client.UnsupportedError, match=phrase) as failure:
        read(access({}))
    assert "c2VjcmV0" not in str(failure.value)


AUTHORITY, ANOTHER_AUTHORITY = trustme.CA(), trustme.CA()


@pytest.fixture(scope="module")
def secured() -> Iterator[FakeCluster]:
    """A cluster over TLS that requires a client certificate."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(tls)
    AUTHORITY.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    with running(ANSWERS, tls) as cluster:
        yield cluster


def test_a_client_certificate_is_sent_and_only_the_user_can_read_its_key(
    secured: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def spy(self: ssl.SSLContext, pair: Path) -> None:
        modes.append(stat.S_IMODE(pair.stat().st_mode))
        load(self, pair)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    user = certificate_user(AUTHORITY, "admin")
    before = os.umask(0)
    try:
        read(kubeconfig(secured.host, AUTHORITY.cert_pem.bytes(), user).decode())
    finally:
        os.umask(before)
    assert modes == [0o600]


def test_a_new_connection_leaves_the_context_that_other_handshakes_read(
    secured: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # OpenSSL frees the old protocols here, and a handshake in another thread may be copying them.
    changed: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "set_alpn_protocols", lambda _, protocols: changed.append(protocols))
    read(kubeconfig(secured.host, AUTHORITY.cert_pem.bytes(), certificate_user(AUTHORITY, "admin")).decode())
    assert changed == []


@pytest.mark.parametrize("user", [{}, certificate_user(ANOTHER_AUTHORITY, "admin")])
def test_reports_a_server_that_refuses_the_certificate(secured: FakeCluster, user: dict[str, str]) -> None:
    with pytest.raises(cluster_client.UnreachableError, match=r"^at https://127\.0\.0\.1:\d+ can't be reached"):
        read(kubeconfig(secured.host, AUTHORITY.cert_pem.bytes(), user).decode())


def test_the_server_is_verified(secured: FakeCluster) -> None:
    user = certificate_user(AUTHORITY, "admin")
    with pytest.raises(cluster_client.UnreachableError, match="certificate verify failed"):
        read(kubeconfig(secured.host, ANOTHER_AUTHORITY.cert_pem.bytes(), user).decode())


@pytest.mark.parametrize(
    ("bypass", "direct"),
    [
        ("127.0.0.0/8", True),
        ("example.com,127.0.0.1", True),
        ("*", True),
        ("10.0.0.0/8,example.com", False),
        ("", False),
    ],
)
def test_bypasses_the_proxy_for_names_and_networks_in_no_proxy(
    bypass: str, direct: bool, proxied: pytest.MonkeyPatch
) -> None:
    with running(ANSWERS) as cluster, running({}) as proxy:
        proxied.setenv("http_proxy", proxy.host)
        proxied.setenv("no_proxy", bypass)
        read(access({"server": cluster.host}))
        assert (cluster.requests == [PATH]) is direct
        assert (proxy.requests == [f"{cluster.host}{PATH}"]) is not direct


def test_reports_a_proxy_that_refuses_the_connection(proxied: pytest.MonkeyPatch) -> None:
    with running({}) as proxy:
        proxied.setenv("https_proxy", proxy.host.replace("http://", "http://u:c2VjcmV0@"))
        with pytest.raises(cluster_client.UnreachableError, match="proxy: Tunnel connection failed: 501") as failure:
            read(access({"server": "https://cluster.invalid"}, {"token": "c2VjcmV0"}))
    assert "c2VjcmV0" not in str(failure.value)


def test_refuses_several_files_in_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "first").write_text(access({}))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}{os.pathsep}{tmp_path / 'first'}")
    assert read_kubeconfig() == access({})
    (tmp_path / "second").write_text(access({}))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'first'}{os.pathsep}{tmp_path / 'second'}")
    with pytest.raises(cluster_client.UnsupportedError, match="KUBECONFIG lists several files"):
        read_kubeconfig()


def plugin(folder: Path, status: dict[str, str], version: str = "v1") -> dict[str, Any]:
    """Return a user with a credential plugin that numbers its tokens."""
    script = folder / "login"
    answer = json.dumps({"kind": "ExecCredential", "status": status})
    script.write_text(
        '#!/bin/sh\necho run >> "$RUNS"\necho "$KUBERNETES_EXEC_INFO" | grep -q ExecCredential || exit 1\n'
        f"sed \"s/<run>/$(wc -l < \"$RUNS\" | tr -d ' ')/\" <<'END'\n{answer}\nEND\n"
    )
    script.chmod(0o755)
    runs = {"name": "RUNS", "value": str(folder / "runs")}
    return {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": str(script), "env": [runs]}}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_credential_plugin_runs_again_when_its_token_has_expired(version: str, tmp_path: Path) -> None:
    user = plugin(tmp_path, {"token": "t<run>"}, version)
    with (
        running({PATH: {}, "/expired": (401, {})}) as cluster,
        connected(access({"server": cluster.host}, user)) as client,
    ):
        client.read(PATH)
        client.read(PATH)
        assert cluster.authorizations[PATH] == "Bearer t1"
        with pytest.raises(cluster_client.UnreachableError, match=r"refuses the credential \(401\)"):
            client.read("/expired")
        assert cluster.authorizations["/expired"] == "Bearer t2"


def test_a_credential_plugin_can_return_a_certificate(secured: FakeCluster, tmp_path: Path) -> None:
    user = certificate_user(AUTHORITY, "admin")
    pair = {
        "clientCertificateData": base64.b64decode(user["client-certificate-data"]).decode(),
        "clientKeyData": base64.b64decode(user["client-key-data"]).decode(),
    }
    authority = base64.b64encode(AUTHORITY.cert_pem.bytes()).decode()
    read(access({"server": secured.host, "certificate-authority-data": authority}, plugin(tmp_path, pair)))


@pytest.mark.parametrize("script", ["echo c2VjcmV0 >&2; exit 1", "echo c2VjcmV0", "echo {}"])
def test_reports_a_failed_credential_plugin_without_its_output(script: str) -> None:
    user = {"exec": {"apiVersion": "v1", "command": "sh", "args": ["-c", script]}}
    with pytest.raises(cluster_client.UnreachableError, match=r"credential plugin sh fails\. Run sh") as failure:
        read(access({}, user))
    assert "c2VjcmV0" not in str(failure.value)
