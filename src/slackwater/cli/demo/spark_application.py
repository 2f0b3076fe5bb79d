"""A child process with a Spark application: queries that are members of a group, or the doctor's job.

JSON lines on standard input are commands: `start` and `stop` a query, `diagnose` for the doctor, `end`.
JSON lines on standard output are messages and, for each finished batch, the ranges of offsets that the sink wrote. The
end of the input ends the process at once, because then the demo has gone.
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
from slackwater.cli.demo.read_counts import offset_ranges

# Short start, small footprint: several JVMs share this machine.
JVM_OPTIONS: Final = "-Xss4m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
# Spark allows a new Python worker ten seconds to connect. A busy machine may need more: start the query again.
WORKER_TIMEOUT: Final = "failed to connect back"


class Application:
    """A Spark driver and its queries, by group."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._queries: dict[str, StreamingQuery] = {}
        self._stopping: set[str] = set()
        slackwater.spark.register(spark)

    def start(self, group: str, options: dict[str, str], checkpoint: str, trigger: str, sink_s: float) -> None:
        """Start the group's query; it resumes from its checkpoint."""
        self._stopping.discard(group)
        records = self._spark.readStream.format("slackwater").options(**options).load()
        writer = (
            records.select("topic", "partition", "offset")
            .writeStream.foreachBatch(lambda batch, _batch_id: write_batch(group, batch, sink_s))
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=trigger)
        )
        self._queries[group] = writer.start()
        threading.Thread(target=self._await_termination, args=(group, writer), daemon=True).start()
        send("started", group=group)

    def stop(self, group: str) -> None:
        """Stop the group's query."""
        self._stopping.add(group)
        self._queries.pop(group).stop()
        send("stopped", group=group)

    def end(self) -> None:
        """Stop all queries at the same time, because each waits for its batch, then Spark."""
        threads = [threading.Thread(target=self.stop, args=(group,)) for group in list(self._queries)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._spark.stop()

    def _await_termination(self, group: str, writer: Any) -> None:
        query = self._queries[group]
        while True:
            try:
                query.awaitTermination()
                return
            except StreamingQueryException as error:
                if group in self._stopping:
                    return
                if WORKER_TIMEOUT not in str(error):
                    send("failed", group=group, reason=str(error).splitlines()[0])
                    return
            send("restarted", group=group)
            query = self._queries[group] = writer.start()


def create_session(directory: Path) -> SparkSession:
    """A local Spark session that keeps its files in this directory."""
    spark = (
        SparkSession.builder.master("local[1]")
        .appName("slackwater demo")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"{JVM_OPTIONS} -Djava.io.tmpdir={directory}")
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


def write_batch(group: str, batch: DataFrame, sink_s: float) -> None:
    """The sink: report the batch's records when it is done. A slow sink takes `sink_s` seconds first."""
    rows = [(row.topic, row.partition, row.offset) for row in batch.collect()]
    if rows and sink_s:
        time.sleep(sink_s)
    print_lines({"group": group, **read} for read in offset_ranges(rows))


def diagnose(spark: SparkSession, request: dict[str, Any], report: str) -> None:
    """Run the doctor's job as `slackwater doctor` does, write its report and send the verdicts."""
    from slackwater.doctor.diagnosis import DiagnosisRequest
    from slackwater.spark.doctor.job import diagnose as run_job
    from slackwater.web.report import report as render_report

    diagnosis = run_job(spark, DiagnosisRequest(**request))
    if report:
        Path(report).write_text(render_report(diagnosis.verdicts), encoding="utf-8")
    send("diagnosed", verdicts=[verdict.to_json() for verdict in diagnosis.verdicts])


def send(message: str, **fields: object) -> None:
    """Send a message to the demo."""
    print_lines([{"message": message, **fields}])


def print_lines(lines: Iterable[dict[str, object]]) -> None:
    """Write JSON lines unbuffered: the process may be killed next."""
    if text := "".join(json.dumps(line) + "\n" for line in lines):
        os.write(1, text.encode())


def main(directory: Path) -> None:
    """Execute commands until the end of the input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the demo, which ends its children
    spark = create_session(directory)
    application = Application(spark)
    send("ready")
    for line in sys.stdin:
        match json.loads(line):
            case {"command": "start", "query": query}:
                application.start(**query)
            case {"command": "stop", "group": group}:
                application.stop(group)
            case {"command": "diagnose", "request": request, "report": report}:
                diagnose(spark, request, report)
            case {"command": "end"}:
                application.end()
                send("ended")
                os._exit(0)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
