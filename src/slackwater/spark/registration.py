"""Registers the data source and the query listener with a Spark session.

Invariants:
- One control server and one listener per Spark application and session. They end with the application.
- Under Spark Connect only the data source is registered: the queries run in the server's process.
- Default client ids contain the application, so that logs, metrics and `groups describe` tell applications apart.
- If the workers run another Python, a warning appears before the first query fails.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.spark.member.control_server import ControlServer

log = get_logger("slackwater.spark")
PYSPARK_PYTHON: Final = "PYSPARK_PYTHON"
MIN_VERSION: Final = (4, 3)
_NOT_IN_CLIENT_ID: Final = re.compile(r"[^A-Za-z0-9._-]+")


class _Registration:
    """The Spark application of this process, its control server and its registered sessions."""

    def __init__(self) -> None:
        self.application_id = ""
        self.server: ControlServer | None = None
        self.sessions: set[int] = set()


_registration = _Registration()


def register_session(spark: "SparkSession") -> None:
    """Register the data source, and a listener unless this is Spark Connect."""
    _check_version(str(spark.version))
    from slackwater.spark.clients.settings import shipped_files
    from slackwater.spark.data_source import SlackwaterDataSource

    server = _control_server(spark)
    control = server.address if server is not None else None
    spark.dataSource.register(SlackwaterDataSource.of_application(_application(spark), control, shipped_files()))


def _check_version(version: str) -> None:
    numbers = tuple(int(word) for word in re.findall(r"\d+", version)[:2])
    if numbers < MIN_VERSION:
        needed = ".".join(map(str, MIN_VERSION))
        raise UsageError(
            f"This is Spark {version}; slackwater.spark needs Spark {needed} or newer: pip install 'slackwater[spark]'."
        )


def _application(spark: Any) -> str:
    """Return the application in the default client ids of its queries: its name and its id."""
    words = (spark.conf.get("spark.app.name", ""), spark.conf.get("spark.app.id", ""))
    return _NOT_IN_CLIENT_ID.sub("-", "-".join(word for word in words if word))


def _control_server(spark: Any) -> "ControlServer | None":
    """Return the application's control server; None under Spark Connect."""
    if not hasattr(spark, "_jsparkSession"):
        return None
    from slackwater.spark.member.control_server import ControlServer
    from slackwater.spark.member.query_listener import QueryListener, QueryMonitor

    _check_python(spark)
    application_id = str(spark.sparkContext.applicationId)
    if _registration.application_id != application_id:
        if _registration.server is not None:
            _registration.server.close()
        _registration.application_id, _registration.server = application_id, ControlServer()
        _registration.sessions = set()
    server = _registration.server
    assert server is not None
    session = int(spark._jsparkSession.hashCode())
    if session not in _registration.sessions:
        _registration.sessions.add(session)
        spark.streams.addListener(QueryListener(server, QueryMonitor(spark, server)))
    return server


def _check_python(spark: Any) -> None:
    """Warn if the workers run another Python than this process.

    The path of a shipped environment is relative to the working directory, in the driver and in every executor.
    """
    workers = spark.conf.get("spark.pyspark.python", None) or os.environ.get(PYSPARK_PYTHON) or "python3"
    if Path(shutil.which(workers) or workers).absolute().parent != Path(sys.executable).parent:
        log.warning(
            "Spark's workers run %s, but this process runs %s. Install slackwater in both, or set %s=%s before Spark "
            "starts.",
            workers,
            sys.executable,
            PYSPARK_PYTHON,
            sys.executable,
        )
