"""Layouts from dataclasses: fields by version, tags and defaults."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pytest

from slackwater.wire.apis import Api
from slackwater.wire.codec import decode, encode
from slackwater.wire.errors import WireError
from slackwater.wire.schema import (
    NO_UUID,
    Bytes,
    Int16,
    Int32,
    Request,
    String,
    Struct,
    Uuid,
    Versions,
    layout,
)


@dataclass(slots=True)
class Inner(Struct):
    number: Int16 = 7
    text: Annotated[String, Versions("2+")] = ""


@dataclass(frozen=True, slots=True)
class Shared(Struct):
    number: Int16 = 7
    text: Annotated[String, Versions("2+")] = ""
    note: Annotated[String | None, Versions("3+", tag=0)] = None


@dataclass(slots=True)
class Sample(Request):
    """A message with all kinds of fields."""

    API: ClassVar = Api(999, "Sample", 0, 3, flexible_from=2, latest_stable=3)

    always: Int32 = 1
    gone: Annotated[Int32, Versions("0-1")] = 2
    once: Annotated[Int32, Versions("1")] = 3
    late: Annotated[Int32, Versions("2+", ignorable=True)] = 4
    names: list[String] = field(default_factory=list)
    ids: list[Uuid] = field(default_factory=list)
    blobs: list[Bytes] | None = None
    inner: Annotated[Inner, Versions("1+")] = field(default_factory=Inner)
    maybe: Annotated[Inner | None, Versions("0+", nullable="1+")] = field(default_factory=Inner)
    tagged_text: Annotated[String | None, Versions("2+", tag=5)] = None
    tagged_inner: Annotated[Inner, Versions("2+", tag=0)] = field(default_factory=Inner)
    tagged_shared: Annotated[Shared, Versions("2+", tag=1)] = Shared()
    shared: Annotated[list[Shared], Versions("1+")] = field(default_factory=list)
    tagged_list: Annotated[list[Int32] | None, Versions("3+", tag=2)] = field(default_factory=list)
    tagged_id: Annotated[Uuid, Versions("3+", tag=3)] = NO_UUID


def names(version: int) -> list[str]:
    return [field.name for field in layout(Sample, version).fields]


def test_fields_of_each_version() -> None:
    assert names(0) == ["always", "gone", "names", "ids", "blobs", "maybe"]
    assert names(1) == ["always", "gone", "once", "names", "ids", "blobs", "inner", "maybe", "shared"]
    assert names(3) == ["always", "late", "names", "ids", "blobs", "inner", "maybe", "shared"]


def test_tagged_fields_are_sorted() -> None:
    assert [slot.name for slot in layout(Sample, 3).tagged] == [
        "tagged_inner",
        "tagged_shared",
        "tagged_list",
        "tagged_id",
        "tagged_text",
    ]


def test_field_is_nullable_in_some_versions() -> None:
    for version in (1, 2, 3):
        assert decode(Sample, version, encode(Sample(maybe=None), version)) == Sample(maybe=None)
    with pytest.raises(WireError, match=r"Sample v0: maybe is None, but must not be null\."):
        encode(Sample(maybe=None), 0)


def test_absent_field_is_rejected_unless_ignorable() -> None:
    with pytest.raises(WireError, match="Sample v2: gone is 9, but does not exist in this version"):
        encode(Sample(gone=9), 2)
    with pytest.raises(WireError, match="Sample v0: inner is Inner"):
        encode(Sample(inner=Inner(8)), 0)
    with pytest.raises(WireError, match=r"Sample v1: maybe\.text is 'x', but does not exist in this version"):
        encode(Sample(maybe=Inner(7, "x")), 1)
    with pytest.raises(WireError, match="Sample v2: tagged_list is None"):
        encode(Sample(tagged_list=None), 2)
    assert decode(Sample, 1, encode(Sample(late=9), 1)) == Sample()


@pytest.mark.parametrize("version", range(4))
def test_every_type_round_trip(version: int) -> None:
    sample = Sample(names=["a", "", "é" * 100], ids=[bytes(range(16)), NO_UUID], blobs=[b"", b"x" * 200])
    if version >= 1:
        sample.inner = Inner(-1)
        sample.shared = [Shared(1), Shared()]
    if version >= 2:
        sample.maybe = Inner(1, "one")
        sample.tagged_text = "t" * 300
        sample.tagged_inner = Inner(7, "not the default")
        sample.tagged_shared = Shared(8, "either")
    if version >= 3:
        sample.tagged_list = None
        sample.shared.append(Shared(note="n"))
        sample.tagged_id = bytes(range(16))
    assert decode(Sample, version, encode(sample, version)) == sample


def test_default_tagged_fields_take_one_byte() -> None:
    assert encode(Sample(), 3).hex(" ") == "00 00 00 01 00 00 00 04 01 01 00 00 07 01 00 01 00 07 01 00 01 00"


def test_equal_frozen_default_is_not_encoded() -> None:
    assert decode(Sample, 3, encode(Sample(), 3)).tagged_shared is Sample().tagged_shared
    assert encode(Sample(tagged_shared=Shared()), 3) == encode(Sample(), 3)


def test_unknown_tagged_fields_between_known_ones() -> None:
    data = encode(Sample(), 3)[:-1] + bytes.fromhex("03  04 01 ff  05 03 03 68 69  8001 00")
    assert decode(Sample, 3, data) == Sample(tagged_text="hi")


def test_tagged_field_must_match_its_size() -> None:
    with pytest.raises(WireError, match="tagged_text should end at byte 28 by its size, but ends at 27"):
        decode(Sample, 3, encode(Sample(), 3)[:-1] + bytes.fromhex("01 05 04 03 68 69 00"))


def test_unknown_version_is_rejected() -> None:
    with pytest.raises(WireError, match=r"Sample v4 is unknown; the versions are 0 to 3\."):
        layout(Sample, 4)
