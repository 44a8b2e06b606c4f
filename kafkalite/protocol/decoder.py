"""Generates the function that reads one message class in one version.

The generated function is straight-line code: nested structs are loops within it, neighbouring fields of constant width
are read by one `struct`, absent fields get their defaults. Its docstring is its source, some lines of which are:

    n9 = data[at]                                                        # a compact array of structs
    at += 1
    if n9 > 127: …                                                       # a varint of several bytes
    n9 -= 1
    if not 0 <= n9 <= (end - at) // 11: raise bad_count(n9, end - at)
    for _ in range(n9):
        this11 = new(ListedPartition)
        this11.index, this11.error_code, n12 = unpack13(data, at)        # n12: the length of the next string

Invariants: `at` only grows; whatever is sliced was checked to lie before `end`; whatever is indexed or unpacked raises
by itself when it does not. So malformed input ends in one of the exceptions of `CAUSES`, and they become a
`MalformedMessage` that names message, field and position.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, TypeAlias, TypeVar

from kafkalite.errors import MalformedMessage
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
    carries_records,
    is_uuid,
    layout_of,
    smallest_size,
)
from kafkalite.protocol.primitives import BytesLike
from kafkalite.protocol.source import Source

S = TypeVar("S", bound=Struct)

DecodeFunction: TypeAlias = Callable[[BytesLike, int, bool], S]
"""Reads the message that begins at a position of the data; says whether it must end where the data end."""

_STRUCT_BUDGET: Final = (
    f"{primitives.FREE_STRUCTS} + end // {primitives.BYTES_PER_STRUCT}"
    f" if end < {primitives.MAX_STRUCTS * primitives.BYTES_PER_STRUCT} else {primitives.MAX_STRUCTS}"
)

_SHARED: Final[dict[str, object]] = {
    "CAUSES": (MalformedMessage, IndexError, struct.error, UnicodeDecodeError),
    "new": object.__new__,
    "unpack_from": struct.unpack_from,
    "read_uvarint": primitives.read_uvarint,
    "read_tags": primitives.read_tags,
    "read_uuid": primitives.read_uuid,
    "bad_length": primitives.bad_length,
    "bad_count": primitives.bad_count,
    "too_many_structs": primitives.too_many_structs,
    "trailing_bytes": primitives.trailing_bytes,
}


def compile_decoder(cls: type[S], version: int, flexible: bool) -> DecodeFunction[S]:
    """Makes the function that reads messages of one class and version."""
    title = f"{cls.__name__} v{version}"
    source = Source(f"<decoder of {title}>")
    _Generator(source, in_place=carries_records(cls, version, flexible)).message(layout_of(cls, version, flexible))
    decode: DecodeFunction[S] = source.build("decode", _SHARED | {"located": partial(_located, title, source)})
    return decode


def _located(title: str, source: Source, error: Exception) -> MalformedMessage:
    """Says where in a message an error happened, by the line of generated code that it happened in."""
    if isinstance(error, IndexError | struct.error):
        reason = "the message ends too early"
    else:
        reason = f"invalid UTF-8: {error}" if isinstance(error, UnicodeDecodeError) else str(error)
    place = ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source.filename:
            place = f"{source.field_at(trace.tb_lineno)} at byte {trace.tb_frame.f_locals['at']}"
        trace = trace.tb_next
    return MalformedMessage(f"{title}, {place}: {reason}")


class _Generator:
    """Writes the source of a decoder.

    Fields of constant width wait in `_run` until something else comes; then one `unpack_from` reads them all.
    """

    def __init__(self, source: Source, in_place: bool) -> None:
        self._out = source
        self._in_place = in_place
        self._run: list[tuple[str, str, str]] = []  # (format character, target of the assignment, field)
        self._after_run: list[tuple[str, str]] = []  # (statement, field)

    def message(self, layout: Layout) -> None:
        out = self._out
        with out.function("def decode(data, at, exact):"):
            if self._in_place:
                out.line("if type(data) is not memoryview: data = memoryview(data)")
            else:
                out.line("if type(data) is not bytes: data = bytes(data)")
            out.line("end = len(data)")
            out.line(f"room = {_STRUCT_BUDGET}")
            with out.block("try:"):
                message = self._struct(layout)
                with out.field("end of message"):
                    out.line("if exact and at != end: raise trailing_bytes(end - at)")
                out.line(f"return {message}")
            with out.block("except CAUSES as error:"):
                out.line("raise located(error) from None")

    def _struct(self, layout: Layout) -> str:
        """Reads a struct into a new variable, and returns its name."""
        out = self._out
        this = out.name("this")
        out.line(f"{this} = new({out.constant(layout.cls, layout.cls.__name__)})")
        for field in layout.ordered:
            with out.field(field.name):
                self._value(field.wire, field.nullable, layout, f"{this}.{field.name} = %s")
        for field in (*layout.absent, *layout.tagged):
            out.line(f"{this}.{field.name} = {out.constant(field.default, 'default')}")
        out.line(f"{this}.unknown_tags = None")
        if layout.flexible:
            with out.field("tagged fields"):
                self._tags(layout, this)
        self._flush()
        return this

    def _tags(self, layout: Layout, this: str) -> None:
        out = self._out
        tags = out.name("tags")
        self._byte(tags)
        with out.block(f"if {tags}:"):
            out.line(f"{tags}, at = read_tags(data, at - 1, end)")
            for field in layout.tagged:
                with out.field(field.name):
                    reader = self._tag_reader(field, layout)
                    out.line(f"if {field.tag} in {tags}: {this}.{field.name} = {reader}({tags}.pop({field.tag}))")
            out.line(f"{this}.unknown_tags = {tags} or None")

    def _tag_reader(self, field: FieldLayout, layout: Layout) -> str:
        """Writes a function that reads one tagged field from its bytes, and returns the function's name."""
        reader = self._out.name("read_tag")
        inner = _Generator(self._out, in_place=False)
        with self._out.function(f"def {reader}(data):"):
            self._out.line("at, end = 0, len(data)")
            self._out.line(f"room = {_STRUCT_BUDGET}")
            inner._value(field.wire, field.nullable, layout, "value = %s")
            inner._flush()
            self._out.line("if at != end: raise trailing_bytes(end - at)")
            self._out.line("return value")
        return reader

    # ------------------------------------------------ values; `assign` is "target = %s" or "items.append(%s)"

    def _value(self, wire: WireType, nullable: bool, layout: Layout, assign: str) -> None:
        match wire:
            case FixedType():
                self._fixed(wire, assign)
            case StringType():
                text = "str({}, 'utf-8')" if self._in_place else "{}.decode()"
                self._sliced(text, "h", nullable, layout.flexible, assign, primitives.MAX_STRING_BYTES)
            case BytesType():
                self._sliced("bytes({})" if self._in_place else "{}", "i", nullable, layout.flexible, assign)
            case RecordsType():
                self._sliced("{}", "i", nullable, layout.flexible, assign)
            case ArrayType(element):
                self._array(element, nullable, layout, assign)
            case NestedType(cls):
                self._flush()
                self._out.line(assign % self._struct(layout_of(cls, layout.version, layout.flexible)))

    def _fixed(self, wire: FixedType, assign: str) -> None:
        target, is_assignment, _ = assign.partition(" = ")
        field = self._out.current_field
        if is_assignment and not is_uuid(wire):
            self._run.append((wire.format, target, field))
            return
        value = self._out.name("value")
        self._run.append((wire.format, value, field))
        self._after_run.append((assign % (f"read_uuid({value})" if is_uuid(wire) else value), field))

    def _sliced(
        self, convert: str, legacy: str, nullable: bool, flexible: bool, assign: str, limit: int | None = None
    ) -> None:
        """Reads a length and that many bytes."""
        out = self._out
        length = self._length(legacy, flexible, limit)
        stop = out.name("stop")
        with self._unless_null(length, nullable, assign):
            out.line(f"{stop} = at + {length}")
            out.line(f"if {length} < 0 or {stop} > end: raise bad_length({length}, end - at)")
            out.line(assign % convert.format(f"data[at:{stop}]"))
            out.line(f"at = {stop}")

    def _array(self, element: WireType, nullable: bool, layout: Layout, assign: str) -> None:
        out = self._out
        count = self._length("i", layout.flexible)
        smallest = smallest_size(element, layout.version, layout.flexible)
        with self._unless_null(count, nullable, assign):
            out.line(f"if not 0 <= {count} <= (end - at) // {smallest}: raise bad_count({count}, end - at)")
            if isinstance(element, FixedType) and not is_uuid(element):
                out.line(assign % f"list(unpack_from(f'>{{{count}}}{element.format}', data, at))")
                out.line(f"at += {count} * {element.size}")
                return
            if isinstance(element, NestedType):
                out.line(f"room -= {count}")
                out.line(f"if room < 0: raise too_many_structs({count}, end)")
            items = out.name("items")
            out.line(f"{items} = []")
            with out.block(f"for _ in range({count}):"):
                self._value(element, False, layout, f"{items}.append(%s)")
                self._flush()
            out.line(assign % items)

    def _length(self, legacy: str, flexible: bool, limit: int | None = None) -> str:
        """Reads a length or count into a new variable; a null's is -1 in both forms."""
        out = self._out
        length = out.name("n")
        if not flexible:
            self._run.append((legacy, length, out.current_field))
            self._flush()
            return length
        self._byte(length)
        with out.block(f"if {length} > 127:"):
            out.line(f"if data[at] < 128: {length} += (data[at] - 1) << 7; at += 1")  # as in read_uvarint, but inline
            out.line(f"else: {length}, at = read_uvarint(data, at - 1)")
            if limit is not None:
                out.line(f"if {length} > {limit + 1}: raise bad_length({length} - 1, end - at)")
        out.line(f"{length} -= 1")
        return length

    def _byte(self, target: str) -> None:
        """Reads a byte, together with the fields of constant width that wait, if there are any."""
        if self._run:
            self._run.append(("B", target, self._out.current_field))
            self._flush()
        else:
            self._out.line(f"{target} = data[at]")
            self._out.line("at += 1")

    def _unless_null(self, length: str, nullable: bool, assign: str) -> AbstractContextManager[None]:
        """The block in which a value is known not to be null."""
        if not nullable:
            return nullcontext()
        self._out.line(f"if {length} == -1: {assign % None}")
        return self._out.block("else:")

    def _flush(self) -> None:
        """Reads the fields of constant width that wait."""
        if not self._run:
            return
        formats = "".join(each for each, _, _ in self._run)
        targets = ", ".join(target for _, target, _ in self._run)
        first, last = self._run[0][2], self._run[-1][2]
        unpacker = struct.Struct(">" + formats)
        unpack = self._out.constant(unpacker.unpack_from, "unpack")
        comma = "," if len(self._run) == 1 else ""
        self._out.line(f"{targets}{comma} = {unpack}(data, at)", first if first == last else f"{first} … {last}")
        self._out.line(f"at += {unpacker.size}")
        for statement, field in self._after_run:
            self._out.line(statement, field)
        self._run.clear()
        self._after_run.clear()
