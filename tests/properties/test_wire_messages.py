"""Wire messages round-trip, and invalid bytes raise only wire errors."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.wire.apis import APIS, Api
from slackwater.wire.codec import decode, encode, request_type, response_type
from slackwater.wire.decode_errors import decode_error
from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader, frame
from slackwater.wire.request_response import decode_request, decode_response, encode_request, encode_response
from slackwater.wire.schema import Message, Request, layout
from tests.wire.samples import all_messages, messages, random_message

MUTANTS = 150
NOTHING_LEFT = ": 0 bytes follow"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_random_messages_round_trip(api: Api) -> None:
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
    rng = random.Random(1)
    for kind, version in all_messages():
        for _ in range(10):
            message = random_message(rng, kind, version)
            assert decode(kind, version, encode(message, version)) == message, (kind, version)


def mutant(rng: random.Random, data: bytes) -> bytes:
    """Return the data with some bytes changed, removed or added."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        position = rng.randint(0, len(changed))
        match rng.randrange(6):
            case 0:
                changed[position : position + 1] = rng.randbytes(1)
            case 1:
                changed[position : position + 1] = rng.choice((b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"))
            case 2:
                changed[position : position + rng.randint(1, 5)] = b""
            case 3:
                changed[position:position] = rng.randbytes(rng.randint(1, 5))
            case 4:
                changed = changed[:position]
            case _:
                changed[position : position + 4] = rng.choice(
                    (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00")
                )
    return bytes(changed)


def try_decode(kind: type[Message], version: int, data: bytes) -> tuple[Message | None, str]:
    """Return the message, or the text of the error."""
    try:
        return decode(kind, version, data), ""
    except WireError as error:
        return None, str(error)


def is_valid(kind: type[Message], message: str) -> bool:
    """Whether the slow decoder finds no error in the fields; a request may be followed by more bytes."""
    return ("bytes follow the end" if issubclass(kind, Request) else NOTHING_LEFT) in message


def test_changed_bytes_decode_or_raise_wire_error() -> None:
    rng = random.Random(2)
    rejected = accepted = 0
    for kind, version in all_messages():
        title = f"{kind.__name__} v{version}"
        plan = layout(kind, version)
        data = encode(random_message(rng, kind, version), version)
        for _ in range(MUTANTS):
            changed = mutant(rng, data)
            message, error_text = try_decode(kind, version, changed)
            if message is None:
                rejected += 1
                assert error_text.startswith(f"{title}: ")
                assert not is_valid(kind, error_text), changed.hex()
            else:
                accepted += 1
                assert is_valid(kind, str(decode_error(plan, title, changed, 0))), changed.hex()
                # Different bytes can have the same meaning; the encoder writes one form.
                decoded = decode(kind, version, encode(message, version))
                assert encode(decoded, version) == encode(message, version)
    assert rejected > 20_000
    assert accepted > 5_000


def test_changed_frames_decode_or_raise_wire_error() -> None:
    rng = random.Random(3)
    for kind, version in all_messages():
        message = random_message(rng, kind, version)
        encoded = (
            encode_request(message, version, 7, "client")
            if isinstance(message, Request)
            else encode_response(message, version, 7)  # type: ignore[arg-type]  # messages are requests or responses
        )
        for _ in range(10):
            changed = mutant(rng, encoded[4:])
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
    _, error_text = try_decode(*case, data)
    assert not is_valid(case[0], error_text)


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
    frames: list[bytes] = []
    for size in cuts:
        frames += reader.feed(stream[:size])
        stream = stream[size:]
    frames += reader.feed(stream)
    assert frames == bodies
    assert reader.pending_bytes == 0
