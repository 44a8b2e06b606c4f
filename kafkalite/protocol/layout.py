"""What a message class declares, resolved for one version of its API.

`Struct` turns the annotations of its subclasses into slotted, keyword-only dataclasses; `field` adds the versions.
`layout_of(cls, version)` says which fields are on the wire in that version, in which order and form. The
generators in `encoder` and `decoder` read layouts only; nobody else needs them.
"""

from __future__ import annotations

import dataclasses
import struct
import types
import typing
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, dataclass_transform, overload

from kafkalite.protocol.primitives import Fixed, RecordsMarker

T = TypeVar("T")
_REQUIRED: Final = dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class Presence:
    """In which versions a field is on the wire, where it may be null, and its tag if it is a tagged field."""

    since: int = 0
    until: int = 32_767
    nullable_since: int = 0
    tag: int | None = None


_ALWAYS: Final = Presence()


@overload
def field(*, default: T, since: int = ..., until: int = ..., nullable_since: int = ..., tag: int | None = ...) -> T: ...
@overload
def field(*, since: int = ..., until: int = ..., nullable_since: int = ..., tag: int | None = ...) -> Any: ...
def field(
    *,
    default: object = _REQUIRED,
    since: int = 0,
    until: int = 32_767,
    nullable_since: int = 0,
    tag: int | None = None,
) -> object:
    """Declares a field that is not the same in all versions of its message.

    `since` and `until` are the first and last version that have it; in others it keeps its default. A field whose
    annotation allows None is nullable from `nullable_since` on. With a `tag` it is an optional tagged field.
    """
    presence = Presence(since, until, nullable_since, tag)
    if default is _REQUIRED:
        return dataclasses.field(metadata={"presence": presence})
    return dataclasses.field(default=default, metadata={"presence": presence})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class StructType(type):
    """Makes each `Struct` subclass a dataclass with slots; keywords of the class statement become its attributes."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **attributes: object) -> StructType:
        cls: Any = super().__new__(mcs, name, bases, namespace | attributes)
        # dataclass(slots=True) must make the class a second time; it comes back here with its slots defined.
        if "__slots__" not in namespace:
            cls = dataclass(slots=True, kw_only=True)(cls)
        assert isinstance(cls, StructType)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: object) -> None:
        super().__init__(name, bases, namespace)


class Struct(metaclass=StructType):
    """A group of fields on the wire. A peer's tagged fields that we do not know are kept and written again."""

    unknown_tags: dict[int, bytes] | None = dataclasses.field(default=None, repr=False)


# ---------------------------------------------------------------- the types of fields


@dataclass(frozen=True, slots=True)
class FixedType:
    """A number, bool or uuid."""

    format: str

    @property
    def size(self) -> int:
        return struct.calcsize(">" + self.format)


@dataclass(frozen=True, slots=True)
class StringType:
    """UTF-8 text."""


@dataclass(frozen=True, slots=True)
class BytesType:
    """Opaque bytes, copied when read."""


@dataclass(frozen=True, slots=True)
class RecordsType:
    """Record batches: a view of the frame when read, possibly a file range when written."""


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of elements of one type; an element is never null."""

    element: WireType


@dataclass(frozen=True, slots=True)
class NestedType:
    """A nested struct."""

    cls: type[Struct]


WireType: typing.TypeAlias = FixedType | StringType | BytesType | RecordsType | ArrayType | NestedType

_UUID: Final = FixedType("16s")


def is_uuid(wire: WireType) -> bool:
    """A uuid is 16 bytes to `struct`, but not to the message."""
    return wire == _UUID


def _wire_type(annotation: Any) -> tuple[WireType, bool]:
    """Reads an annotation: the type on the wire, and whether None is allowed."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        members = typing.get_args(annotation)
        if len(members) == 2 and types.NoneType in members:
            (member,) = (m for m in members if m is not types.NoneType)
            return _wire_type(member)[0], True
    if typing.get_origin(annotation) is typing.Annotated:
        marker = annotation.__metadata__[0]
        if isinstance(marker, Fixed):
            return FixedType(marker.format), False
        if marker is RecordsMarker:
            return RecordsType(), False
    if typing.get_origin(annotation) is Sequence:
        return ArrayType(_wire_type(typing.get_args(annotation)[0])[0]), False
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return NestedType(annotation), False
    plain: dict[Any, WireType] = {bool: FixedType("?"), str: StringType(), bytes: BytesType(), uuid.UUID: _UUID}
    if annotation in plain:
        return plain[annotation], False
    raise TypeError(f"{annotation!r} is not a type of the wire")


# ---------------------------------------------------------------- layouts


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """One field in one version."""

    name: str
    wire: WireType
    nullable: bool
    default: object
    tag: int | None


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a struct in one version: in order on the wire, tagged, and not there at all."""

    cls: type[Struct]
    version: int
    flexible: bool
    ordered: tuple[FieldLayout, ...]
    tagged: tuple[FieldLayout, ...]
    absent: tuple[FieldLayout, ...]


def layout_of(cls: type[Struct], version: int, flexible: bool) -> Layout:
    """Resolves the class for a version."""
    hints = typing.get_type_hints(cls, include_extras=True)
    ordered, tagged, absent = [], [], []
    for declared in dataclasses.fields(cls):
        if declared.name == "unknown_tags":
            continue
        presence: Presence = declared.metadata.get("presence", _ALWAYS)
        wire, optional = _wire_type(hints[declared.name])
        nullable = optional and version >= presence.nullable_since
        resolved = FieldLayout(declared.name, wire, nullable, declared.default, presence.tag)
        if not presence.since <= version <= presence.until:
            if declared.default is _REQUIRED:
                raise TypeError(f"{cls.__name__}.{declared.name} is not in version {version} and needs a default")
            absent.append(resolved)
        elif presence.tag is not None:
            tagged.append(resolved)
        elif nullable and isinstance(wire, NestedType):
            raise TypeError(f"{cls.__name__}.{declared.name}: a struct may be null only as a tagged field")
        else:
            ordered.append(resolved)
    return Layout(cls, version, flexible, tuple(ordered), tuple(tagged), tuple(absent))


def smallest_size(wire: WireType, version: int, flexible: bool) -> int:
    """The fewest bytes that a value of this type takes: by it, an array's count is checked before it is believed."""
    match wire:
        case FixedType():
            return wire.size
        case StringType():
            return 1 if flexible else 2
        case BytesType() | RecordsType() | ArrayType():
            return 1 if flexible else 4
        case NestedType(cls):
            layout = layout_of(cls, version, flexible)
            fields = sum(smallest_size(each.wire, version, flexible) for each in layout.ordered)
            return fields + 1 if flexible else max(fields, 1)


def carries_records(cls: type[Struct], version: int, flexible: bool) -> bool:
    """Whether there are record batches somewhere in the struct."""

    def within(wire: WireType) -> bool:
        match wire:
            case ArrayType(element):
                return within(element)
            case NestedType(nested):
                return carries_records(nested, version, flexible)
            case _:
                return isinstance(wire, RecordsType)

    return any(within(each.wire) for each in layout_of(cls, version, flexible).ordered)
