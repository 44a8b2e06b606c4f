"""Generates the function that writes one message class in one version.

The generated function appends to a bytearray in straight-line code: nested structs are loops within it, and
neighbouring fields of constant width are packed by one `struct`. Records that are large, or still in a file, are not
copied: the function notes a *hole*, which is the position in the bytearray where they belong.

Invariant: the length field before a hole has the hole's length, so bytes and holes put together are the message.
A field that the version does not have is left out silently, whatever its value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final, TypeAlias, TypeVar

from kafkalite.protocol import primitives
from kafkalite.protocol.layout import (
    ArrayType,
    BytesType,
    FieldLayout,
    FixedType,
    Layout,
    NestedType,
    RecordsType,
    StringType,
    Struct,
    WireType,
    is_uuid,
    layout_of,
)
from kafkalite.protocol.primitives import Hole
from kafkalite.protocol.source import Source

S = TypeVar("S", bound=Struct)

EncodeFunction: TypeAlias = Callable[[S, bytearray, list[Hole]], None]
"""Appends a message to the bytearray, and the holes in it to the list."""

_SHARED: Final[dict[str, object]] = {
    "pack": struct.pack,
    "uvarint": primitives.uvarint,
    "write_tags": primitives.write_tags,
    "write_records": primitives.write_records,
}
_WRITE_NULL: Final = {"h": r"out += b'\xff\xff'", "i": r"out += b'\xff\xff\xff\xff'"}
_WRITE_COMPACT_NULL: Final = "append(0)"


def compile_encoder(cls: type[S], version: int, flexible: bool) -> EncodeFunction[S]:
    """Makes the function that writes messages of one class and version."""
    source = Source(f"<encoder of {cls.__name__} v{version}>")
    _Generator(source).message(layout_of(cls, version, flexible))
    encode: EncodeFunction[S] = source.build("encode", _SHARED)
    return encode


class _Generator:
    """Writes the source of an encoder.

    Values of constant width wait in `_run` until something else comes; then one `pack` writes them all.
    """

    def __init__(self, source: Source) -> None:
        self._out = source
        self._run: list[tuple[str, str]] = []  # (format character, expression)

    def message(self, layout: Layout) -> None:
        with self._out.function("def encode(message, out, holes):"):
            self._out.line("append = out.append")
            self._struct(layout, "message")
            self._flush()

    def _struct(self, layout: Layout, this: str) -> None:
        for field in layout.ordered:
            self._value(field.wire, field.nullable, layout, f"{this}.{field.name}")
        if layout.flexible:
            self._tags(layout, this)

    def _tags(self, layout: Layout, this: str) -> None:
        out = self._out
        present = [self._is_present(field, f"{this}.{field.name}") for field in layout.tagged]
        waiting = list(self._run)
        with out.block(f"if {' or '.join([f'{this}.unknown_tags', *present])}:"):
            self._flush()
            tags = out.name("tags")
            out.line(f"{tags} = dict({this}.unknown_tags or ())")
            for field, condition in zip(layout.tagged, present, strict=True):
                writer = self._tag_writer(field, layout)
                out.line(f"if {condition}: {tags}[{field.tag}] = {writer}({this}.{field.name})")
            out.line(f"write_tags(out, {tags})")
        with out.block("else:"):
            self._run = waiting
            self._byte("0")

    def _is_present(self, field: FieldLayout, value: str) -> str:
        """The condition under which a tagged field is written: its value is not the default."""
        if field.default is None:
            return f"{value} is not None"
        if isinstance(field.wire, ArrayType):
            return value  # the default is empty, be it a list or a tuple
        return f"{value} != {self._out.constant(field.default)}"

    def _tag_writer(self, field: FieldLayout, layout: Layout) -> str:
        """Writes a function that makes the bytes of one tagged field, and returns the function's name."""
        writer = self._out.name("write_tag")
        inner = _Generator(self._out)
        with self._out.function(f"def {writer}(value):"):
            self._out.line("out = bytearray()")
            self._out.line("append = out.append")
            inner._value(field.wire, False, layout, "value")
            inner._flush()
            self._out.line("return out")
        return writer

    def _value(self, wire: WireType, nullable: bool, layout: Layout, value: str) -> None:
        out = self._out
        match wire:
            case FixedType():
                self._run.append((wire.format, f"{value}.bytes" if is_uuid(wire) else value))
            case StringType() | BytesType():
                self._sliced(wire, nullable, layout.flexible, value)
            case RecordsType():
                self._flush()
                out.line(f"write_records(out, holes, {value}, {layout.flexible})")
            case ArrayType(element):
                self._array(element, nullable, layout, value)
            case NestedType(cls):
                self._struct(layout_of(cls, layout.version, layout.flexible), value)

    def _sliced(self, wire: StringType | BytesType, nullable: bool, flexible: bool, value: str) -> None:
        out = self._out
        legacy = "h" if isinstance(wire, StringType) else "i"
        raw = out.name("raw")
        encoded = f"{value}.encode()" if isinstance(wire, StringType) else value
        if not nullable:
            out.line(f"{raw} = {encoded}")
            self._length(f"len({raw})", legacy, flexible)
            out.line(f"out += {raw}")
            return
        self._flush()
        out.line(f"{raw} = {value}")
        out.line(f"if {raw} is None: {_WRITE_COMPACT_NULL if flexible else _WRITE_NULL[legacy]}")
        with out.block("else:"):
            if isinstance(wire, StringType):
                out.line(f"{raw} = {raw}.encode()")
            self._length(f"len({raw})", legacy, flexible)
            out.line(f"out += {raw}")

    def _array(self, element: WireType, nullable: bool, layout: Layout, value: str) -> None:
        out = self._out
        items = out.name("items")
        if nullable:
            self._flush()
        out.line(f"{items} = {value}")
        if nullable:
            out.line(f"if {items} is None: {_WRITE_COMPACT_NULL if layout.flexible else _WRITE_NULL['i']}")
        with out.block("else:") if nullable else nullcontext():
            self._elements(element, layout, items)

    def _elements(self, element: WireType, layout: Layout, items: str) -> None:
        out = self._out
        if layout.flexible:
            waiting = list(self._run)
            with out.block(f"if not {items}:"):
                self._byte("1")
            self._run = waiting
        with out.block("else:") if layout.flexible else nullcontext():
            self._length(f"len({items})", "i", layout.flexible)
            if isinstance(element, FixedType) and not is_uuid(element):
                out.line(f"out += pack(f'>{{len({items})}}{element.format}', *{items})")
                return
            each = out.name("each")
            with out.block(f"for {each} in {items}:"):
                self._value(element, False, layout, each)
                self._flush()

    def _length(self, length: str, legacy: str, flexible: bool) -> None:
        """Writes a length or count that is not a null's."""
        out = self._out
        if not flexible:
            self._run.append((legacy, length))
            self._flush()
            return
        self._flush()
        size = out.name("n")
        out.line(f"{size} = {length} + 1")
        out.line(f"if {size} < 128: append({size})")
        out.line(f"else: out += uvarint({size})")

    def _byte(self, value: str) -> None:
        """Writes a byte, together with the values of constant width that wait, if there are any."""
        if self._run:
            self._run.append(("B", value))
            self._flush()
        else:
            self._out.line(f"append({value})")

    def _flush(self) -> None:
        """Writes the values of constant width that wait."""
        if not self._run:
            return
        formats = "".join(each for each, _ in self._run)
        pack = self._out.constant(struct.Struct(">" + formats).pack, "pack")
        self._out.line(f"out += {pack}({', '.join(value for _, value in self._run)})")
        self._run.clear()
