"""The notation of messages: a dataclass is the schema, and its annotations define the wire types.

Rules:
- Fields are in wire order, with Kafka's names in snake_case and Kafka's defaults.
- A field without `Versions` exists in every version of its structure. `Versions("5+")` gives its first version,
  `Versions("2-4")` its first and last. In other versions, decoding sets the default.
- `X | None` may be null; `Versions(nullable="1+")` limits that to some versions.
- `Versions(tag=0)` is a tagged field (KIP-482): it is encoded only if it differs from its default.
- A structure that usually equals its default is frozen, so that messages can share one instance.
- Encoding a value that does not exist in the version is an error, unless the field is `ignorable`, as in Kafka: a
  client must not assume that the broker received it.

    @dataclass(slots=True)
    class JoinGroupRequest(Request):
        API: ClassVar = JOIN_GROUP
        group_id: String = ""
        rebalance_timeout_ms: Annotated[Int32, Versions("1+", ignorable=True)] = -1
        group_instance_id: Annotated[String | None, Versions("5+")] = None
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


class Versions:
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


class FieldType(NamedTuple):
    """The type of a value; arrays have an element, structures have a layout, any type may be nullable."""

    kind: WireType
    nullable: bool = False
    element: "FieldType | None" = None
    layout: "Layout | None" = None

    @property
    def element_type(self) -> "FieldType":
        """The element of an array."""
        assert self.element is not None
        return self.element

    @property
    def struct_layout(self) -> "Layout":
        """The layout of a structure."""
        assert self.layout is not None
        return self.layout


class VersionedField(NamedTuple):
    """A field in one version; `factory` creates the default if it is a list or a mutable structure."""

    name: str
    field_type: FieldType
    default: object
    factory: type | None
    tag: int

    def default_value(self) -> object:
        """Return the value of an absent field."""
        return self.default if self.factory is None else self.factory()


class Layout(NamedTuple):
    """A structure in one version.

    `absent` fields do not exist in the version; those in `must_be_default` must have their default when encoded.
    """

    struct: type[Struct]
    frozen: bool
    flexible: bool
    fields: tuple[VersionedField, ...]
    tagged: tuple[VersionedField, ...]
    absent: tuple[VersionedField, ...]
    must_be_default: tuple[VersionedField, ...]

    def min_bytes(self) -> int:
        """Return the minimum size of the structure."""
        return sum(min_bytes(field.field_type, self.flexible) for field in self.fields) + self.flexible


def min_bytes(field_type: FieldType, flexible: bool) -> int:
    """Return the minimum size of a value; it limits the number of elements that an array can announce."""
    if field_type.kind.size:
        return field_type.kind.size
    if field_type.kind is STRUCT:
        return 1 if field_type.nullable else field_type.struct_layout.min_bytes()
    if flexible:
        return 1
    return 2 if field_type.kind is STRING else 4


def layout(message: type[Message], version: int) -> Layout:
    """Resolve a message class for one version."""
    api = message.API
    if not api.supports(version):
        raise WireError(
            f"{message.__name__} v{version} is unknown; the versions are {api.min_version} to {api.max_version}."
        )
    return _layout(message, version, api.is_flexible(version))


def _layout(struct: type[Struct], version: int, flexible: bool) -> Layout:
    present: list[VersionedField] = []
    absent: list[VersionedField] = []
    must_be_default: list[VersionedField] = []
    for declared in fields(struct):  # type: ignore[arg-type]  # every Struct but the bare bases is a dataclass
        notes = _notes(declared)
        field = _versioned_field(declared, notes, version, flexible)
        if version in notes.versions:
            present.append(field)
            continue
        absent.append(field)
        if not notes.ignorable:
            must_be_default.append(field)
    return Layout(
        struct,
        struct.__dataclass_params__.frozen,  # type: ignore[attr-defined]  # every dataclass has it
        flexible,
        tuple(field for field in present if field.tag < 0),
        tuple(sorted((field for field in present if field.tag >= 0), key=lambda field: field.tag)),
        tuple(absent),
        tuple(must_be_default),
    )


def _versioned_field(declared: Field[object], notes: Versions, version: int, flexible: bool) -> VersionedField:
    field_type = _field_type(declared.type, version, flexible)
    if field_type.nullable and version not in notes.nullable:
        field_type = field_type._replace(nullable=False)
    factory = None if declared.default_factory is MISSING else declared.default_factory
    assert factory is None or isinstance(factory, type)
    default = None if declared.default is MISSING else declared.default
    return VersionedField(declared.name, field_type, default, factory, -1 if notes.tag is None else notes.tag)


def _notes(declared: Field[object]) -> Versions:
    for note in getattr(declared.type, "__metadata__", ()):
        if isinstance(note, Versions):
            return note
    return Versions()


def _field_type(annotation: object, version: int, flexible: bool) -> FieldType:
    """Convert an annotation such as `Annotated[String | None, Versions(…)]`."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        for note in metadata:
            if isinstance(note, WireType):
                return FieldType(note)
        return _field_type(inner, version, flexible)
    if get_origin(annotation) in (Union, UnionType):
        (inner,) = (part for part in get_args(annotation) if part is not NoneType)
        return _field_type(inner, version, flexible)._replace(nullable=True)
    if get_origin(annotation) is list:
        (inner,) = get_args(annotation)
        return FieldType(ARRAY, element=_field_type(inner, version, flexible))
    assert isinstance(annotation, type)
    assert issubclass(annotation, Struct)
    return FieldType(STRUCT, layout=_layout(annotation, version, flexible))


def _versions(text: str) -> range:
    """Parse "3+", "2-4" or "1", Kafka's notation of versions."""
    if text.endswith("+"):
        return range(int(text[:-1]), _ALWAYS.stop)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
