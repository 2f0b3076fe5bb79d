"""The doctor of the demo, in a Spark application of its own: asked for a group, it says what `slackwater doctor` says.

Rules kept here
- It reads what the cluster keeps, `__group_events` and `__consumer_offsets`, and knows nothing of the demo.
- JSON lines, as for the applications: `look`, `examine` and `end` come in; `ready` and the verdicts go out. The first
  `look` is at what is there already: Spark is quick from the second time on, and `ready` is said after it.
"""

import json
import os
import signal
import sys
from pathlib import Path

from slackwater.cli.demo.application import say, session
from slackwater.doctor.diagnosis import Patient
from slackwater.spark.doctor.job import diagnose
from slackwater.web.report import report


def main(directory: Path) -> None:
    """Be asked, and answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the demo's
    spark = session(directory)
    for line in sys.stdin:
        match json.loads(line):
            case {"do": "look", "patient": patient}:
                diagnose(spark, Patient(**patient))
                say("ready")
            case {"do": "examine", "patient": patient, "report": path}:
                found = diagnose(spark, Patient(**patient))
                Path(path).write_text(report(found.verdicts), encoding="utf-8")
                say("verdict", verdicts=[verdict.to_json() for verdict in found.verdicts])
            case {"do": "end"}:
                spark.stop()
                say("ended")
                os._exit(0)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
