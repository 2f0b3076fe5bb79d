"""The users file of PLAIN is read as a client reads its settings."""

from pathlib import Path

import pytest

from slackwater.broker.authentication.plain_users import PlainUsers
from slackwater.broker.embedded.security import BrokerSecurity
from slackwater.client.config import CONSUMER_SETTINGS
from slackwater.group.errors import UsageError
from slackwater.properties import read_properties
from slackwater.security.protocols import SecurityProtocol


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("secret", "secret"),
        (" secret  ", "secret"),
        ("p=1:2#3!", "p=1:2#3!"),
        (r"p\\w", r"p\w"),
        (r"p\u00e9", "pé"),
        ("first \\\n   second", "first second"),
        ("p 'w\"", "p 'w\""),
    ],
)
def test_password_is_that_of_a_client_with_the_same_line(tmp_path: Path, text: str, password: str) -> None:
    users, client = tmp_path / "users.properties", tmp_path / "client.properties"
    users.write_text(f"alice={text}\n")
    client.write_text(f"sasl.password={text}\n")
    assert PlainUsers("", str(users)).password_of("alice") == password
    assert CONSUMER_SETTINGS["sasl.password"].parse(read_properties(client)["sasl.password"]) == password


@pytest.mark.parametrize(
    ("line", "name"),
    [("a b@c=pw", "a"), (r"a\ b@c=pw", "a b@c"), ("team:a=pw", "team"), (r"team\:a=pw", "team:a"), ("bob pw", "bob")],
)
def test_name_ends_as_in_java(tmp_path: Path, line: str, name: str) -> None:
    path = tmp_path / "users.properties"
    path.write_text(f"{line}\n")
    users = PlainUsers("", str(path))
    assert users.password_of(name) is not None
    assert list(read_properties(path)) == [name]


@pytest.mark.parametrize("name", ["alice", "team:a b", "a\\b", "tab\tin"])
def test_names_of_a_broker_for_tests_are_escaped(tmp_path: Path, name: str) -> None:
    security = BrokerSecurity(SecurityProtocol.SASL_PLAINTEXT, tmp_path)
    password = security.password(name)
    assert PlainUsers("", security.settings(("127.0.0.1", 0))["sasl.plain.users.file"]).password_of(name) == password


def test_refused_name_is_not_in_the_file_of_a_broker_for_tests(tmp_path: Path) -> None:
    security = BrokerSecurity(SecurityProtocol.SASL_PLAINTEXT, tmp_path)
    with pytest.raises(UsageError, match="is not a user name for tests"):
        security.password("eve\nmallory")
    security.password("alice")
    assert list(read_properties(tmp_path / "users.properties")) == ["alice"]
