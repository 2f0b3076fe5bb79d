"""The settings that every client has: where the cluster is, and how patient to be with it."""

from typing import Final

from slackwater.settings import Setting, SettingType, choice_setting, int_setting, long_setting

COMMON: Final = (
    Setting(
        name="bootstrap.servers", kind=SettingType.LIST, default=(), doc="Where the cluster is: host:port,host:port."
    ),
    Setting(name="client.id", kind=SettingType.STRING, default="", doc="The name this client has in logs and metrics."),
    int_setting("request.timeout.ms", 30_000, "How long a request may go unanswered.", low=0),
    int_setting("default.api.timeout.ms", 60_000, "How long a call without a timeout of its own may take.", low=0),
    long_setting("socket.connection.setup.timeout.ms", 10_000, "How long a connection may take to be made.", low=0),
    long_setting("reconnect.backoff.ms", 50, "The first pause before a broker is tried again.", low=0),
    long_setting("reconnect.backoff.max.ms", 1_000, "The longest pause before a broker is tried again.", low=0),
    long_setting("retry.backoff.ms", 100, "The first pause before a request is tried again.", low=0),
    long_setting("retry.backoff.max.ms", 1_000, "The longest pause before a request is tried again.", low=0),
    long_setting("metadata.max.age.ms", 300_000, "How long metadata is believed.", low=0),
    long_setting("connections.max.idle.ms", 540_000, "When an idle connection is closed."),
    choice_setting("security.protocol", "PLAINTEXT", ("PLAINTEXT",), "How connections are secured."),
)
