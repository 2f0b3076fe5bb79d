"""Java's login configuration."""

import pytest

from slackwater import UsageError
from slackwater.security.jaas import parse_jaas


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ('org.apache.x.PlainLoginModule required username="a" password="b";', "PlainLoginModule", ("a", "b")),
        ("PlainLoginModule required username=a password='b c' ;", "PlainLoginModule", ("a", "b c")),
        ('X required\n  username = "a"\n  password="q\\"u=o;te\\\\";', "X", ("a", 'q"u=o;te\\')),
    ],
)
def test_login_module_is_parsed(text: str, name: str, options: tuple[str, str]) -> None:
    module = parse_jaas(text)
    assert (module.name, tuple(module.options.values())) == (name, options)
    assert "b" not in repr(module).replace("LoginModule", "").replace("PlainLogin", "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "one login module"),
        ('X required password="canary"', "ends with a semicolon"),
        ('X required password="canary";Y required;', "one login module"),
        ('X password="canary";', "no control flag"),
        ('X required password "canary";', "incomplete|without"),
        ('X required password="canary', "quote without its end"),
    ],
)
def test_mistake_is_named_without_the_secret(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as raised:
        parse_jaas(text)
    assert "canary" not in str(raised.value)
