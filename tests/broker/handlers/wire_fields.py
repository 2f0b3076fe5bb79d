"""The fields each version has, as Kafka 4.3.1's own classes name them (`tests/data/api_fields.json`)."""

import json
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import cast

Tree = dict[str, "Tree | None"]

_FIELDS: dict[str, dict[str, Tree]] = json.loads(
    (Path(__file__).parent.parent.parent / "data" / "api_fields.json").read_text()
)


def assert_fields(message: str, version: int, answer: dict[str, object]) -> None:
    """The answer, and every structure in it, has exactly the version's fields, in the wire's order."""
    _compare(_FIELDS[message][str(version)], answer)


def assert_takes(message: str, versions: range, request: Callable[..., object], *beside: str) -> None:
    """`request` takes every field that any of the versions has, and nothing else but `beside`."""
    known = {field for version in versions for field in _FIELDS[message][str(version)]}
    assert set(signature(request).parameters) - {"version", *beside} == known


def _compare(tree: Tree, found: dict[str, object]) -> None:
    assert list(found) == list(tree)
    for name, inner in tree.items():
        if inner is not None:
            elements = cast(list[dict[str, object]], found[name])
            assert elements, f"{name} must not be empty here: its fields would go unseen"
            for element in elements:
                _compare(inner, element)
