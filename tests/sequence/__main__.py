"""`python -m tests.sequence`: run sequences with different seeds until one violates a guarantee."""

import argparse
import logging
import time

from tests.sequence.run import replay_command, run_sequence


def main() -> None:
    """Run the sequences."""
    parser = argparse.ArgumentParser(prog="python -m tests.sequence", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="number of sequences, with consecutive seeds")
    parser.add_argument("--actions", type=int, default=100, help="number of actions per sequence")
    arguments = parser.parse_args()
    if arguments.runs < 1 or arguments.actions < 1:
        parser.error("--runs and --actions must be 1 or more.")
    logging.getLogger("slackwater").setLevel(logging.ERROR)  # broker restarts are expected
    log = print if arguments.runs == 1 else lambda _line: None
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        started_at = time.monotonic()
        print(f"seed {seed}; replay: {replay_command(seed, arguments.actions)}", flush=True)
        summary = run_sequence(seed, arguments.actions, log=log)
        print(f"seed {seed}: no violation in {time.monotonic() - started_at:.0f} s: {summary}", flush=True)


if __name__ == "__main__":
    main()
