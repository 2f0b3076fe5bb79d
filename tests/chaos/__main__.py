"""`python -m tests.chaos`: run random faults against a broker; exit code 1 if a guarantee was violated."""

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import ChaosRun, build_shim


def main() -> None:
    """Run the faults and print the summary."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to run [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the run [default: %(default)s]")
    parser.add_argument("--only", action="append", default=[], help="a fault or a family of faults; repeatable")
    parser.add_argument("--first", type=int, default=1, help="the number of the first fault [default: %(default)s]")
    parser.add_argument("--faults", type=int, help="how many faults; by default as many as the time allows")
    arguments = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # connections break on purpose
    with tempfile.TemporaryDirectory(prefix="slackwater-shim-") as directory:
        try:
            run = ChaosRun(arguments.seed, arguments.only, library=build_shim(Path(directory)))
        except ValueError as error:
            parser.error(str(error))
        print(f"seed {arguments.seed}, {arguments.minutes:g} minutes", flush=True)
        is_interrupted = False
        try:
            run.run(seconds=60 * arguments.minutes, first=arguments.first, max_faults=arguments.faults)
        except KeyboardInterrupt:
            is_interrupted = True
    print("\n".join(["", *run.summary.lines()]))
    sys.exit(130 if is_interrupted else 1 if run.summary.violations else 0)


if __name__ == "__main__":
    main()
