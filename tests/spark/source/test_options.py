"""The options of the source: Spark's names and meanings, and one sentence for every mistake."""

import pickle
import re

import pytest

from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.source.options import OPTIONS, PositionKind, SourceOptions

LEAST = {"kafka.bootstrap.servers": "here:9092", "subscribe": "orders"}
OFFSETS = '{"orders":{"0":23,"1":-2}}'


def parsed(streaming: bool = False, /, **options: str) -> SourceOptions:
    """These options, beside the least that there must be."""
    return SourceOptions.parse(LEAST | options, streaming=streaming)


def test_what_is_not_said_is_as_in_sparks_own_source() -> None:
    batch, stream = parsed(), parsed(True)
    assert (batch.starting.where, batch.ending.where) == (PositionKind.EARLIEST, PositionKind.LATEST)
    assert stream.starting.where is PositionKind.LATEST
    assert batch.subscribe == ("orders",)
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert (stream.max_offsets_per_trigger, stream.min_offsets_per_trigger) == (None, None)
    assert stream.max_trigger_delay_ms == 15 * 60_000
    assert (stream.handover, stream.handover_timeout_ms) == ("wait", 10 * 60_000)
    assert (stream.stateful_handover, stream.on_offset_reset) == ("warn", "obey")
    assert (stream.group_id, stream.group_instance_id) == (None, None)
    assert stream.poll_timeout_ms == 120_000


def test_names_are_read_in_any_case_and_settings_lose_their_prefix() -> None:
    found = SourceOptions.parse(
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
    assert found.kafka["bootstrap.servers"] == "here:9092, there:9092"
    assert (found.group_id, found.group_instance_id) == ("g", "one")
    assert found.subscribe_pattern == "orders.*"
    assert found.include_headers
    assert not found.fail_on_data_loss
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger) == (1000, 10)
    assert (found.max_trigger_delay_ms, found.handover_timeout_ms) == (30_000, 3_600_000)


def test_offsets_and_times_name_partitions() -> None:
    one = parsed(startingOffsets=OFFSETS).starting
    assert one.where is PositionKind.OFFSETS
    assert one.by_partition == {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): -2}
    times = parsed(endingOffsetsByTimestamp='{"orders":{"0":1700000000000}}').ending
    assert (times.where, times.latest_if_no_match) == (PositionKind.TIMESTAMPS, True)
    assert times.by_partition == {TopicPartition("orders", 0): 1_700_000_000_000}


def test_a_time_for_all_comes_before_times_and_times_before_offsets() -> None:
    by_time = {"startingOffsetsByTimestamp": '{"orders":{"0":7}}'}
    assert parsed(startingTimestamp="5", startingOffsets=OFFSETS, **by_time).starting.timestamp == 5
    assert parsed(startingOffsets=OFFSETS, **by_time).starting.where is PositionKind.TIMESTAMPS
    assert not parsed(startingTimestamp="5").starting.latest_if_no_match
    assert parsed(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest").starting.latest_if_no_match


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("250", 250), ("250ms", 250), ("2s", 2_000), ("3min", 180_000), ("1d", 86_400_000)]
)
def test_durations_are_written_as_in_spark(text: str, milliseconds: int) -> None:
    assert parsed(True, maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_options_travel_to_executors() -> None:
    found = parsed(startingOffsets=OFFSETS)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffset": "latest"}, "startingOffset is no option of this source; did you mean startingOffsets?"),
        ({"group.id": "g"}, "group.id is no option of this source; did you mean kafka.group.id?"),
        ({"kafka.sesion.timeout.ms": "1"}, "kafka.sesion.timeout.ms is no setting"),
        ({"kafka.sesion.timeout.ms": "1"}, "did you mean kafka.session.timeout.ms?"),
        ({"assign": '{"orders":[0]}'}, "subscribe and assign cannot be set together"),
        ({"startingOffsets": "first"}, "startingOffsets = 'first' cannot be read; write earliest, latest, or offsets"),
        ({"startingOffsets": '{"orders":{"0":'}, 'startingOffsets = \'{"orders":{"0":\' cannot be read'),
        ({"startingOffsets": '{"orders":{"x":1}}'}, "cannot be read"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "cannot be read"),
        ({"startingOffsets": "latest"}, "startingOffsets of a batch cannot be latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "startingOffsets of a batch cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp = 'yesterday' is no time"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay = 'soon' is no duration"),
        ({"minPartitions": "-1"}, "minPartitions = -1 is too small"),
        ({"minPartitions": "many"}, "minPartitions = 'many' is not a whole number"),
        ({"includeHeaders": "perhaps"}, "includeHeaders = 'perhaps' is not true or false"),
        ({"handover": "drop"}, "handover = drop is unknown; use one of wait, release, handoff"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset cannot be set for this source: use starting"),
        ({"kafka.group.instance.id": "a"}, "kafka.group.instance.id needs kafka.group.id"),
        ({"kafka.bootstrap.servers": "here"}, "kafka.bootstrap.servers has 'here', which is no address"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger = 9 is more than"),
        ({"subscribe": " , "}, "names no topic"),
    ],
)
def test_a_mistake_is_one_sentence(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        SourceOptions.parse(LEAST | options, streaming=False)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Nothing says which topics to read"),
        ({"subscribePattern": "orders("}, "subscribePattern = 'orders(' is no regular expression"),
        ({"assign": '{"orders":0}'}, "is not partitions of topics"),
        ({"assign": '{"orders":[-1]}'}, "is not partitions of topics"),
    ],
)
def test_what_is_read_must_be_said_in_one_way(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        SourceOptions.parse({"kafka.bootstrap.servers": "here:9092"} | options, streaming=False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be set for a stream"):
        parsed(True, **{name: "latest"})


def test_every_option_has_a_default_that_can_be_read() -> None:
    for settings in OPTIONS.values():
        for setting in settings:
            if setting.default != "":
                assert setting.parse(str(setting.default)) == setting.default
