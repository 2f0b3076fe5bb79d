"""Variables in the values of settings: the environment, files and keys of files.

Invariants:
- No error shows a value.
"""

import os
import re
from pathlib import Path
from typing import Final

from slackwater.group.errors import UsageError
from slackwater.properties import read_properties

_VARIABLE: Final = re.compile(r"\$\{(?:(env|file):([^}]*)|([A-Za-z_][A-Za-z0-9_]*))\}")


def expand_variables(name: str, text: str) -> str:
    """Replace `${NAME}`, `${env:NAME}`, `${file:/path}` and `${file:/path:key}` in the value of a setting."""

    def replace(match: re.Match[str]) -> str:
        kind, argument, variable = match.groups()
        return _file_value(name, argument) if kind == "file" else _environment_value(name, variable or argument)

    return _VARIABLE.sub(replace, text)


def _environment_value(name: str, variable: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise UsageError(f"{name} needs the environment variable {variable}, which is not set.")
    return value


def _file_value(name: str, argument: str) -> str:
    path, colon, key = argument.partition(":")
    if not colon:
        try:
            return Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(f"{name} needs the file {path}, which cannot be read: {reason}.") from error
    value = read_properties(path).get(key)
    if value is None:
        raise UsageError(f"{name} needs {key} of the file {path}, which does not contain it.")
    return value
