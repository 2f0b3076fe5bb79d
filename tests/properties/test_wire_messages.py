"""Wire messages round-trip, and invalid bytes raise only wire errors."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.wire.apis import APIS, Api
from slackwater.wire.codec import decode, encode, request_type, response_type
from slackwater.wire.decode_errors import decode_error
from slackwater.wire.envelope import decode_request, decode_response, encode_request, encode_response
from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader, frame
from slackwater.wire.schema import Message, Request, layout
from tests.wire.samples import all_messages, messages, random_message

MUTANTS = 150
NOTHING_LEFT = ": 0 bytes follow"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_written_values_are_read_back(api: Api) -> None:
    cases = [
        (kind, version)
        for version in range(api.min_version, api.max_version + 1)
        for kind in (request_type(api), response_type(api))
    ]

    @settings(max_examples=25, deadline=None, database=None)
    @given(st.sampled_from(cases).flatmap(lambda case: st.tuples(messages(*case), st.just(case[1]))))
    def property_holds(drawn: tuple[Message, int]) -> None:
        message, version = drawn
        assert decode(type(message), version, encode(message, version)) == message

    property_holds()


def test_every_message_version_round_trip() -> None:
    dice = random.Random(1)
    for kind, version in all_messages():
        for _ in range(10):
            message = random_message(dice, kind, version)
            assert decode(kind, version, encode(message, version)) == message, (kind, version)


def mutant(dice: random.Random, data: bytes) -> bytes:
    """Some bytes changed, lost, added or moved."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        at = dice.randint(0, len(changed))
        match dice.randrange(6):
            case 0:
                changed[at : at + 1] = dice.randbytes(1)
            case 1:
                changed[at : at + 1] = dice.choice((b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"))
            case 2:
                changed[at : at + dice.randint(1, 5)] = b""
            case 3:
                changed[at:at] = dice.randbytes(dice.randint(1, 5))
            case 4:
                changed = changed[:at]
            case _:
                changed[at : at + 4] = dice.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00"))
    return bytes(changed)


def attempt(kind: type[Message], version: int, data: bytes) -> tuple[Message | None, str]:
    """The message, or the sentence that says why there is none."""
    try:
        return decode(kind, version, data), ""
    except WireError as error:
        return None, str(error)


def nothing_wrong(kind: type[Message], sentence: str) -> bool:
    """Whether the slow reading found all fields sound; behind a request, more bytes may follow."""
    return ("bytes follow the end" if issubclass(kind, Request) else NOTHING_LEFT) in sentence


def test_changed_bytes_decode_or_raise_wire_error() -> None:
    dice = random.Random(2)
    refused = accepted = 0
    for kind, version in all_messages():
        title = f"{kind.__name__} v{version}"
        plan = layout(kind, version)
        data = encode(random_message(dice, kind, version), version)
        for _ in range(MUTANTS):
            changed = mutant(dice, data)
            message, fault = attempt(kind, version, changed)
            if message is None:
                refused += 1
                assert fault.startswith(f"{title}: ")
                assert not nothing_wrong(kind, fault), changed.hex()
            else:
                accepted += 1
                assert nothing_wrong(kind, str(decode_error(plan, title, changed, 0))), changed.hex()
                # A byte that means the same as another may come back as the usual one; the message stays.
                again = decode(kind, version, encode(message, version))
                assert encode(again, version) == encode(message, version)
    assert refused > 20_000
    assert accepted > 5_000


def test_changed_frames_decode_or_raise_wire_error() -> None:
    dice = random.Random(3)
    for kind, version in all_messages():
        message = random_message(dice, kind, version)
        whole = (
            encode_request(message, version, 7, "client")
            if isinstance(message, Request)
            else encode_response(message, version, 7)  # type: ignore[arg-type]  # all that are no requests are answers
        )
        for _ in range(10):
            changed = mutant(dice, whole[4:])
            try:
                if isinstance(message, Request):
                    decode_request(changed)
                else:
                    decode_response(response_type(kind.API), version, changed)
            except WireError:
                continue


@settings(max_examples=1000, deadline=None, database=None)
@given(st.sampled_from(list(all_messages())), st.binary(max_size=60))
def test_any_bytes_decode_as_message_or_raise(case: tuple[type[Message], int], data: bytes) -> None:
    _, fault = attempt(*case, data)
    assert not nothing_wrong(case[0], fault)


@settings(max_examples=300, deadline=None, database=None)
@given(st.binary(max_size=60))
def test_any_bytes_decode_as_request_or_raise(data: bytes) -> None:
    try:
        decode_request(data)
    except WireError:
        return


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 30)))
def test_frames_are_independent_of_chunking(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, bodies))
    reader = FrameReader()
    found: list[bytes] = []
    for size in cuts:
        found += reader.feed(stream[:size])
        stream = stream[size:]
    found += reader.feed(stream)
    assert found == bodies
    assert reader.pending_bytes == 0
