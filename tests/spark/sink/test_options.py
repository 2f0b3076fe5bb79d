"""The options of the sink."""

import pytest

from slackwater.group.errors import UsageError
from slackwater.spark.sink.columns import SinkColumns
from slackwater.spark.sink.exactly_once import ExactlyOnceStreamWriter
from slackwater.spark.sink.options import DeliveryGuarantee, SinkOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
EXACTLY_ONCE = {"delivery": "exactly_once", "transactionalIdPrefix": "p"}


def test_defaults() -> None:
    options = SinkOptions.parse(SERVERS)
    assert options.topic is None
    assert options.delivery is DeliveryGuarantee.AT_LEAST_ONCE
    assert (options.batch_bytes, options.sticky_bytes, options.codec) == (524_288, 16_384, "none")


def test_names_are_case_insensitive_and_spark_adds_its_own() -> None:
    given = {"TOPIC": "orders", "Kafka.Batch.Size": "1000", "kafka.compression.type": "lz4", "includeheaders": "true"}
    options = SinkOptions.parse(SERVERS | given | {"checkpointLocation": "/tmp/x", "queryName": "q", "path": "x"})
    assert (options.topic, options.batch_bytes, options.sticky_bytes, options.codec) == ("orders", 1_000, 1_000, "lz4")


def test_exactly_once() -> None:
    options = SinkOptions.parse(SERVERS | EXACTLY_ONCE | {"acceptLostBatch": "7"})
    assert options.is_exactly_once
    assert (options.transactional_id_prefix, options.accept_lost_batch) == ("p", 7)
    assert options.decision_topic == "__slackwater_sink_decisions"


def test_stream_needs_the_control_server() -> None:
    with pytest.raises(UsageError, match="exactly_once needs slackwater"):
        ExactlyOnceStreamWriter(SinkOptions.parse(SERVERS | EXACTLY_ONCE), SinkColumns(value=0), None)


def test_client_id_names_the_application() -> None:
    assert SinkOptions.parse(SERVERS, application="billing").kafka["client.id"] == "billing"
    named = SinkOptions.parse(SERVERS | {"kafka.client.id": "mine"}, application="billing")
    assert named.kafka["client.id"] == "mine"


def test_secrets_are_not_shown() -> None:
    secret = {"kafka.sasl.password": "hunter2", "kafka.sasl.username": "ann"}
    assert "hunter2" not in repr(SinkOptions.parse(SERVERS | secret))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tpoic": "t"}, "tpoic is not an option of this sink; did you mean topic?"),
        ({"batch.size": "1"}, "did you mean kafka.batch.size?"),
        ({"zzz": "1"}, "see docs/spark-sink-options.md."),
        ({"delivery": "once"}, "delivery"),
        ({"kafka.acks": "2"}, "kafka.acks"),
        (
            {"delivery": "exactly_once"},
            "delivery=exactly_once requires transactionalIdPrefix; use a name that only this",
        ),
        ({"transactionalIdPrefix": "p"}, "transactionalIdPrefix is for delivery=exactly_once; set that, or remove"),
        (EXACTLY_ONCE | {"kafka.acks": "1"}, "delivery=exactly_once requires kafka.acks=all"),
        (EXACTLY_ONCE | {"kafka.enable.idempotence": "false"}, "delivery=exactly_once requires kafka.acks=all"),
        (EXACTLY_ONCE | {"acceptLostBatch": "x"}, "acceptLostBatch"),
        ({"kafka.compresion.type": "lz4"}, "did you mean kafka.compression.type?"),
        ({"kafka.transactional.id": "x"}, "kafka.transactional.id cannot be set for this sink"),
        ({"kafka.key.serializer": "x"}, "kafka.key.serializer cannot be set for this sink: keys are string or binary"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing; use host:port,host:port."),
        ({"kafka.bootstrap.servers": "nowhere"}, "kafka.bootstrap.servers has 'nowhere', which is not an address"),
    ],
)
def test_wrong_options_are_one_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        SinkOptions.parse(SERVERS | given)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
