"""The settings of a producer, under Kafka's names and with Kafka's defaults."""

from typing import Final

from slackwater.client.config.common import COMMON
from slackwater.settings import MAX_INT, Setting, choice_setting, flag_setting, int_setting, long_setting

PRODUCER_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        *COMMON,
        choice_setting("acks", "all", ("all", "-1", "0", "1"), "Who must have a record before it counts as written."),
        flag_setting("enable.idempotence", True, "Whether a retry can never write a record twice."),
        choice_setting(
            "compression.type", "none", ("none", "gzip", "snappy", "lz4", "zstd"), "How batches are compressed."
        ),
        int_setting("batch.size", 16_384, "A batch is sent at the latest when it has so many bytes.", low=0),
        long_setting("linger.ms", 5, "A batch waits so long for more records.", low=0),
        long_setting("buffer.memory", 33_554_432, "How many bytes may be on their way.", low=0),
        long_setting("max.block.ms", 60_000, "How long send may wait for room, or for a topic.", low=0),
        int_setting("max.request.size", 1_048_576, "The largest request, and with it the largest record.", low=0),
        int_setting("delivery.timeout.ms", 120_000, "How long a record may take to be delivered.", low=0),
        int_setting("retries", MAX_INT, "How often a batch is tried again.", low=0),
        int_setting(
            "max.in.flight.requests.per.connection", 5, "How many requests may be under way to a broker.", low=1
        ),
    )
}
