"""`slackwater demo`: a broker, Spark applications in processes of their own, and what happens to a group of them.

Rules kept here
- However it ends, also by Ctrl-C or `kill -9`, nothing is left behind: no process, no directory. The doctor's report
  alone stays.
- What is told at the end was counted: records written, read, read twice, rebalances, time without an owner.
- Where there is no Spark the plain version is shown, with stock clients, and one sentence says why.
"""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from slackwater.group.errors import UsageError

_CLIENTS: Final = {"confluent_kafka": "confluent-kafka", "kafka": "kafka-python", "aiokafka": "aiokafka"}
_SPARK: Final = ("pyspark", "pyarrow", "pandas")
REPORT: Final = "slackwater-demo-report.html"


def demo(
    fast: Annotated[
        bool, typer.Option("--fast", help="The same with two applications, and the deploy with plain consumers.")
    ] = False,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="Stock clients instead of Spark applications: half a minute.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"Where the doctor's report goes; {REPORT} in the temporary directory by default."
        ),
    ] = None,
) -> None:
    """Show Spark applications that share a topic: join, scale, deploy, fail, and a storm with its doctor.

    It takes about two minutes after Spark has started (--fast: one and a half in all, --no-spark: half a minute), and
    needs nothing but this machine.
    """
    from slackwater.cli.demo.stage import show_pipeline, show_plain

    if not no_spark and (why := _no_spark()) is not None:
        typer.echo(f"{why} This is the demo without Spark.")
        no_spark = True
    if no_spark:
        _need_clients()
        show_plain()
    else:
        where = report if report is not None else Path(tempfile.gettempdir()) / REPORT
        if not where.parent.is_dir():
            raise UsageError(f"--report {where}: there is no directory {where.parent}.")
        show_pipeline(fast=fast, report=where.resolve())


def _no_spark() -> str | None:
    """Why Spark cannot run here."""
    if missing := [name for name in _SPARK if importlib.util.find_spec(name) is None]:
        return f"{missing[0]} is not installed (pip install 'slackwater[spark]')."
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").exists()):
        return "There is no java on the PATH and no JAVA_HOME, and Spark needs one (17 or newer)."
    return None


def _need_clients() -> None:
    missing = [name for module, name in _CLIENTS.items() if importlib.util.find_spec(module) is None]
    if missing:
        names = " ".join(missing)
        raise UsageError(f"the demo runs stock clients, and not all of them are installed. Run: pip install {names}")


__all__ = ["demo"]
