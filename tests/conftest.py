"""Settings for all tests: behaviour numbers, skipped tests, Hypothesis, Ctrl-C.

A test marked `@pytest.mark.proves("JG-41", …)` proves that fact of docs/kafka-behaviours.md. If the environment
variable SLACKWATER_PROVEN names a file, the numbers of all tests that passed are written there when the run ends: a
JSON object, number -> tests, for `scripts/conformance.py --from`. A file of an earlier run is extended.

Tests marked `repetition` run the checks of other tests with one more client, version or order. They run only if `-m`
selects them, as in `make interop`.

With CI=true a skipped test is a failure. Otherwise the run ends with the reasons of all skipped tests; each names the
command that installs what is missing.

Hypothesis has no deadline per example, because the machine may be busy.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

VARIABLE = "SLACKWATER_PROVEN"

settings.register_profile("busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# A shell that starts the tests in the background makes them, and every program they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


IS_CI = os.environ.get("CI") == "true"


def pytest_configure(config: pytest.Config) -> None:
    """Register the collector of behaviour numbers in the process that receives every report."""
    path = os.environ.get(VARIABLE)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ProvenToFile(Path(path)), "slackwater-proven")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out repetitions, attach each test's behaviour numbers, and run the tests of an xdist group first.

    A group runs on one worker. If it came last, the other workers would wait for it.
    """
    if not config.option.markexpr:
        items[:] = [item for item in items if item.get_closest_marker("repetition") is None]
    for item in items:
        numbers = {number for marker in item.iter_markers("proves") for number in marker.args}
        item.user_properties += [("proves", number) for number in sorted(numbers)]
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true, turn a skipped test into a failed one."""
    report = yield
    return _fail_if_skipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """With CI=true, turn a module that skips itself into a failed one."""
    report = yield
    return _fail_if_skipped(report)


_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def _fail_if_skipped(report: _Report) -> _Report:
    if IS_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI=true does not allow: {_reason(report)}"
    return report


def _reason(report: object) -> str:
    longrepr = getattr(report, "longrepr", None)
    reason = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)
    return reason.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was skipped, and the command that adds it."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section("not tested on this machine")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} {'test' if count == 1 else 'tests'}: {reason}")


class ProvenToFile:
    """Collects the behaviour numbers of the tests that passed, and writes them to a file at the end."""

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
        earlier: dict[str, list[str]] = json.loads(self.path.read_text()) if self.path.exists() else {}
        found = {
            number: sorted({*earlier.get(number, ()), *self.tests.get(number, ())})
            for number in sorted(earlier.keys() | self.tests.keys())
        }
        self.path.write_text(json.dumps(found, indent=1) + "\n")
