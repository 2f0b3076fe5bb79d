"""Three Spark applications in one group write exactly once, while they are killed and restarted."""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.interop_heavy.exactly_once_oracle import ExactlyOnceRun
from tests.interop_heavy.restartable_brokers import APACHE, SLACKWATER, started_broker

SEED: Final = int(os.environ.get("EXACTLY_ONCE_SEED", "19"))
RECORDS: Final = int(os.environ.get("EXACTLY_ONCE_RECORDS", "50000"))
FAULTS: Final = int(os.environ.get("EXACTLY_ONCE_FAULTS", "30"))


@pytest.mark.parametrize("kind", [SLACKWATER, APACHE])
def test_every_record_is_written_once(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def log(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)

    with started_broker(kind, tmp_path) as broker:
        run = ExactlyOnceRun(broker.bootstrap, tmp_path, seed=SEED, applications=3, log=log)
        log(f"{kind}: {run.run(RECORDS, FAULTS)}")
        broker.check()
