"""Variables in the values of settings."""

from pathlib import Path

import pytest

from slackwater import Admin, UsageError
from slackwater.variables import expand_variables


def test_variables_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=from a file\n")
    whole = tmp_path / "password"
    whole.write_text("whole file\n")
    assert expand_variables("x", "${SECRET}-${env:SECRET}") == "s3cret-s3cret"
    assert expand_variables("x", f"${{file:{secrets}:password}}") == "from a file"
    assert expand_variables("x", f"${{file:{whole}}}") == "whole file"
    assert expand_variables("x", "$SECRET ${not a name}") == "$SECRET ${not a name}"


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("canary${NOT_SET}", "sasl.password needs the environment variable NOT_SET"),
        ("canary${env:NOT_SET}", "sasl.password needs the environment variable NOT_SET"),
        ("canary${file:/not/there}", "sasl.password needs the file /not/there, which cannot be read"),
        ("canary${file:/not/there:key}", "The file /not/there cannot be read"),
    ],
)
def test_missing_variable_is_named_without_the_value(value: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as raised:
        Admin({"bootstrap.servers": "localhost:1", "sasl.password": value})
    assert "canary" not in str(raised.value)
