"""The options of the source: Spark's names and meanings, and error messages."""

import pickle
import re

import pytest

from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.source.options import OPTIONS, PositionKind, SourceOptions

REQUIRED = {"kafka.bootstrap.servers": "here:9092", "subscribe": "orders"}
OFFSETS = '{"orders":{"0":23,"1":-2}}'


def parsed(streaming: bool = False, /, **options: str) -> SourceOptions:
    """Parse these options together with the required ones."""
    return SourceOptions.parse(REQUIRED | options, streaming=streaming)


def test_defaults_of_sparks_source() -> None:
    batch, stream = parsed(), parsed(True)
    assert (batch.starting.kind, batch.ending.kind) == (PositionKind.EARLIEST, PositionKind.LATEST)
    assert stream.starting.kind is PositionKind.LATEST
    assert batch.subscribe == ("orders",)
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert (stream.max_offsets_per_trigger, stream.min_offsets_per_trigger) == (None, None)
    assert stream.max_trigger_delay_ms == 15 * 60_000
    assert (stream.handover, stream.handover_timeout_ms) == ("wait", 10 * 60_000)
    assert (stream.stateful_handover, stream.on_offset_reset) == ("warn", "obey")
    assert (stream.group_id, stream.group_instance_id) == (None, None)
    assert stream.poll_timeout_ms == 120_000


def test_names_are_case_insensitive() -> None:
    options = SourceOptions.parse(
        {
            "KAFKA.BOOTSTRAP.SERVERS": "here:9092, there:9092",
            "kafka.group.id": "g",
            "kafka.group.instance.id": "one",
            "SubscribePattern": "orders.*",
            "INCLUDEHEADERS": "True",
            "failondataloss": "false",
            "maxoffsetspertrigger": "1000",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "30s",
            "handoverTimeout": "1h",
        },
        streaming=True,
    )
    assert options.kafka["bootstrap.servers"] == "here:9092, there:9092"
    assert (options.group_id, options.group_instance_id) == ("g", "one")
    assert options.subscribe_pattern == "orders.*"
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (1000, 10)
    assert (options.max_trigger_delay_ms, options.handover_timeout_ms) == (30_000, 3_600_000)


def test_offsets_and_timestamps_per_partition() -> None:
    offsets = parsed(startingOffsets=OFFSETS).starting
    assert offsets.kind is PositionKind.OFFSETS
    assert offsets.by_partition == {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): -2}
    times = parsed(endingOffsetsByTimestamp='{"orders":{"0":1700000000000}}').ending
    assert (times.kind, times.latest_if_no_match) == (PositionKind.TIMESTAMPS, True)
    assert times.by_partition == {TopicPartition("orders", 0): 1_700_000_000_000}


def test_precedence_of_starting_options() -> None:
    by_time = {"startingOffsetsByTimestamp": '{"orders":{"0":7}}'}
    assert parsed(startingTimestamp="5", startingOffsets=OFFSETS, **by_time).starting.timestamp == 5
    assert parsed(startingOffsets=OFFSETS, **by_time).starting.kind is PositionKind.TIMESTAMPS
    assert not parsed(startingTimestamp="5").starting.latest_if_no_match
    assert parsed(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest").starting.latest_if_no_match


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("250", 250), ("250ms", 250), ("2s", 2_000), ("3min", 180_000), ("1d", 86_400_000)]
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parsed(True, maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_options_can_be_pickled() -> None:
    options = parsed(startingOffsets=OFFSETS)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "latest"}, "startingOffset is not an option of this source; did you mean startingOffsets?"),
        ({"group.id": "g"}, "group.id is not an option of this source; did you mean kafka.group.id?"),
        ({"kafka.sesion.timeout.ms": "1"}, "kafka.sesion.timeout.ms is not a setting"),
        ({"kafka.sesion.timeout.ms": "1"}, "did you mean kafka.session.timeout.ms?"),
        ({"assign": '{"orders":[0]}'}, "subscribe and assign cannot be set together"),
        ({"startingOffsets": "first"}, "startingOffsets = 'first' is invalid; use earliest, latest, or offsets"),
        ({"startingOffsets": '{"orders":{"0":'}, 'startingOffsets = \'{"orders":{"0":\' is invalid'),
        ({"startingOffsets": '{"orders":{"x":1}}'}, "is invalid"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "is invalid"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest (-1) for a batch"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "startingOffsets cannot be latest (-1) for a batch"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp = 'yesterday' is not a timestamp"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay = 'soon' is not a duration"),
        ({"minPartitions": "-1"}, "minPartitions = -1 is too small"),
        ({"minPartitions": "many"}, "minPartitions = 'many' is not a whole number"),
        ({"includeHeaders": "perhaps"}, "includeHeaders = 'perhaps' is not true or false"),
        ({"handover": "drop"}, "handover = drop is unknown; use one of wait, release, handoff"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset cannot be set for this source: use starting"),
        ({"kafka.group.instance.id": "a"}, "kafka.group.instance.id requires kafka.group.id"),
        ({"kafka.bootstrap.servers": "here"}, "kafka.bootstrap.servers has 'here', which is not an address"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger = 9 is greater than"),
        ({"subscribe": " , "}, "contains no topic"),
    ],
)
def test_invalid_option(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        SourceOptions.parse(REQUIRED | options, streaming=False)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "No topics to read"),
        ({"subscribePattern": "orders("}, "subscribePattern = 'orders(' is not a regular expression"),
        ({"assign": '{"orders":0}'}, "is invalid; use"),
        ({"assign": '{"orders":[-1]}'}, "is invalid; use"),
    ],
)
def test_exactly_one_topic_option(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        SourceOptions.parse({"kafka.bootstrap.servers": "here:9092"} | options, streaming=False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_stream_rejects_ending_options(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be set for a stream"):
        parsed(True, **{name: "latest"})


def test_every_default_can_be_parsed() -> None:
    for settings in OPTIONS.values():
        for setting in settings:
            if setting.default != "":
                assert setting.parse(str(setting.default)) == setting.default


def test_application_is_the_default_client_id() -> None:
    default = SourceOptions.parse(REQUIRED, streaming=True, application="billing-app-1")
    assert (default.kafka["client.id"], default.application) == ("billing-app-1", "billing-app-1")
    chosen = SourceOptions.parse(REQUIRED | {"Kafka.Client.Id": "mine"}, streaming=True, application="billing-app-1")
    assert (chosen.kafka["client.id"], chosen.application) == ("mine", "")
