"""The settings of every client."""

from typing import Final

from slackwater.client.config.security import SECURITY_SETTINGS
from slackwater.settings import Setting, SettingType, int_setting, long_setting

COMMON: Final = (
    Setting(
        name="bootstrap.servers",
        kind=SettingType.LIST,
        default=(),
        doc="Addresses of brokers: host:port,host:port.",
    ),
    Setting(
        name="client.id",
        kind=SettingType.STRING,
        default="",
        doc="The name of this client in logs and metrics; without it a consumer is consumer-GROUP-1.",
    ),
    int_setting("request.timeout.ms", 30_000, "How long to wait for a response.", low=0),
    int_setting("default.api.timeout.ms", 60_000, "The timeout of calls without a timeout argument.", low=0),
    long_setting("socket.connection.setup.timeout.ms", 10_000, "The timeout for opening a connection.", low=0),
    long_setting("reconnect.backoff.ms", 50, "The first backoff before reconnecting to a broker.", low=0),
    long_setting("reconnect.backoff.max.ms", 1_000, "The maximum backoff before reconnecting to a broker.", low=0),
    long_setting("retry.backoff.ms", 100, "The first backoff before retrying a request.", low=0),
    long_setting("retry.backoff.max.ms", 1_000, "The maximum backoff before retrying a request.", low=0),
    long_setting("metadata.max.age.ms", 300_000, "The age after which metadata is refreshed.", low=0),
    long_setting("connections.max.idle.ms", 540_000, "The idle time after which a connection is closed."),
    *SECURITY_SETTINGS,
)
