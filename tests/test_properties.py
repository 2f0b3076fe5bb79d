"""Files of settings in Kafka's format."""

from pathlib import Path

import pytest

from slackwater.group.errors import UsageError
from slackwater.properties import read_properties

# java.util.Properties reads it as EXPECTED (checked with the JDK).
FILE = r"""# a comment
! another
bootstrap.servers=a:1,\
    b:2,\
    # no comment
spaced   =  value with trailing blanks@@
colon: value
  indented value
empty=
nameonly
key\=with\:marks\ =x
unicode=\u00e9\t|
windows=C:\\path\\file\\
odd=one\\\
  two
quote=\"kept\"
jaas=org.x.PlainLoginModule required username="a" password="p=1:2";
""".replace("@@", "  ")
EXPECTED = {
    "bootstrap.servers": "a:1,b:2,# no comment",
    "spaced": "value with trailing blanks  ",
    "colon": "value",
    "indented": "value",
    "empty": "",
    "nameonly": "",
    "key=with:marks ": "x",
    "unicode": "é\t|",
    "windows": "C:\\path\\file\\",
    "odd": "one\\two",
    "quote": '"kept"',
    "jaas": 'org.x.PlainLoginModule required username="a" password="p=1:2";',
}


def test_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(FILE)
    assert read_properties(path) == EXPECTED


def test_invalid_escape_names_the_line_but_no_value(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("a=1\nsasl.password=canary\\u12\n")
    with pytest.raises(UsageError, match=r"Line 2 of .* has an invalid \\u escape") as raised:
        read_properties(path)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("line", ["canary", "  canary  ", "a\\=canary"])
def test_line_with_a_name_only_can_be_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "users.properties"
    path.write_text(f"# users\nempty=\nblank :\nbob secret\n{line}\n")
    with pytest.raises(UsageError, match=r"users\.properties, line 5 is not a setting; use name=value\.") as raised:
        read_properties(path, allow_name_only=False)
    assert "canary" not in str(raised.value)
    assert read_properties(path)["bob"] == "secret"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None])
def test_unreadable_file_is_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=rf"The file {path} (cannot be read: No such file|is not UTF-8 text)"):
        read_properties(path)
