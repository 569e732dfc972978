"""TLS: the certificate of a provider, or of a proxy of the environment before it, is always checked."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from tests.proxy.server.support import Asked, ask, provider, proxy, response

pytest.importorskip("cryptography", reason="cryptography is not installed, so no certificate can be made")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a certificate for 127.0.0.1, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "provider")]), datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("provider.example")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    signed = made.add_extension(address, critical=False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "certificate.pem"
    path.write_bytes(signed.public_bytes(pem) + private)
    return path


def serves(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(response(asked.body))


async def test_a_provider_must_have_a_certificate_that_is_trusted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with provider(echo, tls=serves(certificate)) as up:
        url = f"https://127.0.0.1:{up.port}"
        async with proxy(url) as running:
            assert (await ask(running, b"x", "/v1/files")).status == 502
            assert not up.asked
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with proxy(url) as running:
            assert (await ask(running, b"x", "/v1/files")).body == b"x"
        async with proxy(url.replace("127.0.0.1", "localhost")) as running:
            assert (await ask(running, b"x", "/v1/files")).status == 502
        assert len(up.asked) == 1


async def test_a_proxy_of_the_environment_must_too_also_before_a_provider_on_http(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with provider(echo, tls=serves(certificate)) as up:
        monkeypatch.setenv("http_proxy", f"https://127.0.0.1:{up.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        async with proxy("http://api.example") as running:
            assert (await ask(running, b"x", "/v1/files")).status == 502
            assert not up.asked
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with proxy("http://api.example") as running:
            assert (await ask(running, b"x", "/v1/files")).body == b"x"
        assert [asked.target for asked in up.asked] == ["http://api.example/v1/files"]


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


async def test_a_provider_on_https_is_reached_through_a_tunnel(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with provider(echo, tls=serves(certificate)) as up:

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"CONNECT provider.example:443 ")
            inner = await asyncio.open_connection("127.0.0.1", up.port)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(pipe(reader, inner[1]), pipe(inner[0], writer))

        async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as server:
            monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            async with proxy("https://provider.example") as running:
                body = b"x" * 1_000_000
                assert (await ask(running, body, "/v1/files")).body == body
