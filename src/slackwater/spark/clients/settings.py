"""The client settings of a source or sink in the process that uses them: the driver, or an executor.

Invariants:
- Certificates and `${file:...}` with a relative name are found in the working directory, else among the files that
  Spark shipped with `--files`. Each process has its own directory of them, so names are resolved where they are used.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark import SparkFiles

from slackwater.client.config import CONSUMER_SETTINGS, parse_settings
from slackwater.settings import Setting, Value

CLIENT_ID_SETTING: Final = "client.id"
_FILES: Final = frozenset(
    {
        "sasl.kerberos.keytab",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.truststore.location",
    }
)
_driver_directory = ""
_FILE_VARIABLE: Final = re.compile(r"(?<=\$\{file:)[^:}]+")


def parse_kafka(kafka: Mapping[str, str], known: Mapping[str, Setting] = CONSUMER_SETTINGS) -> dict[str, Value]:
    """Parse the client settings of the options."""
    return parse_settings(with_shipped_files(kafka), known, ignored=lambda _name: None)


def with_shipped_files(kafka: Mapping[str, str]) -> dict[str, str]:
    """Replace the names of files that Spark shipped by their paths in this process."""
    return {
        name: _shipped(text) if name in _FILES else _FILE_VARIABLE.sub(lambda path: _shipped(path[0]), text)
        for name, text in kafka.items()
    }


def shipped_files() -> str:
    """Return this process's directory of shipped files; empty where Spark does not know it."""
    try:
        return SparkFiles.getRootDirectory() or ""
    except (AssertionError, AttributeError):  # a Spark Connect client, and the process of a streaming source
        return ""


def use_driver_files(directory: str) -> None:
    """Use the driver's directory in a process on the driver that does not get it from Spark."""
    global _driver_directory
    _driver_directory = directory


def _shipped(name: str) -> str:
    """Return the path of a file that Spark shipped, or the name itself."""
    if not name or Path(name).is_absolute() or Path(name).exists():
        return name
    directories = filter(None, (shipped_files(), _driver_directory))
    found = (path for directory in directories if (path := Path(directory, name)).exists())
    return str(next(found, name))
