"""The behaviour catalogue (docs/kafka-behaviours.md), the list of facts and the numbers in the code agree."""

import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CATALOGUE: Final = ROOT / "docs" / "kafka-behaviours.md"
FACTS: Final = ROOT / "tests" / "conformance" / "facts.toml"


def _facts() -> set[str]:
    return set(re.findall(r"^- ([A-Z]{2}-\d\d) ", CATALOGUE.read_text(), re.MULTILINE))


def test_fact_list_matches_catalogue() -> None:
    assert set(tomllib.loads(FACTS.read_text())) == _facts()


def test_cited_numbers_are_in_catalogue() -> None:
    facts = _facts()
    sections = "|".join(sorted({number[:2] for number in facts}))
    cited: dict[str, str] = {}
    for directory in ("src", "tests", "docs", "scripts", "benchmarks"):
        for path in (ROOT / directory).rglob("*"):
            if path.suffix in (".py", ".md"):
                numbers = re.findall(rf"\b(?:{sections})-\d\d\b", path.read_text(encoding="utf-8"))
                cited |= dict.fromkeys(numbers, str(path.relative_to(ROOT)))
    assert {number: path for number, path in cited.items() if number not in facts} == {}
