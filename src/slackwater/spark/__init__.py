"""Spark applications as members of a consumer group: `slackwater.spark.register(spark)`, then `format("slackwater")`.

Rules kept here
- Importing this costs nothing: Spark's workers import it for every task.
- Registering twice does no harm.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make `format("slackwater")` known to this session.

    Beside that, this process listens to the session's queries from now on, and tells the members of groups among them
    when a batch has ended. Under Spark Connect the queries run elsewhere, and their members learn it from the next
    trigger.
    """
    from slackwater.spark.registration import register as registered

    registered(spark)
