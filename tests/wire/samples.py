"""Sample messages for every API and version, built from their layouts."""

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
    FieldType,
    Layout,
    Message,
    Struct,
    layout,
)

_strategies: dict[tuple[type[Message], int], st.SearchStrategy[Struct]] = {}


def all_messages() -> Iterator[tuple[type[Message], int]]:
    """Yield every message type in every version."""
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            yield request_type(api), version
            yield response_type(api), version


def messages(message: type[Message], version: int) -> st.SearchStrategy[Message]:
    """Return a strategy for messages of this version; absent fields have their defaults."""
    strategy = _strategies.get((message, version))
    if strategy is None:
        strategy = _strategies[message, version] = _structures(layout(message, version))
    return strategy  # type: ignore[return-value]  # the struct of a message layout is a message


def _structures(struct_layout: Layout) -> st.SearchStrategy[Struct]:
    fields = {
        field.name: _values(field.field_type, struct_layout.flexible)
        for field in struct_layout.fields + struct_layout.tagged
    }
    return st.builds(struct_layout.struct, **fields)


def _values(field_type: FieldType, flexible: bool) -> st.SearchStrategy[object]:
    strategy = _present(field_type, flexible)
    return st.none() | strategy if field_type.nullable else strategy


def _present(field_type: FieldType, flexible: bool) -> st.SearchStrategy[object]:
    kind = field_type.kind
    if kind is ARRAY:
        # The codec handles short and long arrays of numbers differently.
        return st.lists(
            _values(field_type.element_type, flexible), max_size=70 if field_type.element_type.kind.code else 3
        )
    if kind is STRUCT:
        return _structures(field_type.struct_layout)
    if kind is STRING:
        text = st.text(st.characters(codec="utf-8"), max_size=20)
        return text | st.integers(126, 300).map(lambda size: "é" * size)  # around the limits of one-byte varints
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


def random_message(rng: random.Random, message: type[Message], version: int, set_share: float = 0.7) -> Message:
    """Return a random message without Hypothesis, which is faster; `set_share` is the share of fields that are set."""
    structure = _random_structure(rng, layout(message, version), set_share)
    assert isinstance(structure, Message)
    return structure


def _random_structure(rng: random.Random, struct_layout: Layout, set_share: float) -> Struct:
    chosen = [field for field in struct_layout.fields + struct_layout.tagged if rng.random() < set_share]
    return struct_layout.struct(**{field.name: _random_value(rng, field.field_type, set_share) for field in chosen})


def _random_value(rng: random.Random, field_type: FieldType, set_share: float) -> object:
    kind = field_type.kind
    if field_type.nullable and rng.random() < 0.2:
        return None
    if kind is ARRAY:
        max_size = 100 if field_type.element_type.kind.code and rng.random() < 0.1 else 3
        return [_random_value(rng, field_type.element_type, set_share) for _ in range(rng.randint(0, max_size))]
    if kind is STRUCT:
        return _random_structure(rng, field_type.struct_layout, set_share)
    size = rng.choice((0, 1, 7, 126, 127, 128, 300)) if rng.random() < 0.3 else rng.randint(0, 12)
    if kind is STRING:
        return "".join(rng.choices(string.ascii_letters + "é漢🌊", k=size))
    if kind is BOOLEAN:
        return rng.random() < 0.5
    if kind is FLOAT64:
        return rng.uniform(-1e9, 1e9)
    if kind is UUID:
        return rng.randbytes(16)
    if kind.code:
        bits = rng.randint(1, 8 * kind.size - 1)
        return rng.getrandbits(bits) if kind is UINT16 or rng.random() < 0.5 else -rng.getrandbits(bits)
    return rng.randbytes(size)
