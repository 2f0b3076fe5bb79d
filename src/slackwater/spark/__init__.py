"""Spark applications as members of a consumer group: `slackwater.spark.register(spark)`, then `format("slackwater")`.

Invariants:
- Importing this package loads nothing else: Spark's workers import it for every task.
- Registering a session twice has no effect.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry
    from pyspark.sql import SparkSession

__all__ = ["export_metrics", "register"]


def register(spark: "SparkSession") -> None:
    """Register `format("slackwater")` with this session.

    Also adds a listener to the session: it notifies queries that are group members when a batch has ended. Under Spark
    Connect the queries run in the server, and learn about the end of a batch from the next trigger.
    """
    from slackwater.spark.registration import register_session

    register_session(spark)


def export_metrics(
    spark: "SparkSession", *, registry: "CollectorRegistry | None" = None, cut_total: bool = False
) -> None:
    """Register the metrics of this session's group members with prometheus_client.

    The names are those of the JMX exporter for Java consumers, as for `Consumer`; `cut_total` drops `_total`.
    """
    from slackwater.spark.member.query_metrics import export

    export(spark, registry=registry, cut_total=cut_total)
