"""Spark applications as members of a consumer group: `slackwater.spark.register(spark)`, then `format("slackwater")`.

Invariants:
- Importing this package loads nothing else: Spark's workers import it for every task.
- Registering a session twice has no effect.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Register `format("slackwater")` with this session.

    Also adds a listener to the session: it notifies queries that are group members when a batch has ended. Under Spark
    Connect the queries run in the server, and learn about the end of a batch from the next trigger.
    """
    from slackwater.spark.registration import register_session

    register_session(spark)
