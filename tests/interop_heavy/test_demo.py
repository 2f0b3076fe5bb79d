"""`slackwater demo --fast` with Spark runs to its end."""

import re
from pathlib import Path

from slackwater.cli.demo import REPORT
from tests.cli.demo_process import demo_process, steps

DEADLINE_S = 900.0


def test_fast_demo_diagnoses_and_fixes_the_storm(tmp_path: Path) -> None:
    with demo_process(tmp_path, "--fast") as demo:
        out, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, out
    assert steps(out) == ["Share", "Scale-out", "Kill", "Storm", "Doctor", "Fix"]
    summary = out[out.index("Summary") :]
    records = re.search(r"Records: ([\d,]+) produced, ([\d,]+) read, 0 missing", summary)
    assert records is not None, summary
    assert records[1] == records[2] != "0"
    assert re.search(r"Doctor .*poll_delay, caused by app-2", summary), summary
    storm = re.search(r"removed \d times: ([\d.]+) rebalances per minute", summary)
    closing = re.search(r"Rebalances per minute: ([\d.]+) in the storm, 0.0 after the fix", summary)
    assert storm is not None, summary
    assert closing is not None, summary
    assert storm[1] == closing[1]
    assert [path.name for path in tmp_path.iterdir()] == [REPORT]
    assert "poll delay" in (tmp_path / REPORT).read_text()
