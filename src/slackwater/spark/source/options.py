"""The options of the source, with the names and meanings of Spark's Kafka source.

Invariants:
- Option names are case-insensitive, as in Spark. An unknown name is an error that suggests the nearest known one.
- All options of Spark's Kafka source are accepted. Those without a use here have no effect (`OptionGroup.IGNORED`).
- `kafka.` options are client settings without the prefix. Those that Spark's Kafka source rejects are rejected here.
- An error has one sentence: the option, the value, what to use instead.
- Parsing makes no request: whether topics and offsets exist is checked later.
- If several options set the start, startingTimestamp takes precedence over startingOffsetsByTimestamp, and that over
  startingOffsets. The same holds for the end.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Self

from slackwater.client.config import CONSUMER_SETTINGS
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.settings import Setting, SettingType, Value, choice_setting, flag_setting, int_setting, long_setting
from slackwater.spark.clients.option_names import PREFIX, OptionNames
from slackwater.spark.clients.settings import CLIENT_ID_SETTING

LATEST: Final = -1
EARLIEST: Final = -2
# Settings that the source controls itself, with the alternative.
REJECTED: Final = {
    "auto.offset.reset": "use startingOffsets.",
    "enable.auto.commit": "the source commits finished batches.",
    "interceptor.classes": "interceptors are not supported.",
    "key.deserializer": "keys are binary; decode them with DataFrame operations.",
    "value.deserializer": "values are binary; decode them with DataFrame operations.",
    "key.serializer": "keys are binary; decode them with DataFrame operations.",
    "value.serializer": "values are binary; decode them with DataFrame operations.",
}


class PositionKind(Enum):
    """How a `PositionSpec` defines positions."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"
    TIMESTAMPS = "timestamps"


@dataclass(frozen=True, slots=True)
class PositionSpec:
    """Positions in all partitions as the user defined them; `option` is the name of the option."""

    kind: PositionKind
    option: str
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets (-1 latest, -2 earliest) or timestamps in milliseconds."""
    timestamp: int = 0
    latest_if_no_match: bool = False
    """Whether a timestamp after the last record means latest; otherwise it is an error."""


class OptionGroup(Enum):
    """Groups of options, in the order of the documentation."""

    TOPICS = "Topics and partitions"
    POSITIONS = "Start and end"
    BATCHES = "Micro-batches and tasks"
    RECORDS = "Records"
    GROUP = "Consumer group"
    IGNORED = "Accepted without effect"


def _text(name: str, doc: str, default: str = "") -> Setting:
    return Setting(name=name, kind=SettingType.STRING, default=default, doc=doc)


OPTIONS: Final[dict[OptionGroup, tuple[Setting, ...]]] = {
    OptionGroup.TOPICS: (
        _text("subscribe", "Comma-separated list of topics."),
        _text("subscribePattern", "Regular expression for topic names; it must match the whole name."),
        _text("assign", 'Partitions to read: `{"orders":[0,1],"refunds":[2]}`.'),
    ),
    OptionGroup.POSITIONS: (
        _text(
            "startingOffsets",
            'earliest, latest (streams only), or offsets of all partitions: `{"orders":{"0":23,"1":-2}}`, where -2 is '
            "earliest and -1 latest. The default is earliest for a batch and latest for a stream.",
        ),
        _text(
            "startingTimestamp",
            "Timestamp in milliseconds: start at the first record with this timestamp or a later one.",
        ),
        _text(
            "startingOffsetsByTimestamp", 'Timestamps in milliseconds per partition: `{"orders":{"0":1700000000000}}`.'
        ),
        choice_setting(
            "startingOffsetsByTimestampStrategy",
            "error",
            ("error", "latest"),
            "What to do if a partition has no record at or after the starting timestamp.",
        ),
        _text("endingOffsets", "latest (the default), or offsets of all partitions, -1 for latest; batches only."),
        _text(
            "endingTimestamp", "Timestamp in milliseconds: end before the first record at or after it; batches only."
        ),
        _text("endingOffsetsByTimestamp", "Timestamps in milliseconds per partition; batches only."),
    ),
    OptionGroup.BATCHES: (
        long_setting("maxOffsetsPerTrigger", 0, "Maximum number of offsets per micro-batch; 0 means no limit.", low=0),
        long_setting("minOffsetsPerTrigger", 0, "Minimum number of offsets per micro-batch.", low=0),
        _text("maxTriggerDelay", "Maximum time to wait for minOffsetsPerTrigger.", "15m"),
        int_setting("minPartitions", 0, "Minimum number of tasks; partitions are split to reach it.", low=0),
        long_setting("maxRecordsPerPartition", 0, "Maximum number of offsets per task; 0 means no limit.", low=0),
    ),
    OptionGroup.RECORDS: (
        flag_setting("includeHeaders", False, "Whether to add the headers column."),
        flag_setting("failOnDataLoss", True, "Whether the query fails when records were deleted before it read them."),
        long_setting("kafkaConsumer.pollTimeoutMs", 120_000, "Maximum time a task waits for data.", low=1),
    ),
    OptionGroup.GROUP: (
        choice_setting(
            "handover",
            "wait",
            ("wait", "release", "handoff"),
            "What to do with a partition that is revoked while the running batch contains it.",
        ),
        _text("handoverTimeout", "Maximum time that handover=wait waits; after it the partition is released.", "10m"),
        choice_setting(
            "statefulHandover",
            "warn",
            ("warn", "refuse", "allow"),
            "What to do with a stateful query in a group of several members.",
        ),
        choice_setting(
            "onOffsetReset",
            "obey",
            ("obey", "refuse"),
            "What to do when the group's committed offset was reset to an earlier offset.",
        ),
    ),
    OptionGroup.IGNORED: (
        int_setting("fetchOffset.numRetries", 3, "Offset requests are retried until kafka.default.api.timeout.ms."),
        long_setting(
            "fetchOffset.retryIntervalMs",
            1_000,
            "The pause between retries is kafka.retry.backoff.ms, with exponential backoff.",
        ),
        _text("groupIdPrefix", "Executors join no group."),
    ),
}
_KNOWN: Final = {setting.name.lower(): setting for settings in OPTIONS.values() for setting in settings}
_NAMES: Final = OptionNames("source", "docs/spark-options.md", _KNOWN, CONSUMER_SETTINGS, REJECTED)
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_DURATION: Final = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?", re.IGNORECASE)
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The parsed options. Exactly one of `subscribe`, `subscribe_pattern` and `assign` is set."""

    kafka: dict[str, str] = field(repr=False)
    """Settings of the Kafka client, which may contain secrets."""
    group_id: str | None = None
    group_instance_id: str | None = None
    subscribe: tuple[str, ...] | None = None
    subscribe_pattern: str | None = None
    assign: dict[str, list[int]] | None = None
    starting: PositionSpec
    ending: PositionSpec
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int
    handover: str
    handover_timeout_ms: int
    stateful_handover: str
    on_offset_reset: str
    application: str = ""
    """The name of the application in client ids, unless the user sets kafka.client.id."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool, application: str = "") -> Self:
        """Parse the options of a query. Raises UsageError for invalid ones."""
        kafka, values = _parse(options)
        application = "" if kafka.get(CLIENT_ID_SETTING) else application
        if application:
            kafka[CLIENT_ID_SETTING] = application
        _check_ending(values, streaming)
        subscribe = _text_of(values, "subscribe")
        min_offsets, max_offsets = _count(values, "minOffsetsPerTrigger"), _count(values, "maxOffsetsPerTrigger")
        if min_offsets and max_offsets and min_offsets > max_offsets:
            raise UsageError(
                f"minOffsetsPerTrigger = {min_offsets} is greater than maxOffsetsPerTrigger = {max_offsets}."
            )
        assign = _text_of(values, "assign")
        return cls(
            kafka=kafka,
            group_id=kafka.get("group.id") or None,
            group_instance_id=kafka.get("group.instance.id") or None,
            subscribe=_topics(subscribe) if subscribe is not None else None,
            subscribe_pattern=_pattern(_text_of(values, "subscribePattern")),
            assign=_assigned(assign) if assign is not None else None,
            starting=_starting(values, streaming),
            ending=_ending(values),
            max_offsets_per_trigger=max_offsets,
            min_offsets_per_trigger=min_offsets,
            max_trigger_delay_ms=_duration(values, "maxTriggerDelay"),
            min_partitions=_count(values, "minPartitions"),
            max_records_per_partition=_count(values, "maxRecordsPerPartition"),
            include_headers=bool(_value(values, "includeHeaders")),
            fail_on_data_loss=bool(_value(values, "failOnDataLoss")),
            poll_timeout_ms=int(str(_value(values, "kafkaConsumer.pollTimeoutMs"))),
            handover=str(_value(values, "handover")),
            handover_timeout_ms=_duration(values, "handoverTimeout"),
            stateful_handover=str(_value(values, "statefulHandover")),
            on_offset_reset=str(_value(values, "onOffsetReset")),
            application=application,
        )

    @property
    def read_committed(self) -> bool:
        """Whether records of aborted transactions are skipped."""
        return self.kafka.get("isolation.level") == "read_committed"


def check_options(options: Mapping[str, str]) -> None:
    """Raise UsageError for options that are invalid in batches and in streams."""
    _parse(options)


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether to add the headers column."""
    return bool(_value(_parse(options)[1], "includeHeaders"))


def _parse(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Value]]:
    """Return the client settings, and the parsed source options that are set."""
    kafka, texts = _NAMES.separate(options)
    values = {setting.name: setting.parse(texts[name]) for name, setting in _KNOWN.items() if name in texts}
    _check_strategy(values)
    _NAMES.parse_client(kafka)
    if kafka.get("group.instance.id") and not kafka.get("group.id"):
        raise UsageError(f"{PREFIX}group.instance.id requires {PREFIX}group.id.")
    return kafka, values


def _check_strategy(values: Mapping[str, Value]) -> None:
    strategies = [name for name in _STRATEGIES if name in values]
    if len(strategies) > 1:
        raise UsageError(f"{' and '.join(strategies)} cannot be set together; use one of {', '.join(_STRATEGIES)}.")
    if not strategies:
        raise UsageError(f"No topics to read; set one of {', '.join(_STRATEGIES)}.")


def _check_ending(values: Mapping[str, Value], streaming: bool) -> None:
    for name in _ENDING:
        if streaming and name in values:
            raise UsageError(f"{name} cannot be set for a stream; use spark.read, or remove it.")


def _value(values: Mapping[str, Value], name: str) -> Value:
    return values.get(name, _KNOWN[name.lower()].default)


def _text_of(values: Mapping[str, Value], name: str) -> str | None:
    value = values.get(name)
    return None if value is None else str(value)


def _count(values: Mapping[str, Value], name: str) -> int | None:
    """Return a limit; None for 0, which means no limit."""
    return int(str(_value(values, name))) or None


def _duration(values: Mapping[str, Value], name: str) -> int:
    """Return the milliseconds of a duration such as 15m, 500ms, 1h; a number without unit is milliseconds."""
    text = str(_value(values, name))
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{name} = {text!r} is not a duration; use for example 500ms, 30s, 15m or 1h.")
    number, unit = int(match[1]), (match[2] or "ms").lower()
    return number // 1_000 if unit == "us" else number * _UNITS_MS[unit]


def _topics(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not names:
        raise UsageError(f"subscribe = {text!r} contains no topic; use topic,topic.")
    return names


def _pattern(text: str | None) -> str | None:
    if text is None:
        return None
    if not text.strip():
        raise UsageError("subscribePattern is empty; use a regular expression.")
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"subscribePattern = {text!r} is not a regular expression: {error}.") from None
    return text


def _assigned(text: str) -> dict[str, list[int]]:
    error = UsageError(f'assign = {_short(text)} is invalid; use {{"orders":[0,1],"refunds":[2]}}.')
    topics = _json(text)
    if not isinstance(topics, dict) or not topics:
        raise error
    for partitions in topics.values():
        if not isinstance(partitions, list) or not all(map(_is_partition, partitions)):
            raise error
    return {str(topic): sorted(set(partitions)) for topic, partitions in topics.items() if partitions}


def _is_partition(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _starting(values: Mapping[str, Value], streaming: bool) -> PositionSpec:
    or_latest = _value(values, "startingOffsetsByTimestampStrategy") == "latest"
    by_time = _by_time(values, "startingTimestamp", "startingOffsetsByTimestamp", or_latest)
    if by_time is not None:
        return by_time
    spec = _by_offset(values, "startingOffsets", PositionKind.LATEST if streaming else PositionKind.EARLIEST)
    if not streaming and (spec.kind is PositionKind.LATEST or LATEST in spec.by_partition.values()):
        raise UsageError("startingOffsets cannot be latest (-1) for a batch: there would be nothing to read.")
    return spec


def _ending(values: Mapping[str, Value]) -> PositionSpec:
    by_time = _by_time(values, "endingTimestamp", "endingOffsetsByTimestamp", True)
    if by_time is not None:
        return by_time
    spec = _by_offset(values, "endingOffsets", PositionKind.LATEST)
    if spec.kind is PositionKind.EARLIEST or EARLIEST in spec.by_partition.values():
        raise UsageError("endingOffsets cannot be earliest (-2): there would be nothing to read.")
    return spec


def _by_time(values: Mapping[str, Value], for_all: str, for_each: str, or_latest: bool) -> PositionSpec | None:
    text = _text_of(values, for_all)
    if text is not None:
        if not text.strip().isdecimal():
            raise UsageError(f"{for_all} = {text!r} is not a timestamp; use milliseconds since 1970.")
        return PositionSpec(PositionKind.TIMESTAMP, for_all, timestamp=int(text), latest_if_no_match=or_latest)
    text = _text_of(values, for_each)
    if text is None:
        return None
    example = '{"orders":{"0":1700000000000}}, timestamps in milliseconds since 1970'
    by_partition = _per_partition(for_each, text, lowest=0, example=example)
    return PositionSpec(PositionKind.TIMESTAMPS, for_each, by_partition, latest_if_no_match=or_latest)


def _by_offset(values: Mapping[str, Value], name: str, default: PositionKind) -> PositionSpec:
    text = _text_of(values, name)
    if text is None:
        return PositionSpec(default, name)
    keyword = text.strip().lower()
    if keyword in ("earliest", "latest"):
        return PositionSpec(PositionKind(keyword), name)
    example = 'earliest, latest, or offsets, for example {"orders":{"0":23,"1":-2}}'
    return PositionSpec(PositionKind.OFFSETS, name, _per_partition(name, text, lowest=EARLIEST, example=example))


def _per_partition(name: str, text: str, *, lowest: int, example: str) -> dict[TopicPartition, int]:
    error = UsageError(f"{name} = {_short(text)} is invalid; use {example}.")
    topics = _json(text)
    if not isinstance(topics, dict) or not topics:
        raise error
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            raise error
        for partition, number in partitions.items():
            if not partition.isdecimal() or not isinstance(number, int) or isinstance(number, bool) or number < lowest:
                raise error
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError:
        return None
    return value


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
