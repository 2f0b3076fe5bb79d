"""The options of the source, under the names and with the meanings of Spark's own Kafka source.

Rules kept here
- Names are read without regard to case, as Spark reads them. A name nobody knows is refused with the nearest known one.
- What Spark's own source takes is taken. What it takes and we have no use for changes nothing (`OptionGroup.IGNORED`).
- `kafka.` settings are the client's, without the prefix; the ones that Spark's own source refuses are refused here.
- A wrong value is one sentence: which option, what was seen, what to use.
- Parsing asks nobody: whether topics and offsets exist is found out later.
- Of several ways to say where to start, one counts: startingTimestamp, else startingOffsetsByTimestamp, else
  startingOffsets; and the same for the end.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import Final, Self

from slackwater.client.config import CONSUMER_SETTINGS, parse_settings
from slackwater.client.network.cluster import parse_bootstrap
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.settings import Setting, SettingType, Value, choice_setting, flag_setting, int_setting, long_setting

PREFIX: Final = "kafka."
LATEST: Final = -1
EARLIEST: Final = -2
SERVERS: Final = "bootstrap.servers"
# PositionKind the source itself decides, so that a setting could only mislead; with what to use instead.
REFUSED: Final = {
    "auto.offset.reset": "use startingOffsets.",
    "enable.auto.commit": "the source commits finished batches.",
    "interceptor.classes": "there are no interceptors here.",
    "key.deserializer": "keys are binary; decode them with DataFrame operations.",
    "value.deserializer": "values are binary; decode them with DataFrame operations.",
    "key.serializer": "keys are binary; decode them with DataFrame operations.",
    "value.serializer": "values are binary; decode them with DataFrame operations.",
}


class PositionKind(Enum):
    """What kind of places `PositionSpec` names."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"
    TIMESTAMPS = "timestamps"


@dataclass(frozen=True, slots=True)
class PositionSpec:
    """A place in every partition, as the user named it; `option` is the option that did."""

    where: PositionKind
    option: str
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets (-1 the end, -2 the beginning) or timestamps in milliseconds."""
    timestamp: int = 0
    latest_if_no_match: bool = False
    """Whether a time after the last record means the end; else it is an error."""


class OptionGroup(Enum):
    """What an option is about, in the order of the documentation."""

    TOPICS = "What is read"
    POSITIONS = "PositionKind it starts and ends"
    BATCHES = "How much at a time"
    RECORDS = "What comes out"
    GROUP = "In a group"
    IGNORED = "Taken, and without effect"


def _text(name: str, doc: str, default: str = "") -> Setting:
    return Setting(name=name, kind=SettingType.STRING, default=default, doc=doc)


OPTIONS: Final[dict[OptionGroup, tuple[Setting, ...]]] = {
    OptionGroup.TOPICS: (
        _text("subscribe", "Topics, with commas between them."),
        _text("subscribePattern", "A regular expression that the whole name of a topic must match."),
        _text("assign", 'Partitions: `{"orders":[0,1],"refunds":[2]}`.'),
    ),
    OptionGroup.POSITIONS: (
        _text(
            "startingOffsets",
            'earliest, latest (streams only), or offsets of all partitions: `{"orders":{"0":23,"1":-2}}`, where -2 is '
            "earliest and -1 latest. Without it a batch starts at earliest, a stream at latest.",
        ),
        _text("startingTimestamp", "Milliseconds since 1970: start at the first record that is as new."),
        _text("startingOffsetsByTimestamp", 'The same for each partition: `{"orders":{"0":1700000000000}}`.'),
        choice_setting(
            "startingOffsetsByTimestampStrategy",
            "error",
            ("error", "latest"),
            "What to do where no record is as new as the starting timestamp.",
        ),
        _text("endingOffsets", "latest (the default), or offsets of all partitions, -1 for latest; batches only."),
        _text("endingTimestamp", "Milliseconds since 1970: end before the first record that is as new; batches only."),
        _text("endingOffsetsByTimestamp", "The same for each partition; batches only."),
    ),
    OptionGroup.BATCHES: (
        long_setting("maxOffsetsPerTrigger", 0, "The most offsets of one micro-batch; 0 is no limit.", low=0),
        long_setting("minOffsetsPerTrigger", 0, "A micro-batch waits until there are so many offsets.", low=0),
        _text("maxTriggerDelay", "It waits no longer than this for minOffsetsPerTrigger.", "15m"),
        int_setting("minPartitions", 0, "Split partitions until there are at least so many tasks.", low=0),
        long_setting("maxRecordsPerPartition", 0, "The most offsets of one task; 0 is no limit.", low=0),
    ),
    OptionGroup.RECORDS: (
        flag_setting("includeHeaders", False, "Whether there is a headers column."),
        flag_setting("failOnDataLoss", True, "Whether records that are gone before they were read end the query."),
        long_setting("kafkaConsumer.pollTimeoutMs", 120_000, "How long a task may wait for data.", low=1),
    ),
    OptionGroup.GROUP: (
        choice_setting(
            "handover",
            "wait",
            ("wait", "release", "handoff"),
            "What becomes of a partition that must leave while the running batch contains it.",
        ),
        _text("handoverTimeout", "How long handover=wait waits before it acts as release.", "10m"),
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
            "What to do when an operator has moved the group's offset back.",
        ),
    ),
    OptionGroup.IGNORED: (
        int_setting("fetchOffset.numRetries", 3, "Offsets are asked for until kafka.default.api.timeout.ms is over."),
        long_setting("fetchOffset.retryIntervalMs", 1_000, "The pauses are kafka.retry.backoff.ms, and growing."),
        _text("groupIdPrefix", "Executors are in no group."),
    ),
}
_KNOWN: Final = {setting.name.lower(): setting for settings in OPTIONS.values() for setting in settings}
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_DURATION: Final = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?", re.IGNORECASE)
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What the user asked for; exactly one of `subscribe`, `subscribe_pattern` and `assign` is set."""

    kafka: dict[str, str]
    """The client's settings."""
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

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> Self:
        """Read the options of a query, or say what is wrong with them."""
        kafka, values = _checked(options)
        _check_ending(values, streaming)
        subscribe = _text_of(values, "subscribe")
        smallest, largest = _count(values, "minOffsetsPerTrigger"), _count(values, "maxOffsetsPerTrigger")
        if smallest and largest and smallest > largest:
            raise UsageError(
                f"minOffsetsPerTrigger = {smallest} is more than maxOffsetsPerTrigger = {largest}; make it smaller."
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
            max_offsets_per_trigger=largest,
            min_offsets_per_trigger=smallest,
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
        )

    @property
    def read_committed(self) -> bool:
        """Whether records of aborted transactions are left out."""
        return self.kafka.get("isolation.level") == "read_committed"


def check(options: Mapping[str, str]) -> None:
    """Find the mistakes that are mistakes in batches and streams alike."""
    _checked(options)


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether there is a headers column."""
    return bool(_value(_checked(options)[1], "includeHeaders"))


def _checked(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Value]]:
    """The client's settings, and the values of our options that were given."""
    kafka, words = _sorted_out(options)
    values = {setting.name: setting.parse(words[name]) for name, setting in _KNOWN.items() if name in words}
    _check_strategy(values)
    _check_kafka(kafka)
    return kafka, values


def _sorted_out(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The client's settings, and our options by their names in small letters."""
    kafka: dict[str, str] = {}
    words: dict[str, str] = {}
    for name, text in options.items():
        lowered = name.lower()
        if lowered.startswith(PREFIX):
            kafka[lowered.removeprefix(PREFIX)] = text
        elif lowered in _KNOWN:
            words[lowered] = text
        else:
            raise UsageError(f"{name} is no option of this source{_nearest(lowered)}")
    return kafka, words


def _nearest(lowered: str) -> str:
    near = {known: setting.name for known, setting in _KNOWN.items()}
    near |= {PREFIX + name: PREFIX + name for name in CONSUMER_SETTINGS}
    near |= {name: PREFIX + name for name in CONSUMER_SETTINGS}
    found = get_close_matches(lowered, near, n=1)
    return f"; did you mean {near[found[0]]}?" if found else "; docs/spark.md lists them all."


def _check_kafka(kafka: Mapping[str, str]) -> None:
    for name, instead in REFUSED.items():
        if name in kafka:
            raise UsageError(f"{PREFIX}{name} cannot be set for this source: {instead}")
    if not kafka.get(SERVERS, "").strip():
        raise UsageError(f"{PREFIX}{SERVERS} is missing; write host:port,host:port.")
    try:
        values = parse_settings(kafka, CONSUMER_SETTINGS, ignored=lambda _name: None)
        servers = values[SERVERS]
        assert isinstance(servers, tuple)
        parse_bootstrap(servers)
    except UsageError as error:
        raise UsageError(PREFIX + str(error).replace("did you mean ", f"did you mean {PREFIX}")) from None
    if kafka.get("group.instance.id") and not kafka.get("group.id"):
        raise UsageError(f"{PREFIX}group.instance.id needs {PREFIX}group.id: it names a member of a group.")


def _check_strategy(values: Mapping[str, Value]) -> None:
    given_ones = [name for name in _STRATEGIES if name in values]
    if len(given_ones) > 1:
        raise UsageError(f"{' and '.join(given_ones)} cannot be set together; use one of {', '.join(_STRATEGIES)}.")
    if not given_ones:
        raise UsageError(f"Nothing says which topics to read; set one of {', '.join(_STRATEGIES)}.")


def _check_ending(values: Mapping[str, Value], streaming: bool) -> None:
    for name in _ENDING:
        if streaming and name in values:
            raise UsageError(f"{name} cannot be set for a stream, which does not end; use spark.read, or leave it out.")


def _value(values: Mapping[str, Value], name: str) -> Value:
    return values.get(name, _KNOWN[name.lower()].default)


def _text_of(values: Mapping[str, Value], name: str) -> str | None:
    value = values.get(name)
    return None if value is None else str(value)


def _count(values: Mapping[str, Value], name: str) -> int | None:
    """A limit; nought is none."""
    return int(str(_value(values, name))) or None


def _duration(values: Mapping[str, Value], name: str) -> int:
    """Milliseconds of a duration as Spark writes it: 15m, 500ms, 1h; a bare number is milliseconds."""
    text = str(_value(values, name))
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{name} = {text!r} is no duration; write 500ms, 30s, 15m, 1h.")
    number, unit = int(found[1]), (found[2] or "ms").lower()
    return number // 1_000 if unit == "us" else number * _UNITS_MS[unit]


def _topics(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not names:
        raise UsageError(f"subscribe = {text!r} names no topic; write topic,topic.")
    return names


def _pattern(text: str | None) -> str | None:
    if text is None:
        return None
    if not text.strip():
        raise UsageError("subscribePattern is empty; write a regular expression.")
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"subscribePattern = {text!r} is no regular expression: {error}.") from None
    return text


def _assigned(text: str) -> dict[str, list[int]]:
    wrong = UsageError(f'assign = {_short(text)} is not partitions of topics; write {{"orders":[0,1],"refunds":[2]}}.')
    found = _json(text)
    if not isinstance(found, dict) or not found:
        raise wrong
    for partitions in found.values():
        if not isinstance(partitions, list) or not all(map(_is_partition, partitions)):
            raise wrong
    return {str(topic): sorted(set(partitions)) for topic, partitions in found.items() if partitions}


def _is_partition(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _starting(values: Mapping[str, Value], streaming: bool) -> PositionSpec:
    or_latest = _value(values, "startingOffsetsByTimestampStrategy") == "latest"
    by_time = _by_time(values, "startingTimestamp", "startingOffsetsByTimestamp", or_latest)
    if by_time is not None:
        return by_time
    found = _by_offset(values, "startingOffsets", PositionKind.LATEST if streaming else PositionKind.EARLIEST)
    if not streaming and (found.where is PositionKind.LATEST or LATEST in found.by_partition.values()):
        raise UsageError("startingOffsets of a batch cannot be latest (-1): there would be nothing to read.")
    return found


def _ending(values: Mapping[str, Value]) -> PositionSpec:
    by_time = _by_time(values, "endingTimestamp", "endingOffsetsByTimestamp", True)
    if by_time is not None:
        return by_time
    found = _by_offset(values, "endingOffsets", PositionKind.LATEST)
    if found.where is PositionKind.EARLIEST or EARLIEST in found.by_partition.values():
        raise UsageError("endingOffsets cannot be earliest (-2): there would be nothing to read.")
    return found


def _by_time(values: Mapping[str, Value], for_all: str, for_each: str, or_latest: bool) -> PositionSpec | None:
    text = _text_of(values, for_all)
    if text is not None:
        if not text.strip().isdecimal():
            raise UsageError(f"{for_all} = {text!r} is no time; write milliseconds since 1970.")
        return PositionSpec(PositionKind.TIMESTAMP, for_all, timestamp=int(text), latest_if_no_match=or_latest)
    text = _text_of(values, for_each)
    if text is None:
        return None
    example = '{"orders":{"0":1700000000000}}, times in milliseconds since 1970'
    by_partition = _per_partition(for_each, text, lowest=0, example=example)
    return PositionSpec(PositionKind.TIMESTAMPS, for_each, by_partition, latest_if_no_match=or_latest)


def _by_offset(values: Mapping[str, Value], name: str, default: PositionKind) -> PositionSpec:
    text = _text_of(values, name)
    if text is None:
        return PositionSpec(default, name)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return PositionSpec(PositionKind(word), name)
    example = 'earliest, latest, or offsets such as {"orders":{"0":23,"1":-2}}'
    return PositionSpec(PositionKind.OFFSETS, name, _per_partition(name, text, lowest=EARLIEST, example=example))


def _per_partition(name: str, text: str, *, lowest: int, example: str) -> dict[TopicPartition, int]:
    wrong = UsageError(f"{name} = {_short(text)} cannot be read; write {example}.")
    found = _json(text)
    if not isinstance(found, dict) or not found:
        raise wrong
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in found.items():
        if not isinstance(partitions, dict):
            raise wrong
        for partition, number in partitions.items():
            if not partition.isdecimal() or not isinstance(number, int) or isinstance(number, bool) or number < lowest:
                raise wrong
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def _json(text: str) -> object:
    try:
        found: object = json.loads(text)
    except ValueError:
        return None
    return found


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
