"""Encrypted connections to PostgreSQL, to a server whose certificate the test has made."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.cli.conftest import Machine, NearMachine
from tests.cli.conftest import holdfast as holdfast
from tests.stores.private import PASSWORD, PrivateServer, private_server
from tests.stores.server import NoPostgres

pytestmark = pytest.mark.acceptance
MACHINE = NearMachine

AUTHORITY = "Test authority"
VERSION = "17"
"""The one of the wheel is built without TLS."""


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    try:
        with private_server(version=VERSION) as server:
            certify(server, "server", "127.0.0.1")
            server.settings |= {"ssl": "on", "ssl_cert_file": "server.crt", "ssl_key_file": "server.key"}
            server.stop()
            server.start()
            server.sql("create database holdfast owner holdfast")
            yield server
    except NoPostgres as error:
        pytest.skip(str(error))


def test_a_server_is_used_only_with_the_right_certificate(
    tmp_path: Path, server: PrivateServer, holdfast: Machine
) -> None:
    """STO-199: `sslmode=verify-full` compares the authority and the name."""
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes((server.data / "server.ca").read_bytes())
    other = tmp_path / "other.pem"
    other.write_bytes(
        authority("Another", ec.generate_private_key(ec.SECP256R1())).public_bytes(serialization.Encoding.PEM)
    )

    def doctor(certificate: Path, host: str = "127.0.0.1") -> tuple[int, str]:
        address = server.address("holdfast", sslmode="verify-full", sslrootcert=str(certificate))
        ran = holdfast("doctor", HOLDFAST_DATABASE=address.replace("127.0.0.1", host))
        assert PASSWORD not in ran.out + ran.err
        return ran.code, ran.err

    assert doctor(trusted)[0] == 0
    for certificate, host, reason in (
        (other, "127.0.0.1", "certificate verify failed"),
        (trusted, "localhost", 'does not match host name "localhost"'),
        (tmp_path / "missing.pem", "127.0.0.1", "does not exist"),
    ):
        code, said = doctor(certificate, host)
        assert code == 1
        assert reason in said


def authority(name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return _signed(name, key.public_key(), name, key, x509.BasicConstraints(True, None))


def certify(server: PrivateServer, name: str, address: str) -> None:
    """Give the server a key, a certificate for an address, and the certificate of the authority that signed it."""
    signing, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    certificate = _signed(
        address,
        own.public_key(),
        AUTHORITY,
        signing,
        x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    key = own.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    server.write(f"{name}.key", key.decode())
    server.write(f"{name}.crt", certificate.public_bytes(pem).decode())
    os.chmod(server.write(f"{name}.ca", authority(AUTHORITY, signing).public_bytes(pem).decode()), 0o644)


def _signed(
    subject: str,
    key: ec.EllipticCurvePublicKey,
    issuer: str,
    signing: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    subject_name, issuer_name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)
    )
    made = x509.CertificateBuilder().subject_name(subject_name).issuer_name(issuer_name).public_key(key)
    made = made.serial_number(x509.random_serial_number()).add_extension(extension, critical=False)
    made = made.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    return made.sign(signing, hashes.SHA256())
