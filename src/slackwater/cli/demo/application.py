"""A PySpark application of the demo: queries on one topic, each a member of a group, and a sink that keeps a ledger.

Rules kept here
- It is what a user would write: `register`, `readStream.format("slackwater")`, `foreachBatch`. The demo's own part is
  how it is told what to do.
- JSON lines on standard input: `start` a query, `stop` one, `end`. The end of the input ends it at once: the demo died.
- JSON lines on standard output: `ready`, `started`, `stopped`, and the ledger, which is what the sink wrote: a line
  for each run of offsets of each finished batch, with the group whose batch it was.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import slackwater.spark
from slackwater.cli.demo.ledger import runs

JVM: Final = "-Xss4m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Quick to start, and light on a machine that runs several."""
# Spark gives a new Python process ten seconds to say hello. On a machine that is too busy for that, again.
NO_HELLO: Final = "failed to connect back"


class Application:
    """One driver, and its queries by group."""

    def __init__(self, directory: Path) -> None:
        self._queries: dict[str, StreamingQuery] = {}
        self._told_to_stop: set[str] = set()
        self._spark = session(directory)
        slackwater.spark.register(self._spark)

    def start(self, group: str, options: dict[str, str], checkpoint: str, trigger: str, slow_s: float) -> None:
        """Start the group's query; it goes on where its checkpoint ends."""
        self._told_to_stop.discard(group)
        records = self._spark.readStream.format("slackwater").options(**options).load()
        writer = (
            records.select("topic", "partition", "offset")
            .writeStream.foreachBatch(lambda batch, _number: write(group, batch, slow_s))
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=trigger)
        )
        self._queries[group] = writer.start()
        threading.Thread(target=self._follow, args=(group, writer), daemon=True).start()
        say("started", group=group)

    def stop(self, group: str) -> None:
        """Stop the group's query."""
        self._told_to_stop.add(group)
        self._queries.pop(group).stop()
        say("stopped", group=group)

    def end(self) -> None:
        """Stop everything; queries at the same time, for each of them waits for its batch."""
        stops = [threading.Thread(target=self.stop, args=(group,)) for group in list(self._queries)]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()
        self._spark.stop()

    def _follow(self, group: str, writer: Any) -> None:
        """See a query to its end."""
        query = self._queries[group]
        while True:
            try:
                query.awaitTermination()
                return
            except StreamingQueryException as error:
                if group in self._told_to_stop:
                    return
                if NO_HELLO not in str(error):
                    say("failed", group=group, why=str(error).splitlines()[0])
                    return
            query = self._queries[group] = writer.start()


def session(directory: Path) -> SparkSession:
    """A small Spark of its own, which keeps its files in a directory of its own."""
    spark = (
        SparkSession.builder.master("local[1]")
        .appName("slackwater demo")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"{JVM} -Djava.io.tmpdir={directory}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.local.dir", str(directory))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write(group: str, batch: DataFrame, slow_s: float) -> None:
    """The sink: a batch is in the ledger when it is done. A slow one takes its time first."""
    rows = [(row.topic, row.partition, row.offset) for row in batch.collect()]
    if rows and slow_s:
        time.sleep(slow_s)
    tell({"group": group, **run} for run in runs(rows))


def say(what: str, **more: object) -> None:
    """Tell the demo how far this is."""
    tell([{"say": what, **more}])


def tell(lines: Iterable[dict[str, object]]) -> None:
    """Write lines, at once: the next moment may be the last."""
    if text := "".join(json.dumps(line) + "\n" for line in lines):
        os.write(1, text.encode())


def main(directory: Path) -> None:
    """Be told, and do it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the demo's, which ends its applications
    application = Application(directory)
    say("ready")
    for line in sys.stdin:
        match json.loads(line):
            case {"do": "start", "query": query}:
                application.start(**query)
            case {"do": "stop", "group": group}:
                application.stop(group)
            case {"do": "end"}:
                application.end()
                say("ended")
                os._exit(0)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
