"""The broker's loggers as settings: their names, and the levels Kafka's tools know.

Rules kept here
- Only loggers of this broker, and `root`; Kafka's TRACE is DEBUG here.
- What is changed holds until the broker stops, as in Kafka.
"""

import logging
from collections.abc import Iterator
from typing import Final

from slackwater.group.errors import BrokerError, Error

ROOT: Final = "root"
_OURS: Final = "slackwater"
_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}


def levels() -> Iterator[tuple[str, str]]:
    """Every logger and the level in force for it."""
    for name in sorted(_names()):
        yield name, _shown(_logger(name).getEffectiveLevel())


def check(name: str, level: str | None) -> None:
    """Raise `BrokerError` if this logger cannot have this level; None takes its level away."""
    if name not in _names():
        raise BrokerError(Error.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is None and name == ROOT:
        raise BrokerError(Error.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if level is not None and level.upper() not in _LEVELS:
        raise BrokerError(
            Error.INVALID_CONFIG, f"Cannot set the log level of {name} to {level}; use one of {', '.join(_LEVELS)}."
        )


def set_level(name: str, level: str | None) -> None:
    """Give a logger a level, or take its own away."""
    _logger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level.upper()])


def _names() -> set[str]:
    known = logging.root.manager.loggerDict
    return {ROOT} | {name for name in known if name == _OURS or name.startswith(f"{_OURS}.")}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _shown(level: int) -> str:
    return next((word for word, number in _LEVELS.items() if level >= number), "DEBUG")
