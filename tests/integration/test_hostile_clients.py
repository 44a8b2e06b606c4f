"""Hundreds of hostile frames and requests against a live broker, beside a client that just wants to work.

Each is answered with a right error, or its connection is closed. The good client notices nothing, the broker's memory
stays, its log has no fault of its own and few lines, and what was written is there after a restart.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from kafkalite.errors import ErrorCode, MalformedMessage
from kafkalite.protocol.api import APIS, ApiKey, decode_response
from kafkalite.protocol.messages.api_versions import ApiVersionsResponse
from kafkalite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkalite.records.rows import Row
from kafkalite.testing import EmbeddedBroker
from tests.support.broker_bad_frames import BAD_FRAMES, framed
from tests.support.broker_bad_values import BAD_VALUES, COMPACTED, NOW_MS, TOPIC, BadValue, bomb, error_codes
from tests.support.broker_wire import Closed, Wire, batch_of_values, has_faults, resident_bytes

MIB = 1024 * 1024
GOOD = "good"
ROUNDS = 20
"""So often at least the good client has worked beside the hostile ones."""
PATIENCE_SECONDS = 2.0
"""A good client's request may take this long on a machine that has other things to do."""


class GoodClient:
    """Produces and fetches all the time, and measures how long it has to wait."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: BaseException | None = None
        self.values: list[bytes] = []
        self.longest_wait = 0.0

    def __enter__(self) -> GoodClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + 60
        while len(self.values) <= ROUNDS and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        self._is_stopping.set()
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with Wire(self._port) as wire:
                while not self._is_stopping.is_set():
                    self._work(wire)
                    self._is_stopping.wait(0.005)
        except BaseException as failure:
            self._failure = failure

    def _work(self, wire: Wire) -> None:
        value = b"good %d" % len(self.values)
        begun = time.monotonic()
        answer = wire.produce(GOOD, batch_of_values([value]))
        assert (answer.error_code, answer.base_offset) == (0, len(self.values))
        found = wire.fetch(GOOD, answer.base_offset)
        assert [row.value for row in found.rows] == [value]
        self.longest_wait = max(self.longest_wait, time.monotonic() - begun)
        self.values.append(value)


def create(wire: Wire, topic: str, **config: str) -> None:
    configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in config.items()]
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=configs)
    assert wire.ask(CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse).topics[0].error_code == 0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"max.partitions": "100"}) as broker:
        with Wire(broker.port) as wire:
            create(wire, TOPIC)
            create(wire, GOOD)
            create(wire, COMPACTED, cleanup_policy="compact")
            wire.produce(TOPIC, batch_of_values([b"value"]))
        yield broker


def check_unharmed(broker: EmbeddedBroker, good: GoodClient, before: int, *, lines: int) -> None:
    assert len(good.values) > ROUNDS
    assert good.longest_wait < PATIENCE_SECONDS, f"the good client waited {good.longest_wait:.1f} s"
    said = broker.stderr()
    assert not has_faults(said), said[-5000:]
    assert len(said.splitlines()) <= lines, said[:5000]
    grown = resident_bytes(broker.pid) - before
    assert grown <= 48 * MIB, f"the broker has grown by {grown / MIB:.0f} MiB"
    broker.restart()
    with Wire(broker.port) as wire:
        rows: list[Row] = []
        while len(rows) < len(good.values):
            found = wire.fetch(GOOD, len(rows)).rows
            assert found
            rows += found
        assert [row.value for row in rows] == good.values


def test_frames_that_are_no_requests_close_their_connection_only(broker: EmbeddedBroker) -> None:
    before = resident_bytes(broker.pid)
    survivors = []
    with GoodClient(broker.port) as good:
        for bad in BAD_FRAMES:
            with Wire(broker.port, timeout=10) as wire:
                try:
                    wire.send_bytes(bad.data)
                    wire.socket.shutdown(socket.SHUT_WR)
                    answer = wire.receive_frame()
                except (Closed, OSError):
                    continue
                if not bad.may_be_answered:
                    survivors.append(f"{bad.name}: answered with {answer[:40]!r}")
    assert len(BAD_FRAMES) > 200
    assert not survivors, "\n".join(survivors)
    check_unharmed(broker, good, before, lines=20)


def judge(port: int, bad: BadValue) -> str | None:
    """What is wrong with how the broker takes this, None if nothing is."""
    response = next(api.response for api in APIS.values() if isinstance(bad.request, api.request))
    with Wire(port, timeout=20) as wire:
        try:
            codes = error_codes(wire.ask(bad.request, response, bad.version))
        except (Closed, TimeoutError, MalformedMessage) as end:
            return f"{bad.name}: no answer ({end!r})" if bad.codes else None
    if codes <= bad.codes and bad.codes:
        return None
    return f"{bad.name}: answered with {[ErrorCode(code).name for code in codes]}"


def test_requests_with_hostile_values_get_a_right_error(broker: EmbeddedBroker) -> None:
    before = resident_bytes(broker.pid)
    with GoodClient(broker.port) as good:
        wrong = [said for bad in BAD_VALUES if (said := judge(broker.port, bad)) is not None]
    assert not wrong, "\n".join(wrong)
    assert len(BAD_VALUES) > 150
    check_unharmed(broker, good, before, lines=20)
    # Nothing was written by what was refused.
    with Wire(broker.port) as wire:
        assert [row.value for row in wire.fetch(TOPIC, 0).rows][:1] == [b"value"]
        assert wire.fetch(COMPACTED, 0).high_watermark == 0
        assert not (broker.data.parent / "etc").exists()


@pytest.mark.parametrize("version", [-1, 5, 99, 32_767])
def test_unknown_versions_of_api_versions_are_answered_in_version_0(broker: EmbeddedBroker, version: int) -> None:
    with Wire(broker.port) as wire:
        wire.send_bytes(framed(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, -1) + b"\0noise"))
        header, answer = decode_response(wire.receive_frame(), ApiVersionsResponse, 0)
        assert (header.correlation_id, answer.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)


def test_a_bomb_to_a_compacted_topic_harms_nobody(broker: EmbeddedBroker) -> None:
    """20 million records in a batch of some kilobytes, not one of which has a key."""
    before = resident_bytes(broker.pid)
    batch = bomb(20_000_000)
    assert len(batch) < 100_000
    with GoodClient(broker.port) as good, Wire(broker.port, timeout=60) as wire:
        for _ in range(3):
            answer = wire.produce(COMPACTED, batch)
            assert answer.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
            assert len(answer.record_errors) <= 1_000
    check_unharmed(broker, good, before, lines=5)


def test_looking_for_a_time_in_a_bomb_harms_nobody(broker: EmbeddedBroker) -> None:
    """A plain topic takes batches unopened; a search by time has to open them."""
    before = resident_bytes(broker.pid)
    with Wire(broker.port, timeout=60) as wire:
        create(wire, "bombed")
        assert wire.produce("bombed", bomb(20_000_000, max_timestamp=NOW_MS + 10)).error_code == 0
        with GoodClient(broker.port) as good:
            wanted = ListOffsetsPartition(partition_index=0, timestamp=NOW_MS + 5)
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="bombed", partitions=[wanted])])
            wire.ask(request, ListOffsetsResponse)
    check_unharmed(broker, good, before, lines=5)
