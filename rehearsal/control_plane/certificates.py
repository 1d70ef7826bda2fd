"""Certificates and kubeconfigs of a control plane that lives for minutes."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY = datetime.timedelta(days=30)
_CLOCK_SKEW = datetime.timedelta(minutes=5)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    path.touch(mode=0o600)
    path.write_bytes(content)


def private_key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    """The key as PKCS#8 PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> None:
        """Write `<name>.crt` and `<name>.key`."""
        (folder / f"{name}.crt").write_bytes(self.certificate)
        write_private(folder / f"{name}.key", self.key)

    @classmethod
    def read(cls, folder: Path, name: str) -> KeyPair:
        """Read what `write` wrote."""
        return cls((folder / f"{name}.crt").read_bytes(), (folder / f"{name}.key").read_bytes())


class CertificateAuthority:
    """Signs the certificates of one trust domain."""

    pair: KeyPair
    """Its own certificate, and the key it signs with."""

    def __init__(self, common_name: str) -> None:
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = _builder(name, name, key.public_key(), _VALIDITY).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.pair = _signed(builder, key, key)

    @classmethod
    def of(cls, pair: KeyPair) -> CertificateAuthority:
        """The one whose pair this is."""
        authority = cls.__new__(cls)
        authority.pair = pair
        return authority

    @property
    def certificate(self) -> bytes:
        """Its own, as PEM."""
        return self.pair.certificate

    def issue(
        self,
        common_name: str,
        *,
        groups: Sequence[str] = (),
        hosts: Sequence[str] = (),
        validity: datetime.timedelta = _VALIDITY,
    ) -> KeyPair:
        """A certificate for a client (`groups` are its Kubernetes groups) and, with `hosts`, for a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        )
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.load_pem_x509_certificate(self.pair.certificate).subject
        builder = _builder(subject, issuer, key.public_key(), validity)
        if hosts:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative_name(host) for host in hosts]), critical=False
            )
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        signer = serialization.load_pem_private_key(self.pair.key, password=None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        return _signed(builder, signer, key)


def _signed(
    builder: x509.CertificateBuilder, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePrivateKey
) -> KeyPair:
    certificate = builder.sign(signer, hashes.SHA256())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private_key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, validity: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + validity)
    )


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_service_account_keys(folder: Path) -> None:
    """Write the pair that signs and checks service account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    write_private(folder / "service-account.key", private_key_pem(key))
    (folder / "service-account.pub").write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def kubeconfig(server: str, authority: bytes, user: dict[str, str]) -> bytes:
    """A kubeconfig of one context that holds its credentials itself."""

    def named(kind: str, value: object) -> list[dict[str, object]]:
        return [{"name": "rehearsal", kind: value}]

    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rehearsal",
            "clusters": named("cluster", {"server": server, "certificate-authority-data": _base64(authority)}),
            "users": named("user", user),
            "contexts": named("context", {"cluster": "rehearsal", "user": "rehearsal"}),
        }
    ).encode()


def client_certificate_user(pair: KeyPair) -> dict[str, str]:
    """The `user` entry of a kubeconfig for a client certificate."""
    return {
        "client-certificate-data": _base64(pair.certificate),
        "client-key-data": _base64(pair.key),
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
