"""Java's hash and sort orders; the expected values come from a JVM."""

from slackwater.group.java_order import (
    bucket,
    capacity,
    hash_map_order,
    partition_hash,
    sorted_as_java,
    string_hash,
)


def test_strings_hash_as_in_java() -> None:
    assert string_hash("") == 0
    assert string_hash("a") == 97
    assert string_hash("hello") == 99162322
    assert string_hash("consumer1") == -421004549 & 0xFFFF_FFFF
    assert string_hash("\U0001f980") == 1772802


def test_partition_hashes_as_in_java() -> None:
    assert partition_hash(string_hash("topic"), 3) == 110547277


def test_text_sorts_by_utf_16_code_unit() -> None:
    assert sorted_as_java(["b", "a", "B"]) == ["B", "a", "b"]
    # U+1F980 is D83E DD80 in UTF-16, before U+FFEE; by code point it comes after.
    assert sorted_as_java(["\uffee", "\U0001f980"]) == ["\U0001f980", "\uffee"]


def test_table_doubles_at_three_quarters() -> None:
    assert [capacity(size) for size in (0, 12, 13, 24, 25, 2000)] == [16, 16, 32, 32, 64, 4096]


def test_bucket_mixes_upper_hash_bits() -> None:
    assert bucket(0x0001_0000, 16) == 1
    assert bucket(0x0001_0001, 16) == 0


def test_hash_map_order_is_by_bucket() -> None:
    assert hash_map_order(["consumer1", "consumer2", "consumer3"]) == ["consumer3", "consumer2", "consumer1"]
    assert hash_map_order(["c1", "c2", "c3"]) == ["c3", "c1", "c2"]
