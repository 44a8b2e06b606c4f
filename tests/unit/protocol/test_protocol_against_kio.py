"""Every message in every version is, byte for byte, what kio (generated from Kafka's tables) reads and writes."""

from __future__ import annotations

import random

import pytest

from kafkalite.protocol.schema import Message
from tests.unit.protocol.kio_bridge import (
    differences,
    kio_class,
    kio_decode,
    kio_encode,
    message_versions,
    random_kio,
    to_ours,
)

INSTANCES_PER_VERSION = 60
CASES = [pytest.param(cls, version, id=f"{cls.__name__}-v{version}") for cls, version in message_versions()]


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_bytes_are_identical_with_kio_in_both_directions(cls: type[Message], version: int) -> None:
    rng = random.Random(f"{cls.__name__} {version}")
    theirs = kio_class(cls, version)
    for _ in range(INSTANCES_PER_VERSION):
        entity = random_kio(theirs, rng)
        wire = kio_encode(entity)
        message = to_ours(entity, cls, version)

        assert message.encode(version) == wire
        assert kio_decode(theirs, message.encode(version)) == entity
        assert cls.decode(wire, version) == message
        assert cls.decode(wire, version).encode(version) == wire


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_tags_and_nulls_are_declared_as_kio_declares_them(cls: type[Message], version: int) -> None:
    assert list(differences(kio_class(cls, version), cls, version, cls.is_flexible(version))) == []


def test_the_profile_of_versions_is_covered() -> None:
    assert len(CASES) > 250
