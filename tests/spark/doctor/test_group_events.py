"""Events of `__group_events`, from the topic or a file."""

from typing import TYPE_CHECKING

from slackwater.group.events import EventKind, EventSource, GroupEvent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_events_of_a_group_have_one_cluster(spark: "SparkSession") -> None:
    from slackwater.spark.doctor.history.group_events import read_group_events

    events = [
        GroupEvent(
            time_ms=1, cluster="Xyz", group="g", kind=EventKind.GENERATION_FORMED, source=EventSource.COORDINATOR
        ),
        GroupEvent(time_ms=2, cluster=None, group="g", kind=EventKind.PARTITIONS_ASSIGNED, source=EventSource.MEMBER),
    ]
    rows = [("east", "__group_events", position, event.to_json()) for position, event in enumerate(events)]
    lines = spark.createDataFrame(rows, "cluster string, file string, position bigint, text string")
    assert [(row.cluster, row["group"]) for row in read_group_events(lines).collect()] == [("east", "g")] * 2
