"""Damaged requests: the broker keeps running, memory is bounded, other clients are not affected.

`make interop` sends a hundred thousand.
"""

from pathlib import Path

from .mutant_runs import send_mutated_frames


def test_mutated_frames_do_not_affect_other_clients(tmp_path: Path) -> None:
    send_mutated_frames(tmp_path, 25_000)
