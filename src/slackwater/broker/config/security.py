"""The settings of listeners: TLS, SASL and limits. Each can be set for one listener, as in Kafka.

`listener.name.internal.ssl.client.auth` overrides `ssl.client.auth` for the listener INTERNAL. The settings in
`PER_MECHANISM` are set for a mechanism of a listener: `listener.name.internal.plain.sasl.jaas.config`.
"""

import re
from dataclasses import replace
from typing import Final

from slackwater.security.protocols import SASL_MECHANISMS
from slackwater.settings import (
    MAX_INT,
    Setting,
    choice_setting,
    int_setting,
    list_setting,
    long_setting,
    password_setting,
    text_setting,
)

_STORES: Final = ("", "PEM", "PKCS12", "JKS")
_PER_LISTENER: Final = (
    # TLS
    text_setting(
        "ssl.keystore.location", "", "The file with the certificate and key of the broker: PEM or PKCS12.", dynamic=True
    ),
    choice_setting("ssl.keystore.type", "", _STORES, "Accepted as in Kafka; the content of the file decides."),
    password_setting("ssl.keystore.password", "The password of a PKCS12 keystore.", dynamic=True),
    password_setting("ssl.key.password", "The password of the private key in a PEM keystore.", dynamic=True),
    password_setting("ssl.keystore.key", "The private key as PEM text, instead of a file.", dynamic=True),
    password_setting(
        "ssl.keystore.certificate.chain", "The certificate chain as PEM text, for `ssl.keystore.key`.", dynamic=True
    ),
    text_setting(
        "ssl.truststore.location", "", "The file with the certificates that sign those of clients.", dynamic=True
    ),
    choice_setting("ssl.truststore.type", "", _STORES, "Accepted as in Kafka; the content of the file decides."),
    password_setting("ssl.truststore.password", "The password of a PKCS12 truststore.", dynamic=True),
    password_setting(
        "ssl.truststore.certificates", "The trusted certificates as PEM text, instead of a file.", dynamic=True
    ),
    choice_setting(
        "ssl.client.auth",
        "none",
        ("none", "requested", "required"),
        "Whether clients need a certificate. On a SASL_SSL listener only its own setting counts, as in Kafka.",
    ),
    list_setting(
        "ssl.enabled.protocols",
        "The TLS versions.",
        default=("TLSv1.2", "TLSv1.3"),
        choices=("TLSv1.2", "TLSv1.3"),
    ),
    text_setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How the name in a client's certificate becomes a principal: `RULE:pattern/replacement/[LU],DEFAULT`.",
    ),
    # SASL
    list_setting("sasl.enabled.mechanisms", "The SASL mechanisms of clients.", choices=SASL_MECHANISMS),
    int_setting("sasl.server.max.receive.size", 524_288, "The maximum size of a request before authentication.", low=1),
    text_setting(
        "sasl.plain.users.file",
        "",
        "A file with the users of PLAIN, one `name=password` per line; changes apply at once.",
    ),
    text_setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        "The keys that sign tokens: `https://…`, or `file:…` for a local file.",
    ),
    long_setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000, "How often the keys are read again.", low=1),
    list_setting("sasl.oauthbearer.expected.audience", "The accepted audiences; a token needs one of them."),
    text_setting("sasl.oauthbearer.expected.issuer", "", "The issuer that a token must have."),
    int_setting(
        "sasl.oauthbearer.clock.skew.seconds", 30, "How far the clocks of issuer and broker may differ.", low=0
    ),
    text_setting("sasl.oauthbearer.sub.claim.name", "sub", "The claim of a token that is the name of the principal."),
    # limits
    long_setting(
        "connections.max.reauth.ms", 0, "The time after which a SASL client must authenticate again; 0: never.", low=0
    ),
    int_setting(
        "connection.failed.authentication.delay.ms",
        100,
        "How long the response to a failed authentication waits.",
        low=0,
    ),
    long_setting(
        "connection.authentication.timeout.ms",
        30_000,
        "The time for the TLS handshake and the authentication of a connection together.",
        low=1,
    ),
)
PER_LISTENER: Final = {setting.name: setting for setting in _PER_LISTENER}
PER_MECHANISM: Final = {
    "sasl.jaas.config": password_setting(
        "sasl.jaas.config",
        "The users of PLAIN, as in Kafka: `org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_alice="secret";`',
    ),
    "connections.max.reauth.ms": PER_LISTENER["connections.max.reauth.ms"],
}
_NETWORK: Final = (
    list_setting(
        "listeners",
        "The listeners, for example `INTERNAL://127.0.0.1:9092,EXTERNAL://0.0.0.0:9093`; --listen is shorter.",
    ),
    list_setting(
        "advertised.listeners", "The addresses that clients get, by listener; by default the address they connected to."
    ),
    list_setting(
        "listener.security.protocol.map",
        "The protocol of each listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        default=("SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT"),
    ),
    text_setting("inter.broker.listener.name", "", "Must name a listener; there are no other brokers."),
    list_setting("controller.listener.names", "Listeners that are not opened: there is no controller quorum."),
    int_setting(
        "max.connections.per.ip", MAX_INT, "The maximum number of connections of one address.", low=0, dynamic=True
    ),
    list_setting(
        "max.connections.per.ip.overrides",
        "The maximum for single addresses, for example `10.0.0.1:200,127.0.0.1:500`.",
    ),
)
SECURITY_SETTINGS: Final = (*_NETWORK, *_PER_LISTENER)
_LISTENER: Final = re.compile(r"listener\.name\.([a-z0-9_-]+)\.(.+)")


def find_listener_setting(name: str) -> Setting | None:
    """Return the definition of `listener.name.NAME.SETTING` or `listener.name.NAME.MECHANISM.SETTING`."""
    if (match := _LISTENER.fullmatch(name)) is None:
        return None
    key = match[2]
    setting = PER_LISTENER.get(key)
    mechanism, _, rest = key.partition(".")
    if setting is None and mechanism.upper() in SASL_MECHANISMS:
        setting = PER_MECHANISM.get(rest)
    return None if setting is None else replace(setting, name=name)
