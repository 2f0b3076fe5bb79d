"""The options of the sink, with the names and meanings of Spark's Kafka sink.

Invariants:
- Option names are case-insensitive, as in Spark. An unknown name is an error that suggests the nearest known one.
- `kafka.` options are producer settings without the prefix. Those that the sink controls itself are rejected.
- Parsing makes no request: whether topics exist is checked by the tasks.
- The settings of the Kafka client may contain secrets: they are in no message and no `repr`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from slackwater.client.config import PRODUCER_SETTINGS, int_value
from slackwater.group.errors import UsageError
from slackwater.settings import Setting, SettingType, Value, choice_setting, flag_setting, long_setting
from slackwater.spark.clients.option_names import OptionNames
from slackwater.spark.clients.settings import CLIENT_ID_SETTING

BATCH_SIZE_SETTING: Final = "batch.size"
DEFAULT_BATCH_BYTES: Final = 512 << 10
"""The bytes of a batch before compression. Larger batches than the producer's default cost less per record."""
# Settings that the sink controls itself, with the alternative.
REJECTED: Final = {
    "key.serializer": "keys are string or binary; encode them with DataFrame operations.",
    "value.serializer": "values are string or binary; encode them with DataFrame operations.",
    "interceptor.classes": "interceptors are not supported.",
    "partitioner.class": "add a partition column to choose partitions.",
    "transactional.id": "set delivery=exactly_once and transactionalIdPrefix.",
}
# What Spark passes to the sink of a stream in addition to the options of the sink.
_OF_SPARK: Final = frozenset({"checkpointlocation", "path", "queryname"})


class DeliveryGuarantee(StrEnum):
    """What the sink guarantees."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


OPTIONS: Final = (
    Setting(
        name="topic",
        kind=SettingType.STRING,
        default="",
        doc="Topic of all records. It takes precedence over the topic column.",
    ),
    choice_setting(
        "delivery",
        DeliveryGuarantee.AT_LEAST_ONCE.value,
        tuple(kind.value for kind in DeliveryGuarantee),
        "What the sink guarantees.",
    ),
    Setting(
        name="transactionalIdPrefix",
        kind=SettingType.STRING,
        default="",
        doc="Required for exactly_once: the start of all transactional ids of this query. No other query uses it, and "
        "the query keeps it after a restart.",
    ),
    Setting(
        name="decisionTopic",
        kind=SettingType.STRING,
        default="__slackwater_sink_decisions",
        doc="The compacted topic in which exactly_once stores which batches are committed; created if it is missing.",
    ),
    long_setting(
        "acceptLostBatch",
        -1,
        "The number of a batch that was lost in part, to continue without its missing records.",
        low=-1,
    ),
    flag_setting(
        "includeHeaders", False, "Accepted without effect: headers are written if the DataFrame has the column."
    ),
)
_KNOWN: Final = {setting.name.lower(): setting for setting in OPTIONS}
_NAMES: Final = OptionNames("sink", "docs/spark-sink-options.md", _KNOWN, PRODUCER_SETTINGS, REJECTED, _OF_SPARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The parsed options."""

    kafka: dict[str, str] = field(repr=False)
    """Settings of the Kafka client, which may contain secrets."""
    topic: str | None = None
    delivery: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
    batch_bytes: int
    sticky_bytes: int
    """How many bytes without a key go to one partition before the next one."""
    max_record_bytes: int
    codec: str
    transactional_id_prefix: str = ""
    decision_topic: str
    accept_lost_batch: int = -1

    @property
    def is_exactly_once(self) -> bool:
        """Whether the sink writes in transactions."""
        return self.delivery is DeliveryGuarantee.EXACTLY_ONCE

    @classmethod
    def parse(cls, options: Mapping[str, str], *, application: str = "") -> Self:
        """Parse the options of a write. Raises UsageError for invalid ones."""
        kafka, texts = _NAMES.separate(options)
        values = {setting.name: setting.parse(texts[name]) for name, setting in _KNOWN.items() if name in texts}
        settings = _NAMES.parse_client(kafka)
        if application:
            kafka.setdefault(CLIENT_ID_SETTING, application)
        max_request_bytes = int_value(settings, "max.request.size")
        delivery = DeliveryGuarantee(str(_value(values, "delivery")))
        prefix = str(_value(values, "transactionalIdPrefix")).strip()
        _check_delivery(delivery, prefix, settings)
        sticky_bytes = int_value(settings, BATCH_SIZE_SETTING)
        batch_bytes = sticky_bytes if BATCH_SIZE_SETTING in kafka else DEFAULT_BATCH_BYTES
        return cls(
            kafka=kafka,
            topic=str(values.get("topic", "")).strip() or None,
            delivery=delivery,
            batch_bytes=max(min(batch_bytes, max_request_bytes), 1),
            sticky_bytes=max(sticky_bytes, 1),
            max_record_bytes=max_request_bytes,
            codec=str(settings["compression.type"]),
            transactional_id_prefix=prefix,
            decision_topic=str(_value(values, "decisionTopic")).strip(),
            accept_lost_batch=int(str(_value(values, "acceptLostBatch"))),
        )


def _value(values: Mapping[str, Value], name: str) -> Value:
    return values.get(name, _KNOWN[name.lower()].default)


def _check_delivery(delivery: DeliveryGuarantee, prefix: str, settings: Mapping[str, Value]) -> None:
    if delivery is DeliveryGuarantee.AT_LEAST_ONCE:
        if prefix:
            raise UsageError("transactionalIdPrefix is for delivery=exactly_once; set that, or remove the prefix.")
        return
    if not prefix:
        raise UsageError(
            "delivery=exactly_once requires transactionalIdPrefix; use a name that only this query has, and that it "
            "keeps after a restart."
        )
    if str(settings["acks"]) not in ("all", "-1") or not settings["enable.idempotence"]:
        raise UsageError(
            "delivery=exactly_once requires kafka.acks=all and kafka.enable.idempotence=true; remove these options."
        )
