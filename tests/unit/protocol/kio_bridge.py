"""Between our messages and kio's, which are generated from Kafka's own field tables.

kio has a module per API and version, tuples for arrays, and richer types for some numbers: `timedelta` and `datetime`
for milliseconds, an enum for error codes, None for a zero uuid. Its fields have the order of Kafka's tables, as ours
do, so fields are paired by position. `random_kio` makes instances of kio's classes; `to_ours` turns them into ours.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import random
import re
import types
import typing
import uuid
from collections.abc import Callable, Iterator

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from kafkalite.protocol.api import APIS
from kafkalite.protocol.layout import ArrayType, FieldLayout, FixedType, NestedType, Struct, layout_of
from kafkalite.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafkalite.protocol.schema import ZERO_UUID, Message

Entity: typing.TypeAlias = typing.Any

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "a", "topic-1", "ünï-cödé", "日本語", "x" * 126, "y" * 127, "z" * 300)


def message_versions() -> Iterator[tuple[type[Message], int]]:
    """Each message class with each of its versions."""
    classes = [cls for api in APIS.values() for cls in (api.request, api.response)]
    classes += [ConsumerProtocolSubscription, ConsumerProtocolAssignment]
    for cls in classes:
        for version in range(cls.versions[0], cls.versions[1] + 1):
            yield cls, version


def kio_class(cls: type[Message], version: int) -> Entity:
    """kio's class for ours."""
    stem, kind = cls.__name__, "data"
    for suffix in ("Request", "Response"):
        if stem.endswith(suffix):
            stem, kind = stem.removesuffix(suffix), suffix.lower()
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", stem).lower()
    module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
    return getattr(module, cls.__name__)


def kio_encode(entity: Entity) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def kio_decode(cls: Entity, data: bytes) -> Entity:
    entity, size = entity_reader(cls)(data, 0)
    assert size == len(data)
    return entity


# ---------------------------------------------------------------- random instances


def random_kio(cls: Entity, rng: random.Random) -> Entity:
    values = {}
    for field in dataclasses.fields(cls):
        if "tag" in field.metadata and rng.random() < 0.4:
            continue  # keeps its default, and so stays off the wire
        values[field.name] = _random_value(field, rng)
    return cls(**values)


def _random_value(field: Entity, rng: random.Random) -> object:
    annotation, optional = _without_none(field.type)
    if optional and rng.random() < 0.25:
        return None
    origin: object = typing.get_origin(annotation)
    if origin is tuple:
        (element, _) = typing.get_args(annotation)
        return tuple(_random_single(element, field, rng) for _ in range(rng.choice((0, 1, 1, 2, 3))))
    return _random_single(annotation, field, rng)


def _random_single(annotation: Entity, field: Entity, rng: random.Random) -> object:
    if dataclasses.is_dataclass(annotation):
        return random_kio(annotation, rng)
    kind: str = field.metadata["kafka_type"]
    match kind:
        case "string":
            return rng.choice(_TEXTS)
        case "bytes" | "records":
            return annotation(rng.randbytes(rng.choice((0, 1, 5, 126, 127, 128, 200, 3000))))
        case "bool":
            return rng.random() < 0.5
        case "uuid":
            return uuid.UUID(int=rng.getrandbits(127) + 1)
        case "error_code":
            return ErrorCode(rng.randint(-1, 100))
        case "timedelta_i32":
            return rng.choice((0, 1, 500, 2**31 - 1)) * _MS
        case "timedelta_i64":
            return rng.choice((-1, 0, 1, 10**12)) * _MS
        case "datetime_i64":
            return _EPOCH + rng.randint(0, 4 * 10**12) * _MS
    bits = _BITS[kind]
    return rng.choice((0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), rng.getrandbits(bits) - 2 ** (bits - 1)))


# ---------------------------------------------------------------- the two declarations, field by field


def paired_fields(entity: Entity, cls: type[Struct], version: int, flexible: bool) -> list[tuple[FieldLayout, Entity]]:
    """Our field and kio's for each field of the version, in the order of declaration."""
    layout = layout_of(cls, version, flexible)
    present = {each.name: each for each in (*layout.ordered, *layout.tagged)}
    mine = [present[each.name] for each in dataclasses.fields(cls) if each.name in present]
    theirs = dataclasses.fields(entity)
    assert len(mine) == len(theirs), f"{cls.__name__} v{version}: {[f.name for f in theirs]}"
    return list(zip(mine, theirs, strict=True))


def differences(entity: Entity, cls: type[Struct], version: int, flexible: bool) -> Iterator[str]:
    """Where our declaration says otherwise than kio's about tags and nulls."""
    for ours, field in paired_fields(entity, cls, version, flexible):
        annotation, optional = _without_none(field.type)
        where = f"{cls.__name__}.{ours.name} v{version}"
        if ours.tag != field.metadata.get("tag"):
            yield f"{where}: tag {ours.tag}"
        elif ours.tag is None and not isinstance(ours.wire, FixedType) and ours.nullable != optional:
            yield f"{where}: nullable {ours.nullable}"
        if isinstance(ours.wire, ArrayType) and isinstance(ours.wire.element, NestedType):
            yield from differences(typing.get_args(annotation)[0], ours.wire.element.cls, version, flexible)


# ---------------------------------------------------------------- kio's instances as ours


def to_ours(entity: Entity, cls: type[Message], version: int) -> Message:
    ours = _struct(entity, cls, version, cls.is_flexible(version))
    assert isinstance(ours, cls)
    return ours


def _struct(entity: Entity, cls: type[Struct], version: int, flexible: bool) -> Struct:
    values = {}
    for ours, field in paired_fields(entity, cls, version, flexible):
        value = getattr(entity, field.name)
        if ours.tag is not None and value == field.default:
            value = ours.default
        else:
            value = _value(value, ours, field, version, flexible)
        values[ours.name] = value
    make: Callable[..., Struct] = cls
    return make(**values)


def _value(value: object, ours: FieldLayout, field: Entity, version: int, flexible: bool) -> object:
    if isinstance(value, tuple):
        assert isinstance(ours.wire, ArrayType)
        if isinstance(ours.wire.element, NestedType):
            return [_struct(each, ours.wire.element.cls, version, flexible) for each in value]
        return list(value)
    if isinstance(ours.wire, NestedType):
        return _struct(value, ours.wire.cls, version, flexible)
    kind = field.metadata.get("kafka_type")
    if kind == "uuid":
        return value or ZERO_UUID
    if kind == "datetime_i64":
        return -1 if value is None else (typing.cast("datetime.datetime", value) - _EPOCH) // _MS
    if isinstance(value, datetime.timedelta):
        return value // _MS
    if isinstance(value, ErrorCode):
        return value.value
    return value


def _without_none(annotation: Entity) -> tuple[Entity, bool]:
    origin: object = typing.get_origin(annotation)
    if origin is not types.UnionType:
        return annotation, False
    members = [each for each in typing.get_args(annotation) if each is not types.NoneType]
    return members[0], len(members) < len(typing.get_args(annotation))
