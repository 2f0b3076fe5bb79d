"""Our own events, as a topic or a file has them."""

from typing import TYPE_CHECKING

from slackwater.group.events import EventKind, EventSource, GroupEvent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_coordinator_and_members_tell_of_a_group_is_of_one_cluster(spark: "SparkSession") -> None:
    from slackwater.spark.doctor.history.group_events import own_events

    told = [
        GroupEvent(
            time_ms=1, cluster="Xyz", group="g", kind=EventKind.GENERATION_FORMED, source=EventSource.COORDINATOR
        ),
        GroupEvent(time_ms=2, cluster=None, group="g", kind=EventKind.PARTITIONS_ASSIGNED, source=EventSource.MEMBER),
    ]
    rows = [("east", "__group_events", at, event.to_json()) for at, event in enumerate(told)]
    lines = spark.createDataFrame(rows, "cluster string, file string, position bigint, text string")
    assert [(row.cluster, row["group"]) for row in own_events(lines).collect()] == [("east", "g")] * 2
