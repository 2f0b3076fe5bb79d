"""Errors for paths of a history that cannot be read; the command line and the Spark job share them."""

from collections.abc import Sequence

from slackwater.group.errors import UsageError


def missing_paths_error(paths: Sequence[str]) -> UsageError:
    """Return the error for paths that do not exist."""
    return UsageError(f"No such file or directory: {' and '.join(paths)}. Pass a file or a directory that exists.")


def unreadable_path_error(path: str) -> UsageError:
    """Return the error for a path without read permission."""
    return UsageError(f"{path} is not readable for this user. Change its permissions, or run as another user.")
