"""What `register` does, in the user's process.

Rules kept here
- One control room and one listener for a Spark application, whatever number of its sessions are registered: queries of
  all sessions are heard by it. They end with Spark.
- Under Spark Connect the server's process is another one: the source is registered, and nobody listens.
- A Python of the workers that lacks this package is a common mistake, and is told before the first query fails on it.
"""

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slackwater.spark.source.data_source import SlackwaterDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.spark.member.control_server import ControlServer

log = logging.getLogger("slackwater.spark")
PYTHON: Final = "PYSPARK_PYTHON"


class _Listening:
    """The control room of this process, and the application it belongs to."""

    def __init__(self) -> None:
        self.application = ""
        self.room: ControlServer | None = None
        self.sessions: set[int] = set()


_listening = _Listening()


def register(spark: "SparkSession") -> None:
    """Make the source known, and listen where that can be."""
    room = _room(spark)
    source = SlackwaterDataSource if room is None else SlackwaterDataSource.with_control_server(room.address)
    spark.dataSource.register(source)


def _room(spark: Any) -> "ControlServer | None":
    """The application's control room; None under Spark Connect."""
    if not hasattr(spark, "_jsparkSession"):
        return None
    from slackwater.spark.member.control_server import ControlServer
    from slackwater.spark.member.query_listener import QueryListener, QueryMonitor

    _check_python(spark)
    application = str(spark.sparkContext.applicationId)
    if _listening.application != application:
        if _listening.room is not None:
            _listening.room.close()
        _listening.application, _listening.room, _listening.sessions = application, ControlServer(), set()
    room = _listening.room
    assert room is not None
    session = int(spark._jsparkSession.hashCode())
    if session not in _listening.sessions:
        _listening.sessions.add(session)
        spark.streams.addListener(QueryListener(room, QueryMonitor(spark, room)))
    return room


def _check_python(spark: Any) -> None:
    """Say so if the workers run another Python than this one."""
    workers = spark.conf.get("spark.pyspark.python", None) or os.environ.get(PYTHON) or "python3"
    same = Path(shutil.which(workers) or workers).parent == Path(sys.executable).parent
    if not same:
        log.warning(
            "Spark's workers run %s, and this process runs %s: slackwater must be installed in both. To use this one, "
            "set %s=%s before Spark starts.",
            workers,
            sys.executable,
            PYTHON,
            sys.executable,
        )
