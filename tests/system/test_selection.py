"""The selection of scenarios for `make test`."""

import subprocess
import sys

from tests.interop_heavy.client_process import ROOT
from tests.system.conftest import HERE, QUICK


def test_quick_scenarios_exist() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", str(HERE)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.rpartition("::")[2] for line in listed.splitlines()} >= QUICK
