"""Kafka's jars, and the Java programs of `interop/java` that tests compile against them and run.

Invariants:
- A program is compiled once for each version of its source, into a temporary directory that is then renamed, so that
  two pytest-xdist workers may compile it at the same time.
- Without the jars, the tests that need them are skipped; with CI=true they fail.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "interop" / "java"
CACHE: Final = ROOT / ".cache" / "java"
NO_JARS: Final = "Kafka's jars are missing; run `make jars`."
# Fast start and a small heap, for clients.
SMALL_JVM: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def jars() -> Path:
    """Return the directory of Kafka's jars, which may not exist."""
    return Path(os.environ.get("SLACKWATER_JARS", ROOT / ".jars" / "kafka-4.3.1"))


def have_jars() -> bool:
    """Return whether Kafka's client jar exists."""
    return any(jars().glob("kafka-clients-*.jar"))


def require_jars() -> None:
    """Skip the test if Kafka's jars are missing."""
    if not have_jars():
        pytest.skip(NO_JARS)


needs_jars = pytest.mark.skipif(not have_jars(), reason=NO_JARS)


def java(program: str, *flags: str) -> Sequence[str]:
    """The command that runs a program of `interop/java`."""
    assert have_jars(), NO_JARS
    return ["java", *flags, "-cp", f"{compiled(program)}{os.pathsep}{jars()}/*", program]


def compiled(program: str) -> Path:
    """The directory of a program's classes."""
    source = SOURCES / f"{program}.java"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    classes = CACHE / f"{program}-{digest}"
    if not classes.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=CACHE))
        subprocess.run(["javac", "-d", str(work), "-cp", f"{jars()}/*", str(source)], check=True)
        try:
            work.rename(classes)
        except OSError:  # another worker was faster and has the same classes
            shutil.rmtree(work)
            assert (classes / f"{program}.class").exists()
    return classes
