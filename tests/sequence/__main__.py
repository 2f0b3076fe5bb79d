"""`python -m tests.sequence`: run sequences with different seeds until one violates a guarantee."""

import argparse
import logging
import time

from tests.sequence.story import play, replay_command


def main() -> None:
    """Play them."""
    parser = argparse.ArgumentParser(prog="python -m tests.sequence", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many sequences, each from the next seed")
    parser.add_argument("--actions", type=int, default=100, help="how many actions each")
    given = parser.parse_args()
    if given.runs < 1 or given.actions < 1:
        parser.error("--runs and --actions take 1 or more.")
    logging.getLogger("slackwater").setLevel(logging.ERROR)  # a broker that is away is no news here
    tell = print if given.runs == 1 else lambda _line: None
    for seed in range(given.seed, given.seed + given.runs):
        started = time.monotonic()
        print(f"seed {seed}; replay: {replay_command(seed, given.actions)}", flush=True)
        account = play(seed, given.actions, tell=tell)
        print(f"seed {seed}: every promise kept in {time.monotonic() - started:.0f} s: {account}", flush=True)


if __name__ == "__main__":
    main()
