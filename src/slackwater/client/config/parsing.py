"""What a user gave, made into values: names checked, texts read, the environment looked up.

Rules kept here
- `${NAME}` in a value is the environment's; one that is not set is refused by its name.
- A name nobody knows is refused with the nearest known one. A name that belongs to another client (the producer's in a
  shared properties file, librdkafka's own) is ignored, and listed.
- Python's own values do as well as texts: True, 500, ["a:1", "b:2"].
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from slackwater.client.config.consumer import CONSUMER_SETTINGS
from slackwater.client.config.producer import PRODUCER_SETTINGS
from slackwater.group.errors import UsageError
from slackwater.settings import Setting, Value

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

# Names, and the beginnings of names, that other clients have; those of the other roles of this one are known anyway.
FOREIGN: Final = frozenset(
    [
        *CONSUMER_SETTINGS,
        *PRODUCER_SETTINGS,
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "config.providers",
        "enable.metrics.push",
        "group.remote.assignor",
        "interceptor.classes",
        "internal.leave.group.on.close",
        "key.deserializer",
        "key.serializer",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "partitioner.class",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "share.acknowledgement.mode",
        "socket.connection.setup.timeout.max.ms",
        "transaction.timeout.ms",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    ]
)
FOREIGN_PREFIXES: Final = (
    "api.version.",
    "broker.",
    "builtin.features",
    "confluent.",
    "connections.max.reauth",
    "coordinator.",
    "debug",
    "enable.auto.offset.",
    "enable.partition.eof",
    "error_cb",
    "fetch.error.",
    "fetch.message.",
    "fetch.queue.",
    "fetch.wait.",
    "linger",
    "log.",
    "log_",
    "max.in.flight",
    "message.",
    "metadata.broker.",
    "metric",
    "oauth",
    "plugin.",
    "queue.",
    "queued.",
    "sasl.",
    "schema.",
    "socket.",
    "ssl.",
    "statistics.",
    "stats_cb",
    "sticky.",
    "topic.metadata.",
)


def merge_settings(config: Mapping[str, object] | None, more: Mapping[str, object]) -> dict[str, object]:
    """Settings by their names, and as keywords, in whose names an underscore stands for a dot."""
    if config is not None and not isinstance(config, Mapping):
        raise UsageError(
            f'The settings are {type(config).__name__}; give a dict, {{"bootstrap.servers": "host:port"}}.'
        )
    return dict(config or {}) | {name.replace("_", "."): value for name, value in more.items()}


def parse_settings(
    settings: Mapping[str, object], known: Mapping[str, Setting], *, ignored: Callable[[str], None]
) -> dict[str, Value]:
    """The values in force: what was given, and defaults for the rest."""
    values = {name: setting.default for name, setting in known.items()}
    for name, value in settings.items():
        setting = known.get(name)
        if setting is not None:
            values[name] = setting.parse(expand_variables(name, _text(value)))
        elif _is_foreign(name):
            ignored(name)
        else:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise UsageError(f"{name} is no setting of this client{hint}")
    return values


def _is_foreign(name: str) -> bool:
    return name in FOREIGN or name.startswith(FOREIGN_PREFIXES)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def expand_variables(name: str, text: str) -> str:
    """A value with `${NAME}` taken from the environment."""

    def found(match: re.Match[str]) -> str:
        value = os.environ.get(match[1])
        if value is None:
            raise UsageError(f"{name} = {text} needs the environment variable {match[1]}, which is not set.")
        return value

    return _VARIABLE.sub(found, text)
