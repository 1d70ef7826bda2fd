"""Read the server, certificates and credential from a kubeconfig."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import re
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from urllib.request import getproxies_environment, proxy_bypass

import urllib3
import yaml

CONNECTIONS = 8
"""Maximum number of parallel requests to a cluster."""

Section = Mapping[str, Any]

_TIMEOUT = urllib3.Timeout(connect=5, read=30)

_SUPPORTED = {
    "cluster": {"server", "certificate-authority-data", "disable-compression", "extensions"},
    "user": {"client-certificate-data", "client-key-data", "token", "exec", "extensions"},
}
"""Supported keys by section: keys of ACK's kubeconfigs, and credential plugins."""

_PLUGIN_SECONDS = 60


class UnreachableError(Exception):
    """The cluster can't be reached. The message continues "the cluster ..." and holds no secret."""


class UnsupportedError(UnreachableError):
    """The Kubernetes provider may support this kubeconfig or proxy; this client does not."""


@dataclass(frozen=True)
class Access:
    """What a client needs to connect to an API server."""

    server: str
    """Address of the API server, such as `https://192.0.2.1:6443`."""
    pool: urllib3.PoolManager = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    """The headers with the credential; a secret."""
    renew: Callable[[], Mapping[str, str]] | None = field(repr=False)
    """Runs the credential plugin again and returns new headers; None without a plugin."""


def read_kubeconfig() -> str:
    """Read the file in `KUBECONFIG`, or the default file.

    Raises:
        UnreachableError: the file does not exist or can't be read.
        UnsupportedError: `KUBECONFIG` lists several files.
    """
    names = (os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    files = [path for path in (Path(name).expanduser() for name in names) if path.is_file()]
    if not files:
        raise UnreachableError("can't be reached: the file in KUBECONFIG, or ~/.kube/config, does not exist")
    if len(files) > 1:
        raise UnsupportedError("can't be reached: KUBECONFIG lists several files, but must name a single file")
    try:
        return files[0].read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise UnreachableError(f"can't be reached: the kubeconfig {files[0].name} can't be read") from None


def access_of(kubeconfig: str, server: str | None = None) -> Access:
    """Read a kubeconfig.

    Args:
        kubeconfig: content, not path; a secret. A client key is briefly in a private temporary folder.
        server: overrides the server in the kubeconfig.

    Raises:
        UnreachableError: the kubeconfig can't be used.
        UnsupportedError: this client does not support the kubeconfig or the proxy.
    """
    try:
        cluster, user = _current(yaml.safe_load(kubeconfig))
        url = urllib3.util.parse_url(server or cluster["server"])
        if url.scheme not in ("http", "https") or not url.host:
            raise UnreachableError("can't be reached: the server in the kubeconfig is not a URL")
        status = _plugin_status(user)
        return Access(
            f"{url.scheme}://{url.netloc}{url.path or ''}".rstrip("/"),
            _pool(_proxy(url), _tls(cluster, user, status)),
            _authorization(user, status),
            (lambda: _authorization(user, _plugin_status(user))) if user.get("exec") else None,
        )
    except UnreachableError:
        raise
    # A kubeconfig may have any shape, and the error's text may quote a secret.
    except Exception:
        raise UnreachableError(
            "can't be reached: the kubeconfig's current context, server, certificate or token can't be read"
        ) from None


def _current(content: Section) -> tuple[Section, Section]:
    def find(kind: str, name: str) -> Any:
        return next(entry[kind] for entry in content[f"{kind}s"] if entry["name"] == name) or {}

    context = find("context", content["current-context"])
    sections = {kind: find(kind, context[kind]) for kind in ("cluster", "user")}
    for kind, section in sections.items():
        for key in section:
            if section[key] and key not in _SUPPORTED[kind]:
                raise UnsupportedError(
                    f"can't be reached: the kubeconfig has {key}, which this client does not support"
                )
    return sections["cluster"], sections["user"]


def _authorization(user: Section, status: Section) -> dict[str, str]:
    token = status.get("token") or user.get("token")
    if not token:
        return {}
    # HTTP clients would reject such a token with a message that quotes it.
    if not isinstance(token, str) or not re.fullmatch("[!-~]+", token):
        raise UnreachableError("can't be reached: the kubeconfig's token has a line break or another invalid character")
    return {"Authorization": f"Bearer {token}"}


def _plugin_status(user: Section) -> Section:
    """Run the user's credential plugin, if any, and return its status.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """
    plugin = user.get("exec")
    if not plugin:
        return {}
    request = {"kind": "ExecCredential", "apiVersion": plugin["apiVersion"], "spec": {"interactive": False}}
    variables = {variable["name"]: variable["value"] for variable in plugin.get("env") or ()}
    try:
        result = subprocess.run(
            [plugin["command"], *(plugin.get("args") or ())],
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PLUGIN_SECONDS,
            check=True,
        )
        status: Section = json.loads(result.stdout)["status"]
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        name = Path(plugin["command"]).name
        raise UnreachableError(f"can't be reached: the credential plugin {name} fails. Run {name} to see why") from None
    return status


class _SharedContext(ssl.SSLContext):
    """A TLS context that concurrent connections can share."""

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Do nothing. urllib3 calls this for each connection, while handshakes in other threads copy the old value.

        The API server would receive a broken ClientHello. Without ALPN it speaks HTTP/1.1, as urllib3 does.
        """


def _tls(cluster: Section, user: Section, status: Section) -> ssl.SSLContext:
    # Since Python 3.13, the default context refuses certificate authorities of older clusters.
    tls = _SharedContext(ssl.PROTOCOL_TLS_CLIENT)
    if cluster.get("certificate-authority-data"):
        tls.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    else:
        tls.load_default_certs()
    certificate = _client_certificate(user, status)
    if certificate:
        with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
            file = Path(folder) / "client.pem"
            file.touch(mode=0o600)
            file.write_bytes(certificate)
            tls.load_cert_chain(file)
    return tls


def _client_certificate(user: Section, status: Section) -> bytes:
    """Return the client certificate and its key as PEM, or nothing."""
    if status.get("clientCertificateData"):
        return f"{status['clientCertificateData']}\n{status['clientKeyData']}".encode()
    if user.get("client-certificate-data"):
        return b"\n".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key"))
    return b""


def _proxy(server: urllib3.util.Url) -> str | None:
    address = getproxies_environment().get(str(server.scheme))
    if not address or _bypassed(server):
        return None
    address = address if "://" in address else f"http://{address}"
    try:
        scheme = urllib3.util.parse_url(address).scheme
    except urllib3.exceptions.LocationParseError:
        scheme = None
    if scheme not in ("http", "https"):
        variable = f"{server.scheme}_proxy".upper()
        raise UnsupportedError(f"can't be reached: this client does not support the proxy in {variable}")
    return address


def _bypassed(server: urllib3.util.Url) -> bool:
    """Return whether NO_PROXY lists the server by name or, as for the Kubernetes provider, by network."""
    host = str(server.host).strip("[]")
    if proxy_bypass(server.netloc or host):
        return True
    for network in getproxies_environment().get("no", "").split(","):
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(network.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False


def _pool(proxy: str | None, tls: ssl.SSLContext) -> urllib3.PoolManager:
    options: dict[str, Any] = {"ssl_context": tls, "timeout": _TIMEOUT, "retries": False, "maxsize": CONNECTIONS}
    if proxy is None:
        return urllib3.PoolManager(**options)
    credential = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=unquote(credential)) if credential else {}
    return urllib3.ProxyManager(proxy, proxy_headers=headers, **options)
