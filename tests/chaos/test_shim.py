"""The preloaded library shifts the wall clock and fails file operations of another process, and of nothing else."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import shim
from tests.chaos.shim import Operation, Shim

PROGRAM = """
import json, os, sys, time

data, other = sys.argv[1:]
results = {"wall": time.time(), "monotonic": time.monotonic()}

def attempt(name, work):
    try:
        results[name] = work()
    except OSError as error:
        results[name] = error.errno

def files(name, directory):
    fd = -1
    def opened():
        nonlocal fd
        fd = os.open(directory + "/file", os.O_RDWR | os.O_CREAT)
        return 0
    attempt(name + "open", opened)
    if results[name + "open"]:
        return
    attempt(name + "write", lambda: os.pwritev(fd, [b"abc", b"def"], 0))
    attempt(name + "read", lambda: os.pread(fd, 9, 0).decode())
    attempt(name + "fsync", lambda: os.fsync(fd))
    attempt(name + "truncate", lambda: os.ftruncate(fd, 0))
    attempt(name + "rename", lambda: os.replace(directory + "/file", directory + "/renamed"))

files("", data)
files("other ", other)
print(json.dumps(results))
"""
WORKING = {"open": 0, "write": 6, "read": "abcdef", "fsync": None, "truncate": None, "rename": None}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing: apt-get install gcc")
    built = shim.build(tmp_path_factory.mktemp("shim"))
    assert built is not None
    return built


@pytest.fixture
def control(library: Path, tmp_path: Path) -> Iterator[Shim]:
    for name in ("data", "other"):
        (tmp_path / name).mkdir()
    shim = Shim(library, tmp_path / "control", tmp_path / "data")
    yield shim
    shim.close()


def results(control: Shim, tmp_path: Path) -> dict[str, object]:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data"), str(tmp_path / "other")]
    variables = {**os.environ, **control.environment}
    output = subprocess.run(command, env=variables, check=True, capture_output=True).stdout
    measured: dict[str, object] = json.loads(output)
    assert {name: measured[f"other {name}"] for name in WORKING} == WORKING
    return measured


def test_nothing_fails_before_a_fault_and_after_heal(control: Shim, tmp_path: Path) -> None:
    assert results(control, tmp_path).items() >= WORKING.items()
    control.limit_space(0)
    for operation in Operation:
        control.fail(operation)
    control.heal()
    assert results(control, tmp_path).items() >= WORKING.items()
    assert control.injected() == 0


@pytest.mark.parametrize("operation", list(Operation))
def test_operation_fails_with_the_error(control: Shim, tmp_path: Path, operation: Operation) -> None:
    control.fail(operation, errno.EIO)
    measured = results(control, tmp_path)
    assert measured[operation.name.lower()] == errno.EIO
    assert control.injected() == 1


def test_full_disk_takes_what_fits(control: Shim, tmp_path: Path) -> None:
    control.limit_space(4)
    assert results(control, tmp_path).items() >= (WORKING | {"write": 4, "read": "abcd"}).items()
    assert results(control, tmp_path)["write"] == errno.ENOSPC


def test_short_write_takes_half(control: Shim, tmp_path: Path) -> None:
    control.shorten_writes(1000)
    assert results(control, tmp_path).items() >= (WORKING | {"write": 3, "read": "abc"}).items()


@pytest.mark.parametrize("hours", [5, -5])
def test_wall_clock_is_shifted_and_the_monotonic_clock_is_not(control: Shim, tmp_path: Path, hours: int) -> None:
    control.clock_offset_s = 3600 * hours
    measured = results(control, tmp_path)
    assert measured["wall"] == pytest.approx(time.time() + 3600 * hours, abs=60)
    assert measured["monotonic"] == pytest.approx(time.monotonic(), abs=60)
