"""Parses the settings of an application.

Invariants:
- `${NAME}` and `${env:NAME}` in a value are replaced by an environment variable, `${file:/path}` by the content of a
  file, `${file:/path:key}` by a key of a file in Java's properties format. A missing one is an error.
- No error shows a value that may be a secret.
- An unknown name is an error that suggests the closest known name. A name of another client (a producer setting in a
  shared file, librdkafka's own settings) is ignored and reported, unless this changes what the client does.
- Values may be Python objects: True, 500, ["a:1", "b:2"].
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from slackwater.client.config.consumer import CONSUMER_SETTINGS
from slackwater.client.config.producer import PRODUCER_SETTINGS
from slackwater.client.config.security import TOKEN_PROVIDER
from slackwater.client.config.unsupported import refuse_unsupported
from slackwater.group.errors import UsageError
from slackwater.settings import Setting, Value
from slackwater.variables import expand_variables

# Settings of other clients, by name and by prefix.
OTHER_CLIENTS_SETTINGS: Final = frozenset(
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
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "partitioner.class",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "share.acknowledgement.mode",
        "socket.connection.setup.timeout.max.ms",
    ]
)
OTHER_CLIENTS_PREFIXES: Final = (
    "api.version.",
    "broker.",
    "builtin.features",
    "config.providers.",
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
    """Merge a dict of settings and keyword arguments; `group_id` means `group.id`."""
    if config is not None and not isinstance(config, Mapping):
        raise UsageError(
            f'The settings are {type(config).__name__}; pass a dict, {{"bootstrap.servers": "host:port"}}.'
        )
    return dict(config or {}) | {name.replace("_", "."): value for name, value in more.items()}


def parse_settings(
    settings: Mapping[str, object], known: Mapping[str, Setting], *, ignored: Callable[[str], None]
) -> dict[str, Value]:
    """Return the value of every known setting; `ignored` receives the names of other clients' settings."""
    values = {name: setting.default for name, setting in known.items()}
    for name, value in settings.items():
        if name == TOKEN_PROVIDER and callable(value):
            continue  # `cluster_config` takes it from the settings as given
        setting, text = known.get(name), _to_text(value)
        refuse_unsupported(name, text, known)
        if setting is not None:
            values[name] = setting.parse(expand_variables(name, text))
        elif _is_foreign(name):
            ignored(name)
        else:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise UsageError(f"{name} is not a setting of this client{hint}")
    return values


def _is_foreign(name: str) -> bool:
    return name in OTHER_CLIENTS_SETTINGS or name.startswith(OTHER_CLIENTS_PREFIXES)


def _to_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ",".join(map(str, value))
    return "" if value is None else str(value)
