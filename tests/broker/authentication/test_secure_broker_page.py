"""The settings on the page docs/secure-broker.md start a broker."""

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from slackwater import Broker
from slackwater.broker.config import Settings
from slackwater.broker.config.listeners import configured_endpoints
from slackwater.broker.embedded.certificates import LOCAL_HOSTS, TestAuthority
from slackwater.properties import read_properties
from slackwater.security.protocols import SecurityProtocol

PAGE = Path(__file__).parents[3] / "docs" / "secure-broker.md"
BLOCKS = re.findall(r"```properties\n(.*?)```", PAGE.read_text(), re.DOTALL)


def _settings(directory: Path, block: str) -> dict[str, str]:
    path = directory / "server.properties"
    path.write_text(block)
    return read_properties(path)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_of_settings_is_accepted(tmp_path: Path, number: int) -> None:
    settings = _settings(tmp_path, BLOCKS[number])
    assert settings
    assert Settings(settings).ignored == []


def test_listeners_of_the_page(tmp_path: Path) -> None:
    internal, external = configured_endpoints(Settings(_settings(tmp_path, BLOCKS[0])))
    assert (internal.name, internal.host, internal.protocol) == ("INTERNAL", "127.0.0.1", SecurityProtocol.PLAINTEXT)
    assert (external.protocol, external.advertised) == (SecurityProtocol.SASL_SSL, ("kafka.example.com", 9093))


def test_page_together_makes_a_secured_broker(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    (tmp_path / "users.properties").write_text("carol=pw\n")
    settings: dict[str, str] = {}
    for block in BLOCKS:
        settings |= _settings(tmp_path, block)
    settings |= {
        "listeners": "EXTERNAL://127.0.0.1:0",
        "advertised.listeners": "",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "ssl.keystore.location": str(authority.issue("broker", hosts=LOCAL_HOSTS)),
        "ssl.truststore.location": str(authority.path),
        "sasl.plain.users.file": str(tmp_path / "users.properties"),
    }
    with Broker(settings=settings) as broker:
        for user, password in (("carol", "pw"), ("alice", "secret"), ("bob", "other")):
            config: dict[str, str | int | float | bool] = {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": password,
                "ssl.ca.location": str(authority.path),
            }
            assert AdminClient(config).list_topics(timeout=30).brokers
