"""Keys go where Kafka's own clients send them."""

import pytest

from kafkalite.client.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "expected"),  # signed, from the tests of Apache Kafka
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFF_FFFF


def test_a_partition_ignores_the_sign_of_the_hash() -> None:
    assert partition_for_key(b"foobar", 10) == (-790332482 & 0x7FFF_FFFF) % 10
    assert partition_for_key(b"", 7) in range(7)


def test_the_hash_agrees_with_kafka_python() -> None:
    partitioner = pytest.importorskip("kafka.partitioner.default")
    for key in [b"", b"a", b"ab", b"abcd", b"\xff" * 9, bytes(range(256))]:
        assert murmur2(key) == partitioner.murmur2(key) & 0xFFFF_FFFF
