"""Each oracle reports what it is for, and nothing else."""

from pathlib import Path

import pytest

from tests.chaos.oracles.commits import GroupLedger
from tests.chaos.oracles.heartbeats import Heartbeat, HeartbeatOracle, Interval
from tests.chaos.oracles.log_lines import FORGED, check_log, refusal, warnings_about
from tests.chaos.oracles.memory import MAX_BYTES, check_memory
from tests.chaos.oracles.records import Content, Loss, PartitionLedger
from tests.chaos.oracles.transactions import Outcome, TransactionLedger

# --- records ----------------------------------------------------------------------------------------------------------


def ledger(count: int = 10, *, keys: int = 0) -> PartitionLedger:
    """A partition with one number per batch: number n at offset n."""
    partition = PartitionLedger("t", 0, keys=keys)
    partition.sent = count
    for number in range(count):
        assert partition.acknowledge(number, [number]) == []
    return partition


def content(numbers: dict[int, int]) -> Content:
    return Content(numbers, {offset: offset for offset in numbers}, end_offset=max(numbers, default=-1) + 1)


def without(*offsets: int, count: int = 10) -> Content:
    return content({offset: offset for offset in range(count) if offset not in offsets})


def test_stored_records_pass() -> None:
    partition = ledger()
    partition.sent += 1
    assert partition.check(without(count=11)) == []  # the last one was sent but not acknowledged
    assert partition.check(without(count=11)) == []


def test_lost_record_is_detected() -> None:
    assert ledger().check(without(7)) == ["t-0: number 7 was acknowledged at offset 7, but there is nothing"]


def test_record_that_was_seen_once_must_stay() -> None:
    partition = ledger()
    partition.sent += 1
    assert partition.check(without(count=11)) == []
    assert partition.check(without(count=10))


def test_changed_repeated_and_unknown_records_are_detected() -> None:
    numbers = {offset: offset for offset in range(10)}
    (changed, repeated) = ledger().check(content(numbers | {5: 4}))
    assert "number 5 was acknowledged at offset 5, but there is number 4" in changed
    assert "offset 5 has number 4 after number 4" in repeated
    (unknown,) = ledger().check(content(numbers | {10: 99}))
    assert "number 99, which was never sent" in unknown


def test_reused_offset_is_detected() -> None:
    assert ledger().acknowledge(9, [10, 11]) == ["t-0: offset 9 was acknowledged a second time"]


def test_many_lost_records_are_one_short_report() -> None:
    violations = ledger(100).check(content({}))
    assert len(violations) == 6
    assert violations[-1] == "t-0: and 95 more of this kind"


def test_compaction_may_drop_superseded_records_only() -> None:
    partition = ledger(keys=4)
    assert partition.check(without(0, 1, 2, 3, 4, 5)) == []  # 6 to 9 have their keys
    partition = ledger(keys=4)
    assert partition.check(without(9)) == ["t-0: number 9 was acknowledged at offset 9, but there is nothing"]


def test_damage_may_cost_the_record_for_which_compaction_dropped_others() -> None:
    stored = content({number: number for number in (5, 6, 7, 8)})  # 1 was dropped because of 5, and so on
    assert ledger(keys=4).check(stored, Loss([range(9, 10)], 9, reported_from=9)) == []
    stored = content({number: number for number in (7, 8)})  # 6 is missing, too
    (first, second) = ledger(keys=4).check(stored, Loss([range(9, 10)], 9, reported_from=9))
    assert first == "t-0: number 2 was acknowledged at offset 2, but there is nothing"
    assert second == "t-0: number 6 was acknowledged at offset 6, but there is nothing"


def test_unreported_loss_is_allowed_only_for_touched_batches() -> None:
    stored = without(4, 5)
    stored.unreadable = [(range(4, 6), "CORRUPT_MESSAGE")]
    assert ledger().check(stored, Loss([range(4, 6)], 4)) == []
    (violation,) = ledger().check(stored, Loss([range(4, 5)], 4))
    assert "offset 5, but there is the fetch fails: CORRUPT_MESSAGE" in violation


def test_silently_skipped_batch_is_detected() -> None:
    (violation,) = ledger().check(without(4), Loss([range(4, 5)], 4))
    assert violation == "t-0: offset 4 is skipped without an error and without a line in the log"


def test_reported_loss_is_allowed_from_the_reported_offset_on() -> None:
    truncated = content({offset: offset for offset in range(4)})
    assert ledger().check(truncated, Loss([range(4, 5)], 4, reported_from=4)) == []
    assert ledger().check(truncated, Loss([range(4, 5)], 4, reported_from=0)) == []
    (violation,) = ledger().check(truncated, Loss([range(5, 6)], 5, reported_from=0))
    assert "number 4 was acknowledged" in violation
    violations = ledger().check(truncated, Loss([range(4, 5)], 4, reported_from=8))
    assert [violation for violation in violations if "number 7 was acknowledged" in violation]


# --- commits ----------------------------------------------------------------------------------------------------------


def group(acknowledged: int, sent: int) -> GroupLedger:
    ledger = GroupLedger("g", 1)
    ledger.acknowledged, ledger.sent = acknowledged, sent
    return ledger


def test_last_acknowledged_commit_or_a_later_one_passes() -> None:
    assert group(5, 8).check([5, 5]) == []
    assert group(5, 8).check([7, 7]) == []
    assert group(-1, 0).check([-1, -1]) == []


def test_lost_partial_and_unknown_commits_are_detected() -> None:
    assert group(5, 8).check([4, 4]) == ["group g: 5 was acknowledged, but 4 is stored"]
    assert group(5, 8).check([5, 6]) == ["group g: a commit is stored only in part: [5, 6]"]
    assert group(5, 8).check([8, 8]) == ["group g: 8 is stored, but only 7 was sent"]


def test_reported_loss_of_commits_is_allowed() -> None:
    lost = group(5, 8)
    assert lost.check([-1, -1], is_loss_reported=True) == []
    assert lost.check([-1, -1]) == []  # the next check expects no more than is there


# --- heartbeats -------------------------------------------------------------------------------------------------------


def test_slow_heartbeat_is_detected() -> None:
    oracle = HeartbeatOracle()
    beats = [Heartbeat("g", 10.0, 0.001), Heartbeat("g", 11.0, 2.6)]
    (violation,) = oracle.check(beats, [], None, 14.0)
    assert "a heartbeat of g took 2600 ms" in violation
    assert (oracle.count, oracle.above_target, oracle.max_s, oracle.last_max_s) == (2, 1, 2.6, 2.6)
    assert oracle.check([Heartbeat("g", 15.0, 0.001)], [], None, 16.0) == []
    assert (oracle.max_s, oracle.last_max_s) == (2.6, 0.001)


def test_time_without_a_processor_does_not_count() -> None:
    oracle = HeartbeatOracle()
    assert oracle.check([Heartbeat("g", 10.0, 2.6, processor_wait_s=0.25)], [], None, 14.0) == []
    assert oracle.max_s == 2.6
    assert oracle.max_net_s == pytest.approx(2.35)


def test_heartbeat_of_a_stopped_broker_does_not_count() -> None:
    oracle = HeartbeatOracle()
    assert oracle.check([Heartbeat("g", 10.0, 12.0)], [Interval(11.0, 21.9)], None, 23.0) == []
    assert oracle.count == 0
    assert oracle.check([Heartbeat("g", 22.0, 12.0)], [Interval(11.0, 21.9)], None, 40.0)


def test_lost_session_is_detected_also_after_a_stop() -> None:
    beat = Heartbeat("g", 10.0, 12.0, error="UNKNOWN_MEMBER_ID")
    violations = HeartbeatOracle().check([beat], [Interval(11.0, 21.9)], None, 23.0)
    assert violations == ["a member of g lost its session: UNKNOWN_MEMBER_ID"]


def test_heartbeat_without_a_response_is_detected() -> None:
    assert HeartbeatOracle().check([], [], 10.0, 15.0) == []
    assert HeartbeatOracle().check([], [], 10.0, 21.0) == ["a heartbeat has no response after 11.0 s"]


def test_percentiles_are_close() -> None:
    oracle = HeartbeatOracle()
    oracle.check([Heartbeat("g", float(number), number / 1000) for number in range(1, 101)], [], None, 200.0)
    assert 0.05 <= oracle.percentile_s(0.5) <= 0.0625
    assert 0.099 <= oracle.percentile_s(0.99) <= 0.1
    assert oracle.percentile_s(1.0) == 0.1


# --- log, memory ------------------------------------------------------------------------------------------------------

LINE = "[2026-11-18 10:00:00,000] INFO Stopped. (slackwater.broker)\n"
WARNING = "[2026-11-18 10:00:00,000] WARNING Truncated 9 bytes of /d/t-0/00.log: it ends. (slackwater.broker)\n"


def test_ordinary_lines_pass() -> None:
    assert check_log(LINE + WARNING + "slackwater: The disk is full. Free some space.\n" + LINE[:10]) == []


def test_traceback_is_one_violation() -> None:
    (violation,) = check_log(LINE + 'Traceback (most recent call last):\n  File "x.py", line 1\nOSError\n' + LINE)
    assert "Traceback" in violation
    assert "OSError" in violation


def test_forged_line_is_detected() -> None:
    (violation,) = check_log(LINE + f"[2026-11-18 10:00:00,000] WARNING {FORGED} (slackwater.broker)\n")
    assert "forged" in violation
    assert check_log(LINE.replace("Stopped", f"group g\\n{FORGED}")) == []


@pytest.mark.parametrize("character", ["\x1b", "\x00", "\r", "\x9b"])
def test_control_character_is_detected(character: str) -> None:
    (violation,) = check_log(LINE.replace("Stopped", f"group {character}"))
    assert "control character" in violation


def test_warnings_about_a_file_are_found() -> None:
    assert len(warnings_about(LINE + WARNING, "t-0", "00.log")) == 1
    assert warnings_about(LINE + WARNING, "t-1", "00.log") == []
    assert warnings_about(LINE, "Stopped") == []


def test_refusal_names_the_file_and_what_to_do() -> None:
    data = Path("/tmp/data")
    sentence = "Cannot parse /tmp/data/topics.json. Repair the file, or use another directory."
    assert refusal(f"{LINE}slackwater: {sentence}\n", 2, data) == sentence


@pytest.mark.parametrize(
    ("text", "exit_code", "problem"),
    [
        ("slackwater: Repair /tmp/data/topics.json.\n", None, "neither started nor exited"),
        ("", -9, "without a sentence"),
        ("Traceback (most recent call last):\nOSError\n", 1, "without a sentence"),
        ("slackwater: Repair the file.\n", 2, "does not name the file"),
        ("slackwater: /tmp/data/topics.json is bad.\n", 2, "does not name the file and what to do"),
        ("slackwater: /tmp/data: EIO (None). Use another directory.\n", 2, "does not name the file"),
        ("slackwater: /tmp/data: Too many open files. Use another directory.\n", 2, "what to do about 'Too many"),
    ],
)
def test_bad_refusal_is_detected(text: str, exit_code: int | None, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        refusal(text, exit_code, Path("/tmp/data"))


def test_memory_above_the_limit_is_detected() -> None:
    assert check_memory(MAX_BYTES - 1) == []
    assert check_memory(600 << 20) == ["the broker used 600 MB of memory; the limit is 512 MB"]


# --- transactions -----------------------------------------------------------------------------------------------------


def transactions(*outcomes: Outcome) -> TransactionLedger:
    """Transactions of two records in each partition."""
    ledger = TransactionLedger("t")
    for number, outcome in enumerate(outcomes):
        assert ledger.begin(2) == number
        ledger.outcomes[number] = outcome
    return ledger


def test_committed_and_uncertain_transactions_pass() -> None:
    kinds = (Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN, Outcome.UNKNOWN)
    ledger = transactions(*kinds)
    assert ledger.check([[0, 0, 2, 2], [0, 0, 2, 2]], 2) == []
    assert ledger.outcomes == [Outcome.COMMITTED, Outcome.ABORTED, Outcome.COMMITTED, Outcome.ABORTED]
    assert transactions(*kinds).check([[0, 0], [0, 0]], 0) == []
    assert transactions().check([[], []], -1) == []


@pytest.mark.parametrize(
    ("visible", "group_offset", "violation"),
    [
        ([[0, 0], [0, 0]], 0, "transaction 2 was committed, but nothing of it is visible"),
        ([[0, 0, 1, 1, 2, 2]] * 2, 2, "transaction 1 is visible, but no commit was requested"),
        ([[0, 0, 2, 2], [0, 0]], 0, "transaction 2 of 2 records is visible in part: [2, 0] in each partition"),
        ([[0, 0, 2, 2, 2, 2]] * 2, 0, "transaction 2 of 2 records is visible in part: [4, 4] in each partition"),
        (
            [[0, 0, 2, 2, 3, 3], [0, 0, 2, 2]],
            2,
            "transaction 3 of 2 records is visible in part: [2, 0] in each partition",
        ),
        ([[2, 2, 0, 0], [0, 0, 2, 2]], 2, "transactions are visible in another order"),
        ([[0, 0, 2, 2]] * 2, 0, "the group has offset 0; the last visible transaction is 2"),
    ],
)
def test_wrong_transactions_are_detected(visible: list[list[int]], group_offset: int, violation: str) -> None:
    ledger = transactions(Outcome.COMMITTED, Outcome.ABORTED, Outcome.COMMITTED, Outcome.UNKNOWN)
    assert ledger.check(visible, group_offset) == [f"t: {violation}"]
