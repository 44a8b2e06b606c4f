"""Python source under construction: the common ground of the two code generators.

A `Source` collects lines, the constants that they name, and for each line the message field that it serves. The
last makes errors precise at no cost: when a generated decoder fails, its traceback has the line, and the line has
the field. Generated code is made of our own classes only; nothing of a peer's ever gets into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Final

_INLINE_CONSTANTS: Final = (bool, int, str, bytes, type(None))


class Source:
    """One generated module."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self._lines: list[str] = []
        self._fields: list[str] = []
        self._constants: dict[str, object] = {}
        self._indent = 0
        self._field_path: list[str] = []
        self._names = 0

    def line(self, text: str, field: str | None = None) -> None:
        """Adds a line at the current indentation, on account of the current field or of a given one."""
        self._lines.append("    " * self._indent + text)
        self._fields.append(self.current_field if field is None else field)

    @property
    def current_field(self) -> str:
        """The path of the field that lines serve now, as in `topics.partitions.index`."""
        return ".".join(self._field_path)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Adds an indented block."""
        self.line(header)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def function(self, header: str) -> Iterator[None]:
        """Adds a function at the top level, wherever in another function we are; Python sees it as made before."""
        outer_lines, outer_fields, outer_indent = self._lines, self._fields, self._indent
        self._lines, self._fields, self._indent = [], [], 0
        with self.block(header):
            yield
        self._lines += outer_lines
        self._fields += outer_fields
        self._indent = outer_indent

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Says which field the lines within serve."""
        self._field_path.append(name)
        yield
        self._field_path.pop()

    def name(self, hint: str) -> str:
        """A variable name that is not used yet."""
        self._names += 1
        return f"{hint}{self._names}"

    def constant(self, value: object, hint: str = "constant") -> str:
        """An expression for a value that is known now: itself if it is simple, else a global name."""
        if type(value) in _INLINE_CONSTANTS:
            return repr(value)
        for name, known in self._constants.items():
            if known is value:
                return name
        name = self.name(hint)
        self._constants[name] = value
        return name

    def field_at(self, line_number: int) -> str:
        """The field that a line of the finished source serves."""
        return self._fields[line_number - 1]

    def build(self, function_name: str, shared: dict[str, object]) -> FunctionType:
        """Compiles; the function's docstring is its source, for those who want to see it."""
        text = "\n".join(self._lines)
        namespace: dict[str, object] = {**shared, **self._constants}
        exec(compile(text, self.filename, "exec"), namespace)
        function = namespace[function_name]
        assert isinstance(function, FunctionType)
        function.__doc__ = text
        return function
