"""`slackwater groups`: its tables, JSON output, confirmations and errors."""

import json
from pathlib import Path

import pytest

from slackwater import Admin, Broker
from slackwater.client.admin import RemovedMember
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from tests.client.consumer_pool import ConsumerPool, wait_until

from .conftest import Command, Terminal


def set_offsets(admin: Admin, group: str, *offsets: int) -> None:
    admin.alter_offsets(group, {TopicPartition("orders", number): offset for number, offset in enumerate(offsets)})


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_groups_list_shows_lag(slackwater: Command, admin: Admin) -> None:
    set_offsets(admin, "listed", 10, 4, 0)
    result = slackwater("groups", "list", "--lag")
    assert result.code == 0
    assert lines(result.out)[0] == ["GROUP", "STATE", "TYPE", "PROTOCOL", "MEMBERS", "IDLE", "LAG", "COORDINATOR"]
    address = f"127.0.0.1:{admin.brokers()[0].port}"
    assert ["listed", "Empty", "classic", "–", "0", "0", "16", address] in lines(result.out)
    listed = {row["group"]: row for row in rows(slackwater("groups", "list", "--lag", "--json").out)}["listed"]
    assert (listed["state"], listed["lag"], listed["members"]) == ("Empty", 16, 0)
    assert slackwater("groups", "list", "--state", "Dead").out == "There are no matching groups.\n"


def test_describe_shows_a_stable_group(slackwater: Command, broker: Broker) -> None:
    with ConsumerPool(broker.bootstrap_servers, "living", ["orders"]) as pool:
        pool.join(4)
        pool.join(1, {"group.instance.id": "pod-4"})
        pool.settle(3)
        pool.commit({TopicPartition("orders", 0): 7})
        generation = pool.generation(pool.consumers[0])
        output = slackwater("groups", "describe", "living").out
        facts = {columns[0]: columns[1:] for columns in lines(output)}
        assert facts["state"] == ["Stable"]
        assert facts["assignor"] == ["range"]
        assert facts["generation"][0] == str(generation)
        assert facts["coordinator"] == [broker.bootstrap_servers, "(broker", "1)"]
        assert facts["members"] == ["5,", "2", "of", "5", "idle"]
        assert " ".join(facts["lag"]) == "3 in 1 partition, 2 without an offset"
        assert [columns[:5] for columns in lines(output) if columns[0] == "orders"] == [
            ["orders", "0", "7", "10", "3"],
            ["orders", "1", "–", "10", "–"],
            ["orders", "2", "–", "10", "–"],
        ]
        assert output.count(" idle  ") == 2
        assert "TOPIC" not in slackwater("groups", "describe", "living", "--members").out
        assert "CLIENT" not in slackwater("groups", "describe", "living", "--offsets").out
        assert "TOPIC" not in slackwater("groups", "describe", "living", "--state").out

        (group,) = rows(slackwater("groups", "describe", "living", "--json").out)
        assert group["generation"] == generation
        assert (group["member_count"], group["idle"], group["lag"], group["waiting_for"]) == (5, 2, 3, None)
        members, offsets = group["members"], group["offsets"]
        assert isinstance(members, list)
        assert isinstance(offsets, list)
        assert [member["instance"] for member in members].count("pod-4") == 1
        assert [(offset["partition"], offset["committed"], offset["lag"]) for offset in offsets] == [
            (0, 7, 3),
            (1, None, None),
            (2, None, None),
        ]
        (state,) = rows(slackwater("groups", "describe", "living", "--state", "--json").out)
        assert "members" not in state
        assert "offsets" not in state


def test_describe_shows_awaited_members(slackwater: Command, broker: Broker) -> None:
    with (
        ConsumerPool(broker.bootstrap_servers, "stuck", ["orders"]) as other,
        ConsumerPool(broker.bootstrap_servers, "stuck", ["orders"]) as pool,
    ):
        pool.join(1, {"client.id": "slow"})
        pool.settle(3)
        pool.stall()
        other.join(1, {"client.id": "quick"})

        def waiting() -> list[str]:
            return [line for line in _describe() if line.startswith("waiting for  slow (until ")]

        def _describe() -> list[str]:
            return slackwater("groups", "describe", "stuck").out.splitlines()

        wait_until(lambda: bool(waiting()), _describe)
        output = "\n".join(_describe())
        assert "PreparingRebalance" in output
        assert "orders 0-2 (awaited)" in output
        (group,) = rows(slackwater("groups", "describe", "stuck", "--state", "--json").out)
        assert group["waiting_exact"] is True
        waiting_for = group["waiting_for"]
        assert isinstance(waiting_for, list)
        assert [member_id.rpartition("slow-")[0] for member_id in waiting_for] == [""]


def test_unknown_group_is_exit_code_1(slackwater: Command, admin: Admin) -> None:
    set_offsets(admin, "there", 1)
    result = slackwater("groups", "describe", "ther")
    assert result == (1, "", "slackwater: There is no group ther; did you mean there?\n")
    assert slackwater("groups", "describe").code == 2


def test_remove_members_shows_them_first(slackwater: Command, broker: Broker, admin: Admin) -> None:
    with ConsumerPool(broker.bootstrap_servers, "removed", ["orders"]) as pool:
        pool.join(1, {"client.id": "dynamic"})
        pool.join(1, {"group.instance.id": "pod-1"})
        pool.settle(3)

        def ids() -> dict[str | None, str]:
            (group,) = admin.describe_groups(["removed"])
            return (
                {member.group_instance_id: member.member_id for member in group.members}
                if group.state == "Stable"
                else {}
            )

        before = ids()
        result = slackwater("groups", "remove-members", "removed", "--all", "--dry-run")
        assert result.code == 0
        assert result.out.startswith("Would remove 2 members of group removed:\n")
        assert "A dynamic member whose process is running rejoins with a new member id" in result.out
        assert "A static member rejoins only if its process is running." in result.out
        assert ids() == before

        unconfirmed = slackwater("groups", "remove-members", "removed", "--all")
        assert unconfirmed.code == 2
        assert "no terminal to ask for confirmation; add --yes" in unconfirmed.err
        assert ids() == before

        result = slackwater("groups", "remove-members", "removed", "--member", before[None], "--yes")
        assert result.code == 0
        assert result.out.endswith("Removed 1 member of group removed.\n")
        wait_until(lambda: ids().get(None) not in (None, before[None]), ids)

        removed = slackwater("groups", "remove-members", "removed", "--instance", "pod-1", "--yes", "--json")
        (row,) = rows(removed.out)
        assert (row["instance"], row["removed"], row["error"]) == ("pod-1", True, None)

        unknown = slackwater("groups", "remove-members", "removed", "--member", "absent", "--yes")
        assert unknown.code == 1
        assert unknown.err.startswith("slackwater: Group removed has no member absent; ")
    assert slackwater("groups", "remove-members", "removed") == (
        2,
        "",
        "slackwater: nothing to remove; use --member ID, --instance ID, or --all.\n",
    )
    assert slackwater("groups", "remove-members", "removed", "--all", "--member", "x") == (
        2,
        "",
        "slackwater: use --all, or --member and --instance, not both.\n",
    )


def test_failed_removal_names_the_next_command(
    slackwater: Command, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_admin: Admin, _group: str, *, members: list[str], **_options: object) -> list[RemovedMember]:
        return [RemovedMember(member, None, Error.UNKNOWN_MEMBER_ID) for member in members]

    monkeypatch.setattr(Admin, "remove_members", refuse)  # the member has rejoined since it was described
    with ConsumerPool(broker.bootstrap_servers, "rejoined", ["orders"]) as pool:
        pool.join(1)
        pool.settle(3)
        result = slackwater("groups", "remove-members", "rejoined", "--all", "--yes")
    assert result.code == 1
    assert result.err.endswith(
        " was not removed: UNKNOWN_MEMBER_ID. Run `slackwater groups describe rejoined` to see the current members.\n"
    )


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["--to-earliest"], [0, 0, 0]),
        (["--to-latest"], [10, 10, 10]),
        (["--to-current"], [5, 5, 5]),
        (["--to-offset", "7"], [7, 7, 7]),
        (["--shift-by", "-2"], [3, 3, 3]),
        (["--to-datetime", "1970-01-01T00:00:10"], [4, 3, 3]),
        (["--by-duration", "3650d"], [10, 10, 10]),
    ],
    ids=lambda value: str(value[0]),
)
def test_reset_offsets_follows_its_option(
    slackwater: Command, admin: Admin, where: list[str], expected: list[int]
) -> None:
    set_offsets(admin, "moved", 5, 5, 5)
    command = ["groups", "reset-offsets", "moved", "--all-topics", *where]
    planned = slackwater(*command, "--dry-run", "--json")
    assert planned.code == 0
    assert [(row["from"], row["to"], row["moved"]) for row in rows(planned.out)] == [
        (5, offset, False) for offset in expected
    ]
    assert [commit.offset for commit in admin.committed("moved").values()] == [5, 5, 5]
    result = slackwater(*command, "--yes")
    assert result.out.endswith("Moved 3 offsets of group moved.\n")
    assert [commit.offset for _, commit in sorted(admin.committed("moved").items())] == expected


def test_reset_names_partitions_and_clamped_offsets(slackwater: Command, admin: Admin) -> None:
    set_offsets(admin, "scope", 5, 5, 5)
    result = slackwater("groups", "reset-offsets", "scope", "--topic", "orders:0,2", "--to-offset", "99", "--yes")
    assert "99 is beyond the log's end" in result.out
    assert [commit.offset for _, commit in sorted(admin.committed("scope").items())] == [10, 5, 10]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--all-topics"], "use exactly one of --to-earliest"),
        (["--all-topics", "--to-earliest", "--to-latest"], "use exactly one of --to-earliest"),
        (["--to-latest"], "no topics; use --topic TOPIC"),
        (["--all-topics", "--topic", "orders", "--to-latest"], "use --topic or --all-topics, not both."),
        (["--topic", "orders:x", "--to-latest"], "--topic orders:x does not name partitions. Use topic:0,1."),
        (["--all-topics", "--to-datetime", "noon"], "--to-datetime noon is not a time"),
        (["--all-topics", "--by-duration", "long"], "--by-duration long is not a duration"),
        (["--all-topics", "--to-latest", "--export"], "--export does not ask for confirmation; add --yes"),
        (["--all-topics", "--to-latest", "--export", "--json"], "use --json or --export, not both."),
        (["--from-file", "no-such-file"], "no-such-file cannot be read: No such file or directory."),
        (["--all-topics", "--to-latest", "--json"], "--json does not ask for confirmation; add --yes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_reset_is_one_sentence(slackwater: Command, admin: Admin, arguments: list[str], message: str) -> None:
    set_offsets(admin, "wrong", 5)
    result = slackwater("groups", "reset-offsets", "wrong", *arguments)
    assert result.code == 2
    assert result.err.startswith(f"slackwater: {message}")
    assert result.err.count("\n") == 1
    assert [commit.offset for commit in admin.committed("wrong").values()] == [5]


def test_exported_offsets_can_be_restored(slackwater: Command, admin: Admin, tmp_path: Path) -> None:
    set_offsets(admin, "saved", 1, 2, 3)
    command = ["groups", "reset-offsets", "saved"]
    exported = slackwater(*command, "--all-topics", "--to-current", "--dry-run", "--export")
    assert exported == (0, "orders,0,1\norders,1,2\norders,2,3\n", "")
    file = tmp_path / "offsets.csv"
    file.write_text(exported.out)
    assert slackwater(*command, "--all-topics", "--to-latest", "--yes", "--export").out.endswith("orders,2,10\n")
    restored = slackwater(*command, "--from-file", file, "--yes")
    assert restored.out.endswith("Moved 3 offsets of group saved.\n")
    assert [commit.offset for _, commit in sorted(admin.committed("saved").items())] == [1, 2, 3]


def test_file_of_several_groups_and_offsets_out_of_range(slackwater: Command, admin: Admin, tmp_path: Path) -> None:
    set_offsets(admin, "mixed", 5, 5, 5)
    file = tmp_path / "offsets.csv"
    file.write_text('other,orders,1,0\nmixed,"orders",0,99\n\nmixed, orders, 2, 4\n')
    result = slackwater("groups", "reset-offsets", "mixed", "--from-file", file, "--yes")
    assert "99 is beyond the log's end" in result.out
    assert [commit.offset for _, commit in sorted(admin.committed("mixed").items())] == [10, 5, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders,0\n", "line 1, is 'orders,0'; use topic,partition,offset."),
        ("orders,0,1\norders,1,-1\n", "line 2, is 'orders,1,-1'; use topic,partition,offset."),
        ("orders,0,1\norders,0,2\n", "line 2, names orders-0 a second time."),
        ("other,orders,0,1\n", "has no offsets of group wrong; use lines of topic,partition,offset."),
        ("orders,9,1\n", "orders has no partition 9; it has 3, from 0 on."),
    ],
)
def test_wrong_offsets_file_is_one_sentence(
    slackwater: Command, admin: Admin, tmp_path: Path, text: str, message: str
) -> None:
    set_offsets(admin, "wrong", 5)
    file = tmp_path / "offsets.csv"
    file.write_text(text)
    result = slackwater("groups", "reset-offsets", "wrong", "--from-file", file, "--yes")
    assert result.code == 2
    assert result.err.rstrip().endswith(message)
    assert result.err.count("\n") == 1
    assert [commit.offset for commit in admin.committed("wrong").values()] == [5]
    scoped = slackwater("groups", "reset-offsets", "wrong", "--from-file", file, "--all-topics", "--yes")
    assert scoped.code == 2


def test_group_with_members_is_not_reset_or_deleted(slackwater: Command, broker: Broker) -> None:
    with ConsumerPool(broker.bootstrap_servers, "alive", ["orders"]) as pool:
        pool.join()
        pool.settle(3)
        reset = slackwater("groups", "reset-offsets", "alive", "--topic", "orders", "--to-latest", "--dry-run")
        assert (reset.code, reset.out) == (1, "")
        assert "is Stable with 1 member" in reset.err
        for option in ("--yes", "--dry-run"):
            deleted = slackwater("groups", "delete", "alive", option)
            assert deleted.code == 1
            assert "only an empty group can be deleted" in deleted.err


def test_offset_of_a_topic_that_is_read_is_not_deleted(slackwater: Command, broker: Broker, admin: Admin) -> None:
    set_offsets(admin, "reading", 5)
    with ConsumerPool(broker.bootstrap_servers, "reading", ["orders"]) as pool:
        pool.join()
        pool.settle(3)
        result = slackwater("groups", "delete-offsets", "reading", "--topic", "orders", "--yes")
    assert result.code == 1
    assert (
        "slackwater: the offset of orders-0 was not deleted: a member reads this topic. Stop the members that read it, "
        "and run the command again.\n"
    ) in result.err


def test_delete_groups_and_offsets(slackwater: Command, admin: Admin) -> None:
    set_offsets(admin, "gone", 5, 5)
    assert slackwater("groups", "delete", "gone", "--dry-run").code == 0
    planned = slackwater("groups", "delete-offsets", "gone", "--topic", "orders", "--dry-run", "--json")
    assert [row["deleted"] for row in rows(planned.out)] == [False, False]
    assert len(admin.committed("gone")) == 2
    result = slackwater("groups", "delete-offsets", "gone", "--topic", "orders", "--yes")
    assert result.out.endswith("Deleted 2 offsets of group gone.\n")
    assert admin.committed("gone") == {}

    set_offsets(admin, "gone", 5, 5)
    (row,) = rows(slackwater("groups", "delete", "gone", "--yes", "--json").out)
    assert row == {"group": "gone", "offsets": 2, "deleted": True, "error": None}
    assert slackwater("groups", "delete", "gone", "--yes").code == 1


def test_bootstrap_address_precedence(
    slackwater: Command, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    unreachable = slackwater("groups", "list", "--bootstrap", "127.0.0.1:1")
    assert unreachable.code == 1
    assert unreachable.err == (
        "slackwater: No broker can be reached. 127.0.0.1:1 could not be reached: Connection refused.\n"
    )
    file = tmp_path_factory.mktemp("config") / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\ngroup.id=of-a-consumer\n")
    assert slackwater("groups", "list", "--config", file).code == 1
    assert slackwater("groups", "list", "--config", file, "--bootstrap", broker.bootstrap_servers).code == 0
    missing = slackwater("groups", "list", "--config", file.with_name("absent"))
    assert (missing.code, missing.out) == (2, "")
    assert slackwater("groups", "list", "--bootstrap", "nonsense").code == 2


def test_confirmation_can_be_refused(slackwater: Command, admin: Admin) -> None:
    set_offsets(admin, "confirmed", 5)
    command = ["groups", "reset-offsets", "confirmed", "--all-topics", "--to-earliest"]
    declined = slackwater(*command, stdin="n\n", kind=Terminal)
    assert declined.code == 1
    assert declined.out.endswith("Nothing was changed.\n")
    assert [commit.offset for commit in admin.committed("confirmed").values()] == [5]
    assert slackwater(*command, stdin="y\n", kind=Terminal).out.endswith("Moved 1 offset of group confirmed.\n")
    assert [commit.offset for commit in admin.committed("confirmed").values()] == [0]
