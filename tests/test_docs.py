"""Every example in the documentation runs, and every link leads somewhere."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)\)")


def _blocks(page: Path, language: str) -> list[str]:
    return [code for found, code in _BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def _with(language: str) -> list[Path]:
    return [page for page in PAGES if _blocks(page, language)]


@pytest.mark.parametrize("page", _with("python"), ids=lambda page: page.name)
def test_the_python_examples_of_a_page_run_one_after_the_other(page: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    for code in _blocks(page, "python"):
        exec(compile(code, str(page), "exec"), names)


@pytest.mark.parametrize("page", _with("console"), ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path) -> None:
    for line in "\n".join(_blocks(page, "console")).splitlines():
        if line.startswith("$ make "):
            target = shlex.split(line, comments=True)[2]
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), line
        elif line.startswith("$ "):
            words = shlex.split(line[2:], comments=True)
            assert words[0] == "slackwater", line
            command = [sys.executable, "-c", "from slackwater.cli import main; main()", *words[1:]]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_to_files(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"
