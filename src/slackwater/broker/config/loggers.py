"""The broker's loggers as settings of DescribeConfigs and AlterConfigs.

Invariants:
- Only the loggers of this broker and `root` are shown. Kafka's TRACE is DEBUG here.
- A changed level lasts until the broker stops, as in Kafka.
"""

import logging
from collections.abc import Iterator
from typing import Final

from slackwater.group.errors import BrokerError, Error

ROOT: Final = "root"
_PACKAGE: Final = "slackwater"
_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}


def levels() -> Iterator[tuple[str, str]]:
    """Iterate over all loggers and their effective levels."""
    for name in sorted(_names()):
        yield name, _level_name(_logger(name).getEffectiveLevel())


def check(name: str, level: str | None) -> None:
    """Raise `BrokerError` if this logger cannot have this level; None removes its level."""
    if name not in _names():
        raise BrokerError(Error.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is None and name == ROOT:
        raise BrokerError(Error.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if level is not None and level.upper() not in _LEVELS:
        raise BrokerError(
            Error.INVALID_CONFIG, f"Cannot set the log level of {name} to {level}; use one of {', '.join(_LEVELS)}."
        )


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger, or remove it."""
    _logger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level.upper()])


def _names() -> set[str]:
    loggers = logging.root.manager.loggerDict
    return {ROOT} | {name for name in loggers if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _level_name(level: int) -> str:
    return next((word for word, number in _LEVELS.items() if level >= number), "DEBUG")
