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
    "Without it this client protects its connections in another way. Remove it; docs/secured-clusters.md lists the "
    "settings that are supported."
)
_JAVA_CLASS: Final = Unsupported(
    "It loads a Java class. Remove it, and set sasl.oauthbearer.token.provider to a Python function if it gives tokens."
)
_CALLBACK: Final = "This client does not call it; errors are raised and logged, and metrics() returns the statistics."
_PREFIXES: Final = {"sasl.": _SECURITY, "ssl.": _SECURITY, "oauth": _SECURITY}
UNSUPPORTED: Final = {
    "oauth_cb": Unsupported("Set sasl.oauthbearer.token.provider to a function that returns a token and its expiry."),
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.login.class": _JAVA_CLASS,
    "sasl.oauthbearer.jwt.retriever.class": _JAVA_CLASS,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "partitioner.class": Unsupported(
        "This producer loads no classes. Remove it, and pass partition= to send().", client_has="acks"
    ),
    "interceptor.classes": Unsupported("This client has no interceptors. Remove it."),
    "config.providers": Unsupported(
        "This client has the providers env and file. Use ${env:NAME} and ${file:/path:key} in values.",
        ("env", "file", "env,file", "file,env"),
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
# Settings of Java and librdkafka that do not change how well a connection is protected.
_HARMLESS: Final = (
    "sasl.kerberos.",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
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
    unsupported = UNSUPPORTED.get(name)
    if unsupported is None and name not in known and not name.startswith(_HARMLESS):
        unsupported = _by_prefix(name, _PREFIXES)
    if unsupported is not None and unsupported.client_has in known:
        harmless = {value.lower() for value in ("", *unsupported.harmless)}
        if text.strip().lower() not in harmless:
            raise UsageError(f"{name} is not supported. {unsupported.reason}")
    kafka_name = _LIBRDKAFKA_NAMES.get(name)
    if kafka_name is not None and kafka_name in known:
        raise UsageError(f"{name} is the name of another client; use {kafka_name}.")


def _by_prefix(name: str, prefixes: Mapping[str, Unsupported]) -> Unsupported | None:
    return next((unsupported for prefix, unsupported in prefixes.items() if name.startswith(prefix)), None)
