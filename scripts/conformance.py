"""Reports which facts of docs/kafka-behaviours.md are proven by a passing test.

    python scripts/conformance.py                 run the tests with a `proves` marker and report
    python scripts/conformance.py --from FILE     report from a file of a test run (SLACKWATER_PROVEN=FILE pytest …)
    python scripts/conformance.py --list          also list the tests of each fact

`tests/conformance/facts.toml` lists the facts and when each is due. Exit code 0: every due fact is proven. 1: a due
fact is not proven, or a test names an unknown fact. 2: the tests could not run.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, get_args

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
FACTS: Final = ROOT / "tests" / "conformance" / "facts.toml"
DUE_NOW: Final = frozenset({"core", "broker"})
# In the catalogue's order.
SECTIONS: Final = (
    *("ST", "JG", "SG", "HB", "LG", "OC", "OF", "EX", "TX", "SE", "CO", "CL"),
    *("AS", "RA", "RR", "SK", "CS", "LS", "UA", "CG", "UP", "AD", "SY", "AC"),
)

Due = Literal["core", "broker", "later"]
Facts = Mapping[str, Due]
Proofs = Mapping[str, list[str]]


def read_facts(path: Path = FACTS) -> Facts:
    """Return every fact and when it is due."""
    facts: dict[str, Due] = {}
    for number, entry in tomllib.loads(path.read_text()).items():
        due = entry.get("due")
        if due not in get_args(Due):
            raise SystemExit(f"{path}: {number} is due {due!r}; expected one of {', '.join(get_args(Due))}")
        facts[number] = due
    return facts


class Collector:
    """A pytest plugin that collects the facts of passed tests and of all tests."""

    def __init__(self) -> None:
        self.proofs: dict[str, list[str]] = {}
        self.named: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Collect the facts that the tests name."""
        for item in items:
            for marker in item.iter_markers("proves"):
                self.named.update(marker.args)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the facts of a passed test, which `tests/conftest.py` adds to its report."""
        if report.when == "call" and report.passed:
            for name, number in report.user_properties:
                if name == "proves":
                    self.proofs.setdefault(str(number), []).append(report.nodeid)


def run_tests() -> tuple[Proofs, set[str]]:
    """Run the tests with a `proves` marker; return the proven facts and all named facts."""
    collector = Collector()
    options = ["-q", "--no-header", "--tb=line", "-m", "proves", f"--rootdir={ROOT}", str(ROOT / "tests")]
    code = pytest.main(options, [collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        print(f"conformance: pytest ended with {code!r}; see above", file=sys.stderr)
        raise SystemExit(2)
    return collector.proofs, collector.named


def read_proofs(path: Path) -> Proofs:
    """Read the proven facts of an earlier test run."""
    try:
        proofs: Proofs = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        print(f"conformance: {path} does not contain proven facts: {error}", file=sys.stderr)
        print(f"             Write it with SLACKWATER_PROVEN={path} pytest.", file=sys.stderr)
        raise SystemExit(2) from error
    return proofs


def order(number: str) -> tuple[int, str]:
    """Return a sort key for the order of the catalogue."""
    return SECTIONS.index(number.partition("-")[0]), number


def table(facts: Facts, proofs: Proofs) -> str:
    """Return a table with one line per section: facts due now, proven, and due later."""
    lines = [f"{'':10}{'due now':>8}{'proven':>8}{'later':>8}"]
    totals = [0, 0, 0]
    for prefix in SECTIONS:
        section = [(number, due) for number, due in facts.items() if number.partition("-")[0] == prefix]
        now = [number for number, due in section if due in DUE_NOW]
        row = [
            len(now),
            sum(number in proofs for number in now),
            sum(due == "later" for _, due in section),
        ]
        totals = [total + count for total, count in zip(totals, row, strict=True)]
        lines.append(f"{prefix:10}" + "".join(f"{count:>8}" for count in row))
    lines.append(f"{'all':10}" + "".join(f"{total:>8}" for total in totals))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the report; return 0 if every due fact is proven."""
    parser = argparse.ArgumentParser(description="Report which facts of the behaviour catalogue the tests prove.")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="read the proven facts of a test run")
    parser.add_argument("--list", action="store_true", help="list the tests that prove each fact")
    options = parser.parse_args(arguments)

    facts = read_facts()
    if options.source is None:
        proofs, named = run_tests()
        named |= set(proofs)
    else:
        proofs = read_proofs(options.source)
        named = set(proofs)

    if options.list:
        for number in sorted(set(facts) & set(proofs), key=order):
            print(number, *(f"\n    {test}" for test in sorted(proofs[number])), sep="")
        print()
    print(table(facts, proofs))

    unknown = sorted(named - set(facts))
    unproven = sorted((number for number, due in facts.items() if due in DUE_NOW and number not in proofs), key=order)
    due = sum(due in DUE_NOW for due in facts.values())
    print(f"\n{due - len(unproven)} of {due} facts due now are proven.")
    if unproven:
        print("Without a passing test:", " ".join(unproven))
    if unknown:
        print("Named by a test but not in the catalogue:", " ".join(unknown))
    return 1 if unproven or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
