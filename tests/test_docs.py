"""Every example in the documentation runs, and every link leads somewhere."""

import ast
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import timeouts_figure as figure

from slackwater import Broker

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]+))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")
_PORT = re.compile(r"(127\.0\.0\.1):\d+")
_CODE = re.compile(r"`([\w/]+\.py):([\w.]+)`")
_TEST = re.compile(r"^def test_", re.MULTILINE)
RUN_S = 180.0


def _blocks(page: Path, language: str) -> list[str]:
    return [code for found, code in _BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def _with(language: str) -> list[Path]:
    return [page for page in PAGES if _blocks(page, language)]


def _tests(page: Path) -> bool:
    return any(_TEST.search(code) for code in _blocks(page, "python"))


@pytest.mark.parametrize("page", [page for page in _with("python") if not _tests(page)], ids=lambda page: page.name)
def test_python_examples_run(page: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    for code in _blocks(page, "python"):
        exec(compile(code, str(page), "exec"), names)


@pytest.mark.parametrize("page", [page for page in _with("python") if _tests(page)], ids=lambda page: page.name)
def test_example_tests_pass(page: Path, tmp_path: Path) -> None:
    (tmp_path / "test_page.py").write_text("\n\n".join(_blocks(page, "python")), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_page.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=RUN_S)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", _with("console"), ids=lambda page: page.name)
def test_shell_examples_run(page: Path, tmp_path: Path, cluster: dict[str, str]) -> None:
    for line in "\n".join(_blocks(page, "console")).splitlines():
        if line.startswith("$ make "):
            target = shlex.split(line, comments=True)[2]
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), line
        elif line.startswith("$ "):
            words = shlex.split(line[2:], comments=True)
            read = b""
            if "|" in words:
                at = words.index("|")
                read = subprocess.run(words[:at], cwd=tmp_path, capture_output=True, check=True, timeout=RUN_S).stdout
                words = words[at + 1 :]
            assert words[0] == "slackwater", line
            written = tmp_path / words.pop() if words[-2] == ">" and words.pop(-2) else None
            command = [sys.executable, "-c", "from slackwater.cli import main; main()", *words[1:]]
            if words[1] == "broker":
                _start_and_stop([_PORT.sub(r"\1:0", word) for word in command], tmp_path)
                continue
            done = subprocess.run(
                command, cwd=tmp_path, input=read, capture_output=True, check=False, timeout=RUN_S, env=cluster
            )
            assert done.returncode == 0, done.stderr.decode()
            if written is not None:
                written.write_bytes(done.stdout)


@pytest.fixture
def cluster() -> Iterator[dict[str, str]]:
    """An environment with a cluster of its own, for the commands that need one."""
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield os.environ | {"SLACKWATER_BOOTSTRAP": broker.bootstrap_servers}


def _start_and_stop(command: list[str], directory: Path) -> None:
    """A command that runs until it is stopped."""
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            listening = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=RUN_S)
        finally:
            process.kill()
    assert (process.returncode, "listening" in listening) == (0, True), log


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    for target, anchor in _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in target:
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in _anchors(path), f"{page.name}: {target}#{anchor}"


def _anchors(page: Path) -> list[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
    return [_NOT_IN_ANCHOR.sub("", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if _CODE.search(page.read_text(encoding="utf-8"))], ids=lambda page: page.name
)
def test_named_functions_exist(page: Path) -> None:
    for path, name in _CODE.findall(page.read_text(encoding="utf-8")):
        module = ast.parse((ROOT / "src/slackwater" / path).read_text(encoding="utf-8"))
        assert name in set(_definitions(module)), f"{page.name}: {path} has no {name}"


def _definitions(node: ast.AST, prefix: str = "") -> Iterator[str]:
    """The names of all classes and functions of a module, with the names of those that contain them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name
            yield from _definitions(child, f"{prefix}{child.name}.")
        else:
            yield from _definitions(child, prefix)


def test_drawing_shows_each_timer_at_its_setting() -> None:
    session, poll, rebalance = figure.expired_timers(figure.record())
    durations = [timer.end_ms - timer.start_ms for timer in (session, poll, rebalance)]
    settings = [figure.SESSION_TIMEOUT_MS, figure.MAX_POLL_INTERVAL_MS, figure.REBALANCE_TIMEOUT_MS]
    for duration_ms, setting_ms in zip(durations, settings, strict=True):
        assert setting_ms <= duration_ms < setting_ms + 100  # the network's delay
    assert (ROOT / "docs" / "timeouts.svg").read_text(encoding="utf-8") == figure.draw(figure.record())
