"""TLS on a listener: versions, client certificates, changed files, half-open handshakes."""

import asyncio
import errno
import os
import shutil
import socket
import ssl
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from slackwater.broker.config import Settings
from slackwater.broker.config.listeners import configured_endpoints
from slackwater.broker.embedded.certificates import LOCAL_HOSTS, TestAuthority
from slackwater.broker.server import Server
from slackwater.group.errors import Error, UsageError
from slackwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from ..raw_client import RawClient
from ..server_client import DEADLINE_S, Client
from .secured_server import (
    HALF_OPEN,
    PLAIN_USERS,
    certificates,
    client_context,
    connect,
    is_served,
    plain,
    with_secured_server,
)

SSL = "SSL"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_use_tls_1_2_and_1_3(tmp_path: Path, version: ssl.TLSVersion) -> None:
    authority, settings = certificates(tmp_path)

    async def scenario(server: Server) -> None:
        context = client_context(authority)
        context.minimum_version = context.maximum_version = version
        assert await is_served(await connect(server, SSL, context))
        assert server.principals == ["User:ANONYMOUS"]

    with_secured_server(tmp_path, SSL, scenario, **settings)


def test_large_fetch_is_encrypted_too(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)
    values = [bytes([number]) * 300_000 for number in range(20)]

    async def scenario(server: Server) -> None:
        context = client_context(authority)
        client = RawClient(*await asyncio.open_connection("127.0.0.1", server.ports[SSL], ssl=context), "large")
        assert await client.create_topic("t") is Error.NONE
        for value in values:
            assert (await client.produce("t", 0, value))[0] is Error.NONE
        assert [record.value for record in await client.records("t", 0)] == values
        client.abort()

    with_secured_server(tmp_path, SSL, scenario, **settings)


def test_disabled_version_is_refused(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)

    async def scenario(server: Server) -> None:
        context = client_context(authority)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(server, SSL, context)

    with_secured_server(tmp_path, SSL, scenario, ssl_enabled_protocols="TLSv1.3", **settings)


@pytest.mark.parametrize("name", ["alice", "a,b+c", 'quo"te', "ünïcode", "#hash", "User:root"])
def test_subject_of_the_certificate_is_the_principal(tmp_path: Path, name: str) -> None:
    authority, settings = certificates(tmp_path)
    certificate = authority.issue(name)

    async def scenario(server: Server) -> None:
        client = await connect(server, SSL, client_context(authority, certificate))
        assert await is_served(client)
        (principal,) = server.principals
        assert principal.startswith("User:CN=")
        plain_name = principal.removeprefix("User:CN=").replace("\\", "")
        assert plain_name == name

    with_secured_server(tmp_path, SSL, scenario, ssl_client_auth="required", **settings)


def test_mapping_rule_names_the_principal(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)
    matching, other = authority.issue("Orders"), authority.issue("payments")

    async def scenario(server: Server) -> None:
        assert await is_served(await connect(server, SSL, client_context(authority, matching)))
        assert server.principals == ["User:orders"]
        refused = await connect(server, SSL, client_context(authority, other))
        assert await refused.is_closed()

    settings["ssl_principal_mapping_rules"] = "RULE:^CN=(Ord.*)$/$1/L"
    with_secured_server(tmp_path, SSL, scenario, ssl_client_auth="required", **settings)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize(
    ("certificate", "reasons"),
    [
        ("none", {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"}),
        ("of another authority", {"TLSV1_ALERT_UNKNOWN_CA"}),
        ("expired", {"SSLV3_ALERT_CERTIFICATE_EXPIRED"}),
    ],
)
def test_client_without_a_valid_certificate_gets_the_reason(
    tmp_path: Path, certificate: str, reasons: set[str], version: ssl.TLSVersion
) -> None:
    authority, settings = certificates(tmp_path)
    (tmp_path / "other").mkdir()
    path = None
    if certificate == "of another authority":
        path = TestAuthority(tmp_path / "other").issue("mallory")
    elif certificate == "expired":
        path = authority.issue("old", valid_for=timedelta(minutes=-1))
    context = client_context(authority, path)
    context.minimum_version = context.maximum_version = version

    def refusal(port: int) -> str | None:
        with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as plain:
            try:
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:  # with TLS 1.3 this succeeds
                    client.sendall(b"a request that is already sent")
                    client.recv(1)
            except ssl.SSLError as error:
                return error.reason
        return None

    async def scenario(server: Server) -> None:
        assert await asyncio.to_thread(refusal, server.ports[SSL]) in reasons
        assert server.principals == []

    with_secured_server(tmp_path, SSL, scenario, ssl_client_auth="required", **settings)


def test_connection_without_a_free_descriptor_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, settings = certificates(tmp_path)

    def fail(self: socket.socket) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def scenario(server: Server) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "dup", fail)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await connect(server, SSL, client_context(authority))
        assert server.unauthenticated_connections == 0
        assert await is_served(await connect(server, SSL, client_context(authority)))

    with_secured_server(tmp_path, SSL, scenario, **settings)


def test_requested_certificate_may_be_missing(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)
    certificate = authority.issue("alice")

    async def scenario(server: Server) -> None:
        assert await is_served(await connect(server, SSL, client_context(authority)))
        assert await is_served(await connect(server, SSL, client_context(authority, certificate)))
        assert sorted(server.principals) == ["User:ANONYMOUS", "User:CN=alice"]

    with_secured_server(tmp_path, SSL, scenario, ssl_client_auth="requested", **settings)


def test_sasl_names_the_principal_on_a_sasl_ssl_listener(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)

    async def scenario(server: Server) -> None:
        client = await connect(server, "SASL_SSL", client_context(authority))
        assert (await plain(client)).error_code == Error.NONE
        assert await is_served(client)
        assert server.principals == ["User:alice"]

    with_secured_server(
        tmp_path,
        "SASL_SSL",
        scenario,
        ssl_client_auth="required",  # of other listeners, as in Kafka
        sasl_enabled_mechanisms="PLAIN",
        listener_name_sasl__ssl_plain_sasl_jaas_config=PLAIN_USERS,
        **settings,
    )


def _serial(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


async def _served_serial(server: Server, context: ssl.SSLContext) -> int:
    """The serial number of the certificate that a new connection gets."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.ports[SSL], ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der).serial_number


def test_changed_file_applies_to_new_connections(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority, settings = certificates(tmp_path)
    path = Path(settings["ssl_keystore_location"])

    async def scenario(server: Server) -> None:
        context = client_context(authority)
        old = await connect(server, SSL, context)
        authority.issue("broker", hosts=LOCAL_HOSTS)
        renewed = _serial(path)
        async with asyncio.timeout(DEADLINE_S):
            while await _served_serial(server, context) != renewed:
                await asyncio.sleep(0.05)
        assert await is_served(old)
        path.write_text("not a certificate")
        async with asyncio.timeout(DEADLINE_S):
            while (
                "The certificates of listener SSL were not reloaded; the previous ones stay in use: " not in caplog.text
            ):
                assert await _served_serial(server, context) == renewed
                await asyncio.sleep(0.05)
        assert await _served_serial(server, context) == renewed

    with_secured_server(tmp_path, SSL, scenario, **settings)


async def _alter(client: Client, name: str, value: str) -> tuple[Error, str | None]:
    resource = AlterConfigsResource(4, "1", [AlterableConfig(name, 0, value)])
    response = await client.request(IncrementalAlterConfigsRequest([resource]), IncrementalAlterConfigsResponse)
    result = response.responses[0]
    return Error(result.error_code), result.error_message


def test_altered_key_store_applies_to_new_connections(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)
    renewed = authority.issue("renewed", hosts=LOCAL_HOSTS)
    setting = "listener.name.ssl.ssl.keystore.location"

    async def scenario(server: Server) -> None:
        context = client_context(authority)
        client = await connect(server, SSL, context)
        error, message = await _alter(client, setting, str(tmp_path / "missing.pem"))
        assert error is Error.INVALID_REQUEST
        assert message is not None
        assert "cannot be read: No such file or directory" in message
        assert await _served_serial(server, context) != _serial(renewed)
        assert await _alter(client, setting, str(renewed)) == (Error.NONE, None)
        assert await _served_serial(server, context) == _serial(renewed)

    with_secured_server(tmp_path, SSL, scenario, **settings)


# --- attacks ----------------------------------------------------------------------------------------------------------


def test_half_open_handshakes_do_not_delay_others(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)

    async def scenario(server: Server) -> None:
        half_open = [socket.create_connection(("127.0.0.1", server.ports[SSL])) for _ in range(HALF_OPEN)]
        try:
            for client in half_open[::2]:
                client.sendall(b"\x16\x03\x01\x02\x00\x01\x00")  # the first bytes of a ClientHello
            async with asyncio.timeout(DEADLINE_S):
                assert await is_served(await connect(server, SSL, client_context(authority)))
                while server.unauthenticated_connections < HALF_OPEN:
                    await asyncio.sleep(0.01)
        finally:
            for client in half_open:
                client.close()

    with_secured_server(tmp_path, SSL, scenario, **settings)


def test_half_open_handshake_is_closed_at_the_deadline(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)

    async def scenario(server: Server) -> None:
        client = await connect(server, SSL)
        client.send_bytes(b"\x16\x03\x01")
        async with asyncio.timeout(DEADLINE_S):
            assert await client.is_gone()
            while server.unauthenticated_connections:
                await asyncio.sleep(0.01)

    del authority
    with_secured_server(tmp_path, SSL, scenario, connection_authentication_timeout_ms="100", **settings)


def test_half_open_handshakes_count_for_the_limit_per_address(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)

    async def scenario(server: Server) -> None:
        first, second = await connect(server, SSL), await connect(server, SSL)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(server, SSL, client_context(authority))
        first.close()
        second.close()
        async with asyncio.timeout(DEADLINE_S):
            while server.unauthenticated_connections:
                await asyncio.sleep(0.01)
        assert await is_served(await connect(server, SSL, client_context(authority)))

    with_secured_server(tmp_path, SSL, scenario, max_connections_per_ip="2", **settings)


def test_plaintext_to_a_tls_listener_is_closed(tmp_path: Path) -> None:
    _, settings = certificates(tmp_path)

    async def scenario(server: Server) -> None:
        client = await connect(server, SSL)
        client.send_bytes(b"\0\0\0\x0a\0\x12\0\x00\0\0\0\x01\xff\xff")
        assert await client.is_gone()

    with_secured_server(tmp_path, SSL, scenario, **settings)


def test_renegotiation_is_refused(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    authority, settings = certificates(tmp_path)

    async def scenario(server: Server) -> None:
        address = f"127.0.0.1:{server.ports[SSL]}"
        command = ["openssl", "s_client", "-tls1_2", "-connect", address, "-CAfile", str(authority.path)]
        done = await asyncio.to_thread(
            subprocess.run, command, input=b"R\n", capture_output=True, timeout=DEADLINE_S, check=False
        )
        assert b"RENEGOTIATING" in done.stdout + done.stderr
        assert b"no renegotiation" in done.stderr
        assert server.principals in ([], ["User:ANONYMOUS"])

    with_secured_server(tmp_path, SSL, scenario, **settings)


# --- key stores -------------------------------------------------------------------------------------------------------


def _pkcs12(pem: Path, password: str) -> Path:
    key = load_pem_private_key(pem.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(pem.read_bytes())
    path = pem.with_suffix(".p12")
    encryption = BestAvailableEncryption(password.encode())
    assert isinstance(key, EllipticCurvePrivateKey)
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"broker", key, certificate, None, encryption))
    return path


def test_pkcs12_key_store_and_trust_store(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)
    store = _pkcs12(Path(settings["ssl_keystore_location"]), "store password")
    trusted = tmp_path / "trusted.p12"
    encryption = BestAvailableEncryption(b"trust password")
    entry = pkcs12.PKCS12Certificate(authority.certificate, b"ca")
    trusted.write_bytes(pkcs12.serialize_java_truststore([entry], encryption))
    certificate = authority.issue("alice")

    async def scenario(server: Server) -> None:
        assert await is_served(await connect(server, SSL, client_context(authority, certificate)))

    with_secured_server(
        tmp_path,
        SSL,
        scenario,
        ssl_keystore_location=str(store),
        ssl_keystore_password="store password",
        ssl_truststore_location=str(trusted),
        ssl_truststore_password="trust password",
        ssl_client_auth="required",
    )


def _encrypted(pem: Path, password: str) -> tuple[str, str]:
    """The private key, encrypted, and the certificate."""
    key = load_pem_private_key(pem.read_bytes(), None)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())).decode()
    return text, x509.load_pem_x509_certificate(pem.read_bytes()).public_bytes(Encoding.PEM).decode()


def test_key_and_certificates_as_text(tmp_path: Path) -> None:
    authority, settings = certificates(tmp_path)
    key, chain = _encrypted(Path(settings["ssl_keystore_location"]), "pw")

    async def scenario(server: Server) -> None:
        assert await is_served(await connect(server, SSL, client_context(authority)))

    with_secured_server(
        tmp_path,
        SSL,
        scenario,
        ssl_keystore_key=key,
        ssl_keystore_certificate_chain=chain,
        ssl_key_password="pw",
        ssl_truststore_certificates=authority.path.read_text(),
    )


def _start_error(directory: Path, **settings: str) -> str:
    async def run() -> None:
        values = {"listeners": "SSL://127.0.0.1:0"} | {name.replace("_", "."): text for name, text in settings.items()}
        parsed = Settings(values)
        server = Server(directory / "data", parsed)
        try:
            await server.listen(configured_endpoints(parsed))
        finally:
            await server.stop()

    with pytest.raises(UsageError) as raised:
        asyncio.run(run())
    return str(raised.value)


def test_key_store_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    _, settings = certificates(tmp_path)
    pem = Path(settings["ssl_keystore_location"])
    key, chain = _encrypted(pem, "pw")
    broken, encrypted, jks, other = (
        tmp_path / name for name in ("broken.pem", "encrypted.pem", "store.jks", "other.pem")
    )
    broken.write_text("x")
    encrypted.write_text(key + chain)
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    other_key = TestAuthority(tmp_path).issue("someone").read_text().partition("-----BEGIN CERTIFICATE")[0]
    other.write_text(other_key + chain)
    assert "A listener with TLS needs a certificate" in _start_error(tmp_path)
    assert _start_error(tmp_path, ssl_keystore_location="/no/file") == (
        "ssl.keystore.location = /no/file cannot be read: No such file or directory."
    )
    assert "is no PEM file" in _start_error(tmp_path, ssl_keystore_location=str(broken))
    assert "is encrypted; set ssl.key.password" in _start_error(tmp_path, ssl_keystore_location=str(encrypted))
    assert "belongs to another certificate" in _start_error(tmp_path, ssl_keystore_location=str(other))
    assert "keytool -importkeystore" in _start_error(tmp_path, ssl_keystore_location=str(jks))
    message = _start_error(tmp_path, ssl_keystore_location=str(_pkcs12(pem, "right")), ssl_keystore_password="wr0ng")
    assert "its password is wrong" in message
    assert "wr0ng" not in message
