"""Which facts of the behaviour catalogue a test run has proven.

Every test marked `@pytest.mark.proves("JG-41", …)` carries those numbers in its reports, also from a worker of
pytest-xdist. If the environment variable SLACKWATER_PROVEN names a file, the numbers of all tests that passed are
written there when the run ends: a JSON object, number -> tests, for `scripts/conformance.py --from`.

Hypothesis judges no test by its time: a machine may be busy.

A shell that runs tests in the background has them ignore Ctrl-C, and so would every program that a test starts and then
interrupts. Here it counts again.
"""

import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

VARIABLE = "SLACKWATER_PROVEN"

settings.register_profile("busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Collect in the process that sees every report, if it was asked for."""
    path = os.environ.get(VARIABLE)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ProvenToFile(Path(path)), "slackwater-proven")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test's numbers to its reports."""
    for item in items:
        numbers = {number for marker in item.iter_markers("proves") for number in marker.args}
        item.user_properties += [("proves", number) for number in sorted(numbers)]


class ProvenToFile:
    """Keeps the numbers of the tests that passed, and writes them down at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has run."""
        if report.when == "call" and report.passed:
            for name, number in report.user_properties:
                if name == "proves":
                    self.tests.setdefault(str(number), []).append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """The run is over."""
        found = {number: sorted(tests) for number, tests in sorted(self.tests.items())}
        self.path.write_text(json.dumps(found, indent=1) + "\n")
