"""The settings of a producer, under Kafka's names and with Kafka's defaults."""

from typing import Final

from slackwater.client.config.common import COMMON
from slackwater.settings import MAX_INT, Setting, SettingType, choice_setting, flag_setting, int_setting, long_setting

PRODUCER_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        *COMMON,
        choice_setting("acks", "all", ("all", "-1", "0", "1"), "Which replicas must have a record."),
        flag_setting("enable.idempotence", True, "Whether retries are free of duplicates."),
        choice_setting(
            "compression.type", "none", ("none", "gzip", "snappy", "lz4", "zstd"), "How batches are compressed."
        ),
        int_setting("batch.size", 16_384, "The maximum bytes of a batch.", low=0),
        long_setting("linger.ms", 5, "How long a batch waits for more records.", low=0),
        long_setting("buffer.memory", 33_554_432, "The maximum bytes of unsent and unacknowledged records.", low=0),
        long_setting("max.block.ms", 60_000, "How long send() waits for buffer memory or metadata.", low=0),
        int_setting("max.request.size", 1_048_576, "The maximum bytes of a request, and of a record.", low=0),
        int_setting("delivery.timeout.ms", 120_000, "How long a record may take to be delivered.", low=0),
        int_setting("retries", MAX_INT, "How often a batch is retried.", low=0),
        Setting(
            name="key.serializer",
            kind=SettingType.STRING,
            default="",
            doc="A Python function that gets the key of a record; its result is written.",
        ),
        Setting(
            name="value.serializer",
            kind=SettingType.STRING,
            default="",
            doc="A Python function that gets the value of a record; its result is written.",
        ),
        int_setting("max.in.flight.requests.per.connection", 5, "The maximum requests in flight per broker.", low=1),
        Setting(
            name="transactional.id",
            kind=SettingType.STRING,
            default="",
            doc="Enables transactions: unique in the cluster, and the same after a restart. A new producer fences "
            "older ones with the same id.",
        ),
        int_setting(
            "transaction.timeout.ms",
            60_000,
            "The cluster aborts a transaction that is open for longer and fences its producer. The broker limits it: "
            "transaction.max.timeout.ms.",
            low=1,
        ),
    )
}
