"""Transaction markers, as bytes and as the other clients read them."""

from __future__ import annotations

import pytest
from aiokafka.record.memory_records import MemoryRecords

from kafkalite.errors import CorruptBatch
from kafkalite.records.compression import Codec
from kafkalite.records.control import ControlType, control_batch, control_type
from kafkalite.records.rows import Row, encode_rows, iter_rows
from tests.unit.records.samples import LIMIT, batch_of


@pytest.mark.parametrize("kind", ControlType)
def test_a_marker_reads_back(kind: ControlType) -> None:
    buffer = control_batch(
        kind, producer_id=9, producer_epoch=2, coordinator_epoch=5, timestamp=123, base_offset=40, leader_epoch=3
    )
    batch = batch_of(buffer)
    assert batch.crc_is_valid()
    assert control_type(batch) is kind
    assert (batch.attributes, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (0x30, 9, 2, -1)
    assert (batch.base_offset, batch.count, batch.leader_epoch) == (40, 1, 3)
    key, value = bytes([0, 0, 0, kind]), bytes([0, 0, 0, 0, 0, 5])
    assert list(iter_rows(batch, limit=LIMIT)) == [Row(40, 123, key, value)]


def test_aiokafka_reads_a_marker() -> None:
    batch = MemoryRecords(
        bytes(control_batch(ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0))
    ).next_batch()
    assert batch.is_control_batch
    assert batch.is_transactional
    assert [record.key for record in batch] == [b"\x00\x00\x00\x01"]


def test_an_unknown_kind_is_none() -> None:
    assert control_type(batch_of(encode_rows([Row(0, 0, b"\x00\x00\x00\x02", b"")], is_control=True))) is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_control_batch_without_a_kind_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        control_type(batch_of(encode_rows([Row(0, 0, key, b"")], codec=Codec.ZSTD, is_control=True)))
