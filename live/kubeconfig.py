"""The way into a cluster: the server, the certificates and the credential that a kubeconfig gives."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import re
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from urllib.request import getproxies_environment, proxy_bypass

import urllib3
import yaml

CONNECTIONS = 8
"""Requests to a cluster that may run side by side."""

Section = Mapping[str, Any]

_TIMEOUT = urllib3.Timeout(connect=5, read=30)

_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_UNSUPPORTED = ("auth-provider", "as", "as-uid", "as-groups", "as-user-extra")
_PLUGIN_SECONDS = 60


class UnreachableError(Exception):
    """The cluster can't be asked. The message continues "the cluster ..." and holds no secret."""


class UnsupportedError(UnreachableError):
    """The Kubernetes provider supports something in the kubeconfig or the environment that this client does not."""


@dataclass(frozen=True)
class Access:
    """What a connection needs."""

    server: str
    """Such as `https://192.0.2.1:6443`."""
    pool: urllib3.PoolManager = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    """They carry the credential, a secret."""
    renew: Callable[[], Mapping[str, str]] | None = field(repr=False)
    """Runs the credential plugin again and returns new headers; None: there is no plugin."""


def read_kubeconfig() -> str:
    """Merge the files that `KUBECONFIG` names as kubectl does: the first file that has a name wins.

    Raises:
        UnreachableError: there is no such file, or it is not a kubeconfig.
    """
    files = [Path(name).expanduser() for name in _kubeconfig_variable().split(os.pathsep) if name]
    merged: dict[str, Any] = {"clusters": [], "contexts": [], "users": []}
    found = [path for path in files if path.is_file()]
    if not found:
        raise UnreachableError("has no kubeconfig where KUBECONFIG leads")
    for path in found:
        try:
            content = yaml.safe_load(path.read_text("utf-8"))
            merged.setdefault("current-context", content.get("current-context"))
            for kind in ("cluster", "context", "user"):
                for entry in content.get(f"{kind}s") or ():
                    merged[f"{kind}s"].append({**entry, kind: _with_absolute_paths(entry[kind], path.parent)})
        # A file of any shape; the parser's text may quote a secret.
        except Exception:
            raise UnreachableError(f"has a kubeconfig that can't be read, {path.name}") from None
    return yaml.safe_dump(merged)


def access_of(kubeconfig: str, server: str | None = None) -> Access:
    """Read a kubeconfig.

    Args:
        kubeconfig: content, not path; a secret. A client key is in a private temporary folder for a moment.
        server: replaces the kubeconfig's own.

    Raises:
        UnreachableError: the kubeconfig can't be used.
        UnsupportedError: this client does not support the kubeconfig or the proxy.
    """
    try:
        cluster, user = _current(yaml.safe_load(kubeconfig))
        url = urllib3.util.parse_url(server or cluster["server"])
        if url.scheme not in ("http", "https") or not url.host:
            raise UnreachableError("has a kubeconfig whose server is not a URL")
        status = _plugin_status(user)
        return Access(
            f"{url.scheme}://{url.netloc}{url.path or ''}".rstrip("/"),
            _pool(_proxy(cluster, url), ssl_context=_tls(cluster, user, status), server_hostname=_name(cluster)),
            _authorization(user, status),
            (lambda: _authorization(user, _plugin_status(user))) if user.get("exec") else None,
        )
    except UnreachableError:
        raise
    # A kubeconfig may have any shape, and the error's text may quote a secret.
    except Exception:
        raise UnreachableError(
            "has a kubeconfig without a server, or with a certificate or token that can't be read"
        ) from None


def _kubeconfig_variable() -> str:
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def _with_absolute_paths(section: Section, folder: Path) -> Section:
    absolute: dict[str, Any] = {key: str(folder / section[key]) for key in _FILES if section.get(key)}
    plugin = section.get("exec")
    if plugin and "/" in plugin["command"]:
        absolute["exec"] = {**plugin, "command": str(folder / plugin["command"])}
    return {**section, **absolute}


def _current(content: Section) -> tuple[Section, Section]:
    def named(kind: str, name: str) -> Any:
        return next(entry[kind] for entry in content[f"{kind}s"] if entry["name"] == name)

    context = named("context", content["current-context"])
    cluster, user = named("cluster", context["cluster"]), named("user", context["user"]) or {}
    unsupported = next((key for key in _UNSUPPORTED if user.get(key)), None)
    if unsupported:
        raise UnsupportedError(f"has a kubeconfig with {unsupported}, which this client does not support")
    return cluster, user


def _data(section: Section, key: str) -> bytes | None:
    if section.get(f"{key}-data"):
        return base64.b64decode(section[f"{key}-data"])
    if section.get(key):
        return Path(section[key]).read_bytes()
    return None


def _authorization(user: Section, status: Section) -> dict[str, str]:
    token = status.get("token") or user.get("token")
    if not token and user.get("tokenFile"):
        token = Path(user["tokenFile"]).read_text().strip()
    if token:
        # Other clients reject such a token too, with a message that quotes it.
        if not isinstance(token, str) or not re.fullmatch("[!-~]+", token):
            raise UnreachableError(
                "has a kubeconfig whose token has a line break or another character that can't be sent"
            )
        return {"Authorization": f"Bearer {token}"}
    if user.get("username") and user.get("password"):
        return urllib3.make_headers(basic_auth=f"{user['username']}:{user['password']}")
    return {}


def _plugin_status(user: Section) -> Section:
    """Run the credential plugin of a user that has one.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """
    plugin = user.get("exec")
    if not plugin:
        return {}
    request = {"kind": "ExecCredential", "apiVersion": plugin["apiVersion"], "spec": {"interactive": False}}
    given = {variable["name"]: variable["value"] for variable in plugin.get("env") or ()}
    try:
        result = subprocess.run(
            [plugin["command"], *(plugin.get("args") or ())],
            env={**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PLUGIN_SECONDS,
            check=True,
        )
        status: Section = json.loads(result.stdout)["status"]
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        name = Path(plugin["command"]).name
        raise UnreachableError(f"has a kubeconfig whose credential plugin {name} fails: run it to see why") from None
    return status


def _tls(cluster: Section, user: Section, status: Section) -> ssl.SSLContext:
    # Python's default context refuses, from 3.13 on, authorities that older clusters made.
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority = _data(cluster, "certificate-authority")
    if authority:
        tls.load_verify_locations(cadata=authority.decode())
    else:
        tls.load_default_certs()
    if cluster.get("insecure-skip-tls-verify") is True:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        # The kubeconfig asks for it.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    pair = tuple(_pair(user, status))
    if all(pair):
        with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
            file = Path(folder) / "pair.pem"
            file.touch(mode=0o600)
            file.write_bytes(b"\n".join(pair))
            tls.load_cert_chain(file)
    return tls


def _pair(user: Section, status: Section) -> Iterator[bytes]:
    for part in ("Certificate", "Key"):
        from_plugin = str(status.get(f"client{part}Data") or "").encode()
        yield from_plugin or _data(user, f"client-{part.lower()}") or b""


def _proxy(cluster: Section, server: urllib3.util.Url) -> str | None:
    variable = f"{server.scheme}_proxy".upper()
    address, source = cluster.get("proxy-url"), "proxy-url"
    if not address:
        address, source = getproxies_environment().get(str(server.scheme)), variable
        if not address or _bypassed(server):
            return None
    if address.startswith("socks"):
        raise UnsupportedError("is behind a SOCKS proxy, which this client does not support")
    address = address if "://" in address else f"http://{address}"
    try:
        readable = urllib3.util.parse_url(address).scheme in ("http", "https")
    except urllib3.exceptions.LocationParseError:
        readable = False
    if not readable:
        raise UnreachableError(f"is behind a proxy whose address in {source} can't be read")
    return str(address)


def _bypassed(server: urllib3.util.Url) -> bool:
    """Whether NO_PROXY has the server, by name or, as for the Kubernetes provider, by network."""
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


def _name(cluster: Section) -> str | None:
    name = cluster.get("tls-server-name")
    return str(name) if name else None


def _pool(proxy: str | None, **options: Any) -> urllib3.PoolManager:
    options = {**options, "timeout": _TIMEOUT, "retries": False, "maxsize": CONNECTIONS}
    if proxy is None:
        return urllib3.PoolManager(**options)
    credential = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=unquote(credential)) if credential else {}
    return urllib3.ProxyManager(proxy, proxy_headers=headers, **options)
