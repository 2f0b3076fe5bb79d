"""The notation of messages: a dataclass is the schema, and its annotations define the wire types.

Rules:
- Fields are in wire order, with Kafka's names in snake_case and Kafka's defaults.
- A field without `V` exists in every version of its structure. `V("5+")` gives its first version, `V("2-4")` its first
  and last. In other versions, decoding sets the default.
- `X | None` may be null; `V(nullable="1+")` limits that to some versions.
- `V(tag=0)` is a tagged field (KIP-482): it is encoded only if it differs from its default.
- A structure that usually equals its default is frozen, so that messages can share one instance.
- Encoding a value that does not exist in the version is an error, unless the field is `ignorable`, as in Kafka: a
  client must not assume that the broker received it.

    @dataclass(slots=True)
    class JoinGroupRequest(Request):
        API: ClassVar = JOIN_GROUP
        group_id: String = ""
        rebalance_timeout_ms: Annotated[Int32, V("1+", ignorable=True)] = -1
        group_instance_id: Annotated[String | None, V("5+")] = None
        protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)

A UUID is its 16 bytes, all zero if it is absent, because it is compared and used as a key more often than printed.
Records are bytes when encoded, and a view of the frame when decoded, so that they are not copied.

`layout()` resolves a class for one version. The codec and the decode errors use only layouts.
"""

from dataclasses import MISSING, Field, fields
from types import NoneType, UnionType
from typing import Annotated, ClassVar, Final, NamedTuple, Union, get_args, get_origin

from slackwater.wire.apis import Api
from slackwater.wire.errors import WireError

_ALWAYS: Final = range(2**15)


class WireType(NamedTuple):
    """A wire type; `code` is its letter in the `struct` module if its size is fixed."""

    name: str
    code: str = ""
    size: int = 0


INT8: Final = WireType("int8", "b", 1)
INT16: Final = WireType("int16", "h", 2)
UINT16: Final = WireType("uint16", "H", 2)
INT32: Final = WireType("int32", "i", 4)
INT64: Final = WireType("int64", "q", 8)
FLOAT64: Final = WireType("float64", "d", 8)
BOOLEAN: Final = WireType("boolean", "?", 1)
UUID: Final = WireType("uuid", "16s", 16)
STRING: Final = WireType("string")
BYTES: Final = WireType("bytes")
RECORDS: Final = WireType("records")
ARRAY: Final = WireType("array")
STRUCT: Final = WireType("structure")

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


class V:
    """The versions of a field and how it is encoded in them."""

    __slots__ = ("ignorable", "nullable", "tag", "versions")

    def __init__(
        self, versions: str = "0+", *, nullable: str = "0+", tag: int | None = None, ignorable: bool = False
    ) -> None:
        self.versions = _versions(versions)
        self.nullable = _versions(nullable)
        self.tag = tag
        self.ignorable = ignorable


class Struct:
    """A structure within a message."""

    __slots__ = ()


class Message(Struct):
    """The fields of one request or response, without its header."""

    __slots__ = ()
    API: ClassVar[Api]


class Request(Message):
    """A message from a client to a broker."""

    __slots__ = ()


class Response(Message):
    """A message from a broker to a client."""

    __slots__ = ()


class Shape(NamedTuple):
    """The type of a value; arrays have an element, structures have a layout, any type may be nullable."""

    kind: WireType
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
    """A field in one version; `factory` creates the default if it is a list or a mutable structure."""

    name: str
    shape: Shape
    default: object
    factory: type | None
    tag: int

    def default_value(self) -> object:
        """Return the value of an absent field."""
        return self.default if self.factory is None else self.factory()


class Layout(NamedTuple):
    """A structure in one version.

    `absent` fields do not exist in the version; those in `refused` must have their default when encoded.
    """

    struct: type[Struct]
    frozen: bool
    flexible: bool
    slots: tuple[Slot, ...]
    tagged: tuple[Slot, ...]
    absent: tuple[Slot, ...]
    refused: tuple[Slot, ...]

    def min_bytes(self) -> int:
        """Return the minimum size of the structure."""
        return sum(min_bytes(slot.shape, self.flexible) for slot in self.slots) + self.flexible


def min_bytes(shape: Shape, flexible: bool) -> int:
    """Return the minimum size of a value; it limits the number of elements that an array can announce."""
    if shape.kind.size:
        return shape.kind.size
    if shape.kind is STRUCT:
        return 1 if shape.nullable else shape.struct.min_bytes()
    if flexible:
        return 1
    return 2 if shape.kind is STRING else 4


def layout(message: type[Message], version: int) -> Layout:
    """Resolve a message class for one version."""
    api = message.API
    if not api.supports(version):
        raise WireError(
            f"{message.__name__} v{version} is unknown; the versions are {api.min_version} to {api.max_version}."
        )
    return _layout(message, version, api.is_flexible(version))


def _layout(struct: type[Struct], version: int, flexible: bool) -> Layout:
    present: list[Slot] = []
    absent: list[Slot] = []
    refused: list[Slot] = []
    for field in fields(struct):  # type: ignore[arg-type]  # every Struct but the bare bases is a dataclass
        notes = _notes(field)
        slot = _slot(field, notes, version, flexible)
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


def _slot(field: Field[object], notes: V, version: int, flexible: bool) -> Slot:
    shape = _shape(field.type, version, flexible)
    if shape.nullable and version not in notes.nullable:
        shape = shape._replace(nullable=False)
    factory = None if field.default_factory is MISSING else field.default_factory
    assert factory is None or isinstance(factory, type)
    default = None if field.default is MISSING else field.default
    return Slot(field.name, shape, default, factory, -1 if notes.tag is None else notes.tag)


def _notes(field: Field[object]) -> V:
    for note in getattr(field.type, "__metadata__", ()):
        if isinstance(note, V):
            return note
    return V()


def _shape(annotation: object, version: int, flexible: bool) -> Shape:
    """Convert an annotation such as `Annotated[String | None, V(…)]`."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        for note in metadata:
            if isinstance(note, WireType):
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
    """Parse "3+", "2-4" or "1", Kafka's notation of versions."""
    if text.endswith("+"):
        return range(int(text[:-1]), _ALWAYS.stop)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
