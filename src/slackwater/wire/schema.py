"""How a message is written down: a dataclass is the schema, its annotations say what stands on the wire.

Rules kept here
- Fields stand in the order of the wire, under Kafka's names in snake_case, with Kafka's defaults.
- A field without `V` is there in every version in which its structure is. `V("5+")` says from which version on,
  `V("2-4")` until when. Where it is absent, reading gives the default.
- `X | None` may be null; `V(nullable="1+")` says in which versions, if not in all.
- `V(tag=0)` makes a tagged field (KIP-482): it is written only when it differs from its default.
- A structure that is usually at its default is frozen, so that all can share one.
- Writing a value that the version has no place for is an error, unless the field is `ignorable`, as in Kafka: a client
  must not believe that it has told the broker something.

    @dataclass(slots=True)
    class JoinGroupRequest(Request):
        API: ClassVar = JOIN_GROUP
        group_id: String = ""
        rebalance_timeout_ms: Annotated[Int32, V("1+", ignorable=True)] = -1
        group_instance_id: Annotated[String | None, V("5+")] = None
        protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)

A UUID is its 16 bytes, all zero when there is none: it is compared and used as a key far more often than shown.
Records are bytes to write, and a view of the frame when read, so that nothing is copied.

`layout()` resolves a class for one version; the codec and the fault finder read nothing but layouts.
"""

from dataclasses import MISSING, Field, fields
from types import NoneType, UnionType
from typing import Annotated, ClassVar, Final, NamedTuple, Union, get_args, get_origin

from slackwater.wire.apis import Api
from slackwater.wire.errors import WireError

_ALWAYS: Final = range(2**15)


class Kind(NamedTuple):
    """A type on the wire; `code` is its letter in the `struct` module where its size is fixed."""

    name: str
    code: str = ""
    size: int = 0


INT8: Final = Kind("int8", "b", 1)
INT16: Final = Kind("int16", "h", 2)
UINT16: Final = Kind("uint16", "H", 2)
INT32: Final = Kind("int32", "i", 4)
INT64: Final = Kind("int64", "q", 8)
FLOAT64: Final = Kind("float64", "d", 8)
BOOLEAN: Final = Kind("boolean", "?", 1)
UUID: Final = Kind("uuid", "16s", 16)
STRING: Final = Kind("string")
BYTES: Final = Kind("bytes")
RECORDS: Final = Kind("records")
ARRAY: Final = Kind("array")
STRUCT: Final = Kind("structure")

Int8 = Annotated[int, INT8]
Int16 = Annotated[int, INT16]
UInt16 = Annotated[int, UINT16]
Int32 = Annotated[int, INT32]
Int64 = Annotated[int, INT64]
Float64 = Annotated[float, FLOAT64]
Boolean = Annotated[bool, BOOLEAN]
Uuid = Annotated[bytes, UUID]
String = Annotated[str, STRING]
Bytes = Annotated[bytes, BYTES]
Records = Annotated[bytes | memoryview, RECORDS]

NO_UUID: Final = bytes(16)
MAX_STRING_BYTES: Final = 2**15 - 1


class V:
    """In which versions a field is there, and how."""

    __slots__ = ("ignorable", "nullable", "tag", "versions")

    def __init__(
        self, versions: str = "0+", *, nullable: str = "0+", tag: int | None = None, ignorable: bool = False
    ) -> None:
        self.versions = _versions(versions)
        self.nullable = _versions(nullable)
        self.tag = tag
        self.ignorable = ignorable


class Struct:
    """A part of a message that has fields of its own."""

    __slots__ = ()


class Message(Struct):
    """A whole message: the fields of one request or answer, without its header."""

    __slots__ = ()
    API: ClassVar[Api]


class Request(Message):
    """What a client asks."""

    __slots__ = ()


class Response(Message):
    """What a broker answers."""

    __slots__ = ()


class Shape(NamedTuple):
    """What one value looks like; arrays have an element, structures a layout, anything may be nullable."""

    kind: Kind
    nullable: bool = False
    element: "Shape | None" = None
    layout: "Layout | None" = None

    @property
    def of(self) -> "Shape":
        """The element of an array."""
        assert self.element is not None
        return self.element

    @property
    def struct(self) -> "Layout":
        """The layout of a structure."""
        assert self.layout is not None
        return self.layout


class Slot(NamedTuple):
    """A field in one version; the default may be called for anew where it is a list or a structure."""

    name: str
    shape: Shape
    default: object
    factory: type | None
    tag: int

    def default_value(self) -> object:
        """The value of a field that is absent."""
        return self.default if self.factory is None else self.factory()


class Layout(NamedTuple):
    """A structure in one version: the fields in order, the tagged ones, those that are absent, and of these the ones
    that must not be written with anything but their default."""

    struct: type[Struct]
    frozen: bool
    flexible: bool
    slots: tuple[Slot, ...]
    tagged: tuple[Slot, ...]
    absent: tuple[Slot, ...]
    refused: tuple[Slot, ...]

    def least_bytes(self) -> int:
        """What such a structure takes at least."""
        return sum(least_bytes(slot.shape, self.flexible) for slot in self.slots) + self.flexible


def least_bytes(shape: Shape, flexible: bool) -> int:
    """What such a value takes at least, so that an array cannot announce more elements than can follow."""
    if shape.kind.size:
        return shape.kind.size
    if shape.kind is STRUCT:
        return 1 if shape.nullable else shape.struct.least_bytes()
    if flexible:
        return 1
    return 2 if shape.kind is STRING else 4


def layout(message: type[Message], version: int) -> Layout:
    """The message in this version."""
    api = message.API
    if not api.speaks(version):
        raise WireError(
            f"{message.__name__} v{version} is unknown; the versions are {api.min_version} to {api.max_version}."
        )
    return _layout(message, version, api.is_flexible(version))


def _layout(struct: type[Struct], version: int, flexible: bool) -> Layout:
    present: list[Slot] = []
    absent: list[Slot] = []
    refused: list[Slot] = []
    for each in fields(struct):  # type: ignore[arg-type]  # every Struct but the bare bases is a dataclass
        notes = _notes(each)
        slot = _slot(each, notes, version, flexible)
        if version in notes.versions:
            present.append(slot)
            continue
        absent.append(slot)
        if not notes.ignorable:
            refused.append(slot)
    return Layout(
        struct,
        struct.__dataclass_params__.frozen,  # type: ignore[attr-defined]  # every dataclass has it
        flexible,
        tuple(slot for slot in present if slot.tag < 0),
        tuple(sorted((slot for slot in present if slot.tag >= 0), key=lambda slot: slot.tag)),
        tuple(absent),
        tuple(refused),
    )


def _slot(each: Field[object], notes: V, version: int, flexible: bool) -> Slot:
    shape = _shape(each.type, version, flexible)
    if shape.nullable and version not in notes.nullable:
        shape = shape._replace(nullable=False)
    factory = None if each.default_factory is MISSING else each.default_factory
    assert factory is None or isinstance(factory, type)
    default = None if each.default is MISSING else each.default
    return Slot(each.name, shape, default, factory, -1 if notes.tag is None else notes.tag)


def _notes(each: Field[object]) -> V:
    for note in getattr(each.type, "__metadata__", ()):
        if isinstance(note, V):
            return note
    return V()


def _shape(annotation: object, version: int, flexible: bool) -> Shape:
    """What an annotation says; `Annotated[String | None, V(…)]` and all its parts."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        for note in metadata:
            if isinstance(note, Kind):
                return Shape(note)
        return _shape(inner, version, flexible)
    if get_origin(annotation) in (Union, UnionType):
        (inner,) = (part for part in get_args(annotation) if part is not NoneType)
        return _shape(inner, version, flexible)._replace(nullable=True)
    if get_origin(annotation) is list:
        (inner,) = get_args(annotation)
        return Shape(ARRAY, element=_shape(inner, version, flexible))
    assert isinstance(annotation, type)
    assert issubclass(annotation, Struct)
    return Shape(STRUCT, layout=_layout(annotation, version, flexible))


def _versions(text: str) -> range:
    """ "3+", "2-4" or "1", as Kafka writes them."""
    if text.endswith("+"):
        return range(int(text[:-1]), _ALWAYS.stop)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
