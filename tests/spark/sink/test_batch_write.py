"""`df.write.format("slackwater")` writes what Spark's Kafka sink writes, and fails with one sentence."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.sink.topics import Topics


def records(spark: SparkSession) -> DataFrame:
    """Records with all columns of the sink, and nulls in each that may have them."""
    return spark.range(500, numPartitions=2).selectExpr(
        "if(id % 5 = 0, null, concat('k', id % 40)) AS key",
        "if(id % 11 = 0, null, cast(repeat(concat('v', id), cast(id % 9 AS int)) AS binary)) AS value",
        "cast(if(id % 5 = 0, id % 3, null) AS int) AS partition",
        "CASE id % 4 WHEN 0 THEN null WHEN 1 THEN array() "
        "ELSE array(struct('source' AS key, cast('test' AS binary) AS value), "
        "struct('' AS key, if(id % 3 = 0, null, cast(cast(id AS string) AS binary)) AS value)) END AS headers",
    )


def test_records_equal_those_of_sparks_sink(spark: SparkSession, spark_source: str, topics: Topics) -> None:
    ours, theirs = topics.create("ours"), topics.create("theirs")
    for sink, topic in (("slackwater", ours), (spark_source, theirs)):
        topics.write(records(spark), sink, topic=topic, kafka_compression_type="zstd")
    written = [sorted(repr(row[1:]) for row in topics.read(topic)) for topic in (ours, theirs)]
    assert len(written[0]) == 500
    assert written[0] == written[1]

    copy = topics.create("copy")
    source = {"kafka.bootstrap.servers": topics.servers, "subscribe": ours, "includeHeaders": "true"}
    copied = spark.read.format("slackwater").options(**source).load()  # with offset, timestamp, timestampType
    topics.write(copied, "slackwater", topic=copy, includeHeaders="true")
    assert [row[1:] for row in topics.read(copy)] == [row[1:] for row in topics.read(ours)]


@pytest.mark.parametrize(
    ("expression", "mode", "sentence"),
    [
        ("'a' AS vlaue", "append", "vlaue is not a column of this sink, which writes value, key"),
        ("repeat('x', 2000000) AS value", "append", "bytes; kafka.max.request.size is 1048576. Raise it"),
        ("'a' AS value", "overwrite", 'A topic cannot be overwritten; use mode("append").'),
    ],
)
def test_wrong_input_is_one_sentence(
    spark: SparkSession, topics: Topics, expression: str, mode: str, sentence: str
) -> None:
    topic = topics.create("wrong")
    settings = {"kafka.bootstrap.servers": topics.servers, "topic": topic}
    with pytest.raises(PySparkException) as raised:
        spark.range(1).selectExpr(expression).write.format("slackwater").options(**settings).mode(mode).save()
    assert sentence in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert not topics.read(topic)
