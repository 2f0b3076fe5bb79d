"""Settings that this client must not ignore, because without them it does something else than the user expects.

Invariants:
- A setting that only affects speed, memory or logging may be ignored. One that changes which records are read or
  written, when they are committed, or who can read them, is refused until it works.
- librdkafka's names of settings that this client has are refused, with Kafka's name.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from slackwater.group.errors import UsageError


class Unsupported(NamedTuple):
    """Why a setting is refused, the values that change nothing, and a setting that only the affected clients have."""

    reason: str
    harmless: tuple[str, ...] = ()
    client_has: str = "bootstrap.servers"


_SECURITY: Final = Unsupported(
    "This client has no TLS and no SASL yet: it connects without encryption and without authentication. Remove the "
    "setting, and use a listener of the brokers that allows this."
)
_CALLBACK: Final = "This client does not call it; errors are raised and logged, and metrics() returns the statistics."
_PREFIXES: Final = {"sasl.": _SECURITY, "ssl.": _SECURITY, "oauth": _SECURITY}
UNSUPPORTED: Final = {
    "security.protocol": _SECURITY._replace(harmless=("PLAINTEXT",)),
    "enable.ssl.certificate.verification": _SECURITY,
    "transactional.id": Unsupported(
        "This producer has no transactions yet. Remove it; the producer is idempotent without it.", client_has="acks"
    ),
    "partitioner.class": Unsupported(
        "This producer loads no classes. Remove it, and pass partition= to send().", client_has="acks"
    ),
    "interceptor.classes": Unsupported("This client has no interceptors. Remove it."),
    "config.providers": Unsupported(
        "This client has no configuration providers. Use ${NAME} in a value for an environment variable."
    ),
    "enable.auto.offset.store": Unsupported(
        "This consumer cannot store offsets separately. Set enable.auto.commit to false and commit offsets yourself.",
        ("true",),
        "group.id",
    ),
    "enable.partition.eof": Unsupported(
        "This consumer does not report the end of a partition. Compare position() with end_offsets().",
        ("false",),
        "group.id",
    ),
    "internal.leave.group.on.close": Unsupported("Use close(leave_group=False).", ("true",), "group.id"),
    "error_cb": Unsupported(_CALLBACK),
    "stats_cb": Unsupported(_CALLBACK),
    "throttle_cb": Unsupported(_CALLBACK),
    "on_commit": Unsupported("Pass callback= to commit_async().", client_has="group.id"),
}
_LIBRDKAFKA_NAMES: Final = {
    "auto.commit.enable": "enable.auto.commit",
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "socket.timeout.ms": "request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}


def refuse_unsupported(name: str, text: str, known: Collection[str]) -> None:
    """Raise `UsageError` for a setting that a client with the `known` settings must not ignore."""
    unsupported = UNSUPPORTED.get(name) or _by_prefix(name, _PREFIXES)
    if unsupported is not None and unsupported.client_has in known:
        harmless = {value.lower() for value in ("", *unsupported.harmless)}
        if text.strip().lower() not in harmless:
            raise UsageError(f"{name} is not supported. {unsupported.reason}")
    kafka_name = _LIBRDKAFKA_NAMES.get(name)
    if kafka_name is not None and kafka_name in known:
        raise UsageError(f"{name} is the name of another client; use {kafka_name}.")


def _by_prefix(name: str, prefixes: Mapping[str, Unsupported]) -> Unsupported | None:
    return next((unsupported for prefix, unsupported in prefixes.items() if name.startswith(prefix)), None)
