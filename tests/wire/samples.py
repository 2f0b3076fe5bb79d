"""Messages to try: every API and version, and values made from the layout of each."""

import random
import string
from collections.abc import Iterator

from hypothesis import strategies as st

from slackwater.wire.apis import APIS
from slackwater.wire.codec import request_type, response_type
from slackwater.wire.schema import (
    ARRAY,
    BOOLEAN,
    FLOAT64,
    STRING,
    STRUCT,
    UINT16,
    UUID,
    Layout,
    Message,
    Shape,
    Struct,
    layout,
)

_strategies: dict[tuple[type[Message], int], st.SearchStrategy[Struct]] = {}


def all_messages() -> Iterator[tuple[type[Message], int]]:
    """Every message in every version."""
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            yield request_type(api), version
            yield response_type(api), version


def named(case: tuple[type[Message], int]) -> str:
    """How a test names one of them."""
    return f"{case[0].__name__}-v{case[1]}"


def messages(message: type[Message], version: int) -> st.SearchStrategy[Message]:
    """Anything that this version can carry; what it cannot stays at its default."""
    made = _strategies.get((message, version))
    if made is None:
        made = _strategies[message, version] = _structures(layout(message, version))
    return made  # type: ignore[return-value]  # the layout of a message makes messages


def _structures(plan: Layout) -> st.SearchStrategy[Struct]:
    slots = {slot.name: _values(slot.shape, plan.flexible) for slot in plan.slots + plan.tagged}
    return st.builds(plan.struct, **slots)


def _values(shape: Shape, flexible: bool) -> st.SearchStrategy[object]:
    made = _present(shape, flexible)
    return st.none() | made if shape.nullable else made


def _present(shape: Shape, flexible: bool) -> st.SearchStrategy[object]:
    kind = shape.kind
    if kind is ARRAY:
        # Arrays of plain numbers are read and written in one go up to a size, and otherwise beyond it.
        return st.lists(_values(shape.of, flexible), max_size=70 if shape.of.kind.code else 3)
    if kind is STRUCT:
        return _structures(shape.struct)
    if kind is STRING:
        text = st.text(st.characters(codec="utf-8"), max_size=20)
        return text | st.integers(126, 300).map(lambda size: "é" * size)  # around where varints grow
    if kind is BOOLEAN:
        return st.booleans()
    if kind is FLOAT64:
        return st.floats(allow_nan=False)
    if kind is UUID:
        return st.binary(min_size=16, max_size=16)
    if kind.code:
        bits = 8 * kind.size
        if kind is UINT16:
            return st.integers(0, 2**bits - 1)
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.binary(max_size=40) | st.integers(126, 300).map(bytes)


def random_message(dice: random.Random, message: type[Message], version: int, set_share: float = 0.7) -> Message:
    """The same without hypothesis, for many at little cost; this share of the fields is set, the others are not."""
    made = _random_structure(dice, layout(message, version), set_share)
    assert isinstance(made, Message)
    return made


def _random_structure(dice: random.Random, plan: Layout, set_share: float) -> Struct:
    chosen = [slot for slot in plan.slots + plan.tagged if dice.random() < set_share]
    return plan.struct(**{slot.name: _random_value(dice, slot.shape, set_share) for slot in chosen})


def _random_value(dice: random.Random, shape: Shape, set_share: float) -> object:
    kind = shape.kind
    if shape.nullable and dice.random() < 0.2:
        return None
    if kind is ARRAY:
        most = 100 if shape.of.kind.code and dice.random() < 0.1 else 3
        return [_random_value(dice, shape.of, set_share) for _ in range(dice.randint(0, most))]
    if kind is STRUCT:
        return _random_structure(dice, shape.struct, set_share)
    size = dice.choice((0, 1, 7, 126, 127, 128, 300)) if dice.random() < 0.3 else dice.randint(0, 12)
    if kind is STRING:
        return "".join(dice.choices(string.ascii_letters + "é漢🌊", k=size))
    if kind is BOOLEAN:
        return dice.random() < 0.5
    if kind is FLOAT64:
        return dice.uniform(-1e9, 1e9)
    if kind is UUID:
        return dice.randbytes(16)
    if kind.code:
        bits = dice.randint(1, 8 * kind.size - 1)
        return dice.getrandbits(bits) if kind is UINT16 or dice.random() < 0.5 else -dice.getrandbits(bits)
    return dice.randbytes(size)
