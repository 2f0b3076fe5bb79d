"""Security settings without a broker: the documented examples, mistakes, and secrets."""

import logging
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from slackwater import Admin, Consumer, SaslAuthenticationError, UsageError
from slackwater.client.config import format_setting
from slackwater.client.config.security import SECURITY_SETTINGS
from slackwater.client.network.authentication import PlainMechanism
from slackwater.client.network.oidc import ClientCredentials
from slackwater.properties import read_properties
from tests.client.security.certificates import Authority

PAGE = Path(__file__).parents[3] / "docs" / "secured-clusters.md"
EXAMPLES = re.findall(r"^```properties\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
SERVERS = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(number) for number in range(len(EXAMPLES))])
def test_documented_settings_are_accepted(
    example: str, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued = authority.issue("example", "orders")
    files = {"ca.pem": authority.path, "ca.crt": authority.path, "client.p12": issued.pkcs12("secret")}
    for name in ("client", "user"):
        files |= {f"{name}.crt": issued.certificate(), f"{name}.key": issued.key("secret" if name == "client" else "")}
    for name, source in files.items():
        (tmp_path / name).write_bytes(source.read_bytes())
    (tmp_path / "orders.keytab").write_bytes(b"key")
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))  # the extra `kerberos` needs a compiler
    (tmp_path / "msk_token.py").write_text("def token():\n    return 'token'\n")
    for variable in re.findall(r"\$\{(\w+)\}", example):
        monkeypatch.setenv(variable, "secret")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "client.properties").write_text(example)
    Admin(read_properties("client.properties")).close()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"security.protocol": "TLS"}, "security.protocol = TLS is unknown; use one of PLAINTEXT, SSL"),
        ({"sasl.username": "a", "sasl.password": "canary"}, "sasl.username is set, but security.protocol is PLAINTEXT"),
        ({"ssl.ca.location": "ca.pem"}, "ssl.ca.location is set, but security.protocol is PLAINTEXT"),
        ({"ssl.keystore.location": "k.p12"}, "ssl.keystore.location is set, but security.protocol is PLAINTEXT"),
        ({"ssl.certificate.pem": "canary"}, "ssl.certificate.pem is set, but security.protocol is PLAINTEXT"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/none"}, "ssl.ca.location = /none cannot be read: No such"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-1"},
            "sasl.mechanism = SCRAM-SHA-1 is unknown; use one of PLAIN, SCRAM-SHA-256",
        ),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not set; use one of PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "PLAIN needs sasl.username"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.mechanisms": "OAUTHBEARER"},
            "sasl.mechanism and sasl.mechanisms mean the same and have different values",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "needs sasl.oauthbearer.token.provider"),
        (
            {"security.protocol": "SASL_SSL", "sasl.jaas.config": 'x.LdapLoginModule required password="canary";'},
            "has the login module LdapLoginModule",
        ),
    ],
)
def test_mistake_is_named_without_secrets(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as raised:
        Admin(SERVERS | settings)
    assert "canary" not in str(raised.value)


def test_jks_file_gets_the_line_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "trust.jks"
    key = ["-alias", "a", "-keyalg", "EC", "-dname", "CN=a", "-storepass", "canary1"]
    subprocess.run(
        ["keytool", "-genkeypair", "-storetype", "JKS", "-keystore", str(path), *key], check=True, capture_output=True
    )
    with pytest.raises(UsageError, match=r"is a JKS file.* keytool -importkeystore -srckeystore .* PKCS12$"):
        Admin(SERVERS | {"security.protocol": "SSL", "ssl.truststore.location": str(path)})


def test_wrong_store_and_key_passwords_are_named(authority: Authority) -> None:
    issued = authority.issue("passwords", "orders")
    ssl = SERVERS | {"security.protocol": "SSL", "ssl.truststore.location": str(authority.path)}
    with pytest.raises(UsageError, match=r"ssl.keystore.location = .* its password is wrong"):
        Admin(ssl | {"ssl.keystore.location": str(issued.pkcs12("right")), "ssl.keystore.password": "canary"})
    encrypted = ssl | {"ssl.keystore.location": str(issued.combined("right"))}
    with pytest.raises(UsageError, match="the password of its key is wrong"):
        Admin(encrypted | {"ssl.key.password": "canary"})
    with pytest.raises(UsageError, match=r"is encrypted; set ssl.key.password"):
        Admin(encrypted)
    other = authority.issue("another", "another")
    with pytest.raises(UsageError, match="belongs to another certificate"):
        Admin(ssl | {"ssl.certificate.location": str(other.certificate()), "ssl.key.location": str(issued.key())})


def test_secrets_are_in_no_log_line_and_no_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "canary"}
    with Consumer(SERVERS | secret | {"security.protocol": "SASL_SSL", "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(0.1)
        shown = [repr(consumer), repr(consumer.metrics())]
    shown += [repr(PlainMechanism("alice", "canary")), repr(ClientCredentials("https://x", "id", "canary"))]
    assert "sasl.password = [hidden]" in caplog.text
    assert "canary" not in caplog.text + "".join(shown)


@pytest.mark.parametrize(
    "name",
    [
        "ssl.truststore.password",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.pem",
        "ssl.certificate.pem",
        "sasl.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
    ],
)
def test_secret_setting_is_hidden(name: str) -> None:
    assert name in {setting.name for setting in SECURITY_SETTINGS}
    assert format_setting(name, "canary") == "[hidden]"


def test_failed_token_request_names_the_endpoint() -> None:
    with pytest.raises(SaslAuthenticationError, match=r"token\.endpoint\.url = http://127\.0\.0\.1:1 gave no token"):
        ClientCredentials("http://127.0.0.1:1", "id", "canary")()
