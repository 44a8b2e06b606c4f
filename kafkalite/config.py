"""Every option of topics and of the broker: name, meaning, default and bounds, each written once.

A field `segment_bytes` is Kafka's option `segment.bytes`. Values come in as strings, from a file or from the
wire; an unknown name or a value out of bounds is an error that names the option and what it accepts. A broker's
configuration also takes every topic option, as the default of its topics, by the topic's name for it
(`retention.ms`) or by the name that Kafka's brokers have for it (`log.retention.ms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from kafkalite.options import Options, option, parse

NEVER: Final = 2**63 - 1
"""Kafka's way to say that a limit in messages or milliseconds does not apply."""

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(Options):
    """The options of one topic."""

    cleanup_policy: tuple[str, ...] = option(
        ("delete",),
        "delete old segments, compact to the last value per key, or both",
        choices=("delete", "compact"),
        broker_name="log.cleanup.policy",
    )
    compression_type: str = option(
        "producer",
        "batches are stored as their producer compressed them; kafkalite recompresses none",
        choices=("producer",),
    )
    delete_retention_ms: int = option(
        _DAY_MS,
        "how long a compacted topic keeps a tombstone",
        at_least=0,
        broker_name="log.cleaner.delete.retention.ms",
    )
    flush_messages: int = option(
        NEVER,
        "fsync after this many records; then records are shown to consumers only once flushed",
        at_least=1,
        broker_name="log.flush.interval.messages",
    )
    flush_ms: int = option(
        NEVER,
        "fsync after this long; then records are shown to consumers only once flushed",
        at_least=0,
        broker_name="log.flush.interval.ms",
    )
    index_interval_bytes: int = option(
        4 * _KIB,
        "bytes of log between two entries of the offset index",
        at_least=0,
        broker_name="log.index.interval.bytes",
    )
    max_compaction_lag_ms: int = option(
        NEVER,
        "compact a record at the latest this long after its time",
        at_least=1,
        broker_name="log.cleaner.max.compaction.lag.ms",
    )
    max_message_bytes: int = option(
        _MIB + 12, "the largest record batch accepted", at_least=0, at_most=2**31 - 1, broker_name="message.max.bytes"
    )
    message_timestamp_after_max_ms: int = option(
        _HOUR_MS,
        "how far in the future a create time may lie",
        at_least=0,
        broker_name="log.message.timestamp.after.max.ms",
    )
    message_timestamp_before_max_ms: int = option(
        NEVER,
        "how far in the past a create time may lie",
        at_least=0,
        broker_name="log.message.timestamp.before.max.ms",
    )
    message_timestamp_type: str = option(
        "CreateTime",
        "whose clock stamps the records",
        choices=("CreateTime", "LogAppendTime"),
        broker_name="log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio: float = option(
        0.5,
        "share of uncompacted bytes at which a log is compacted",
        at_least=0,
        at_most=1,
        broker_name="log.cleaner.min.cleanable.ratio",
    )
    min_insync_replicas: int = option(
        1, "with acks=all, refuse records while fewer replicas than this are in sync", at_least=1
    )
    min_compaction_lag_ms: int = option(
        0, "leave a record uncompacted at least this long", at_least=0, broker_name="log.cleaner.min.compaction.lag.ms"
    )
    retention_bytes: int = option(
        -1,
        "delete the oldest segments above this size of a partition; -1: no limit",
        at_least=-1,
        broker_name="log.retention.bytes",
    )
    retention_ms: int = option(
        7 * _DAY_MS, "delete segments older than this; -1: no limit", at_least=-1, broker_name="log.retention.ms"
    )
    segment_bytes: int = option(
        1024 * _MIB,
        "size at which a new segment file begins",
        at_least=14,
        at_most=2**31 - 1,
        broker_name="log.segment.bytes",
    )
    segment_index_bytes: int = option(
        10 * _MIB,
        "size of the offset index at which a new segment begins",
        at_least=12,
        broker_name="log.index.size.max.bytes",
    )
    segment_ms: int = option(
        7 * _DAY_MS, "time span of records after which a new segment begins", at_least=1, broker_name="log.roll.ms"
    )

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes_old_segments(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def shows_only_flushed(self) -> bool:
        """P2: with a flush setting of its own, a topic shows a record only after it is flushed."""
        return self.flush_messages != NEVER or self.flush_ms != NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig(Options):
    """The options of a broker's data directories."""

    log_cleaner_dedupe_buffer_size: int = option(
        128 * _MIB, "memory for the keys of one compaction pass; a pass ends early where it is full", at_least=_MIB
    )
    log_cleaner_io_max_bytes_per_second: int = option(
        NEVER, "bytes per second that compaction may read and write", at_least=1
    )
    log_open_segments_max: int = option(256, "closed segments kept open for readers, over all partitions", at_least=1)
    producer_id_expiration_ms: int = option(_DAY_MS, "forget an idempotent producer after this long", at_least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(StorageConfig):
    """The options of a broker. `topic_defaults` are those of its topics, where a topic has none of its own."""

    advertised_listeners: str = option("", "HOST:PORT that clients are told to connect to; empty: the listener's own")
    auto_create_topics_enable: bool = option(True, "create a topic when a client asks for it")
    connections_max_idle_ms: int = option(600_000, "close a connection that is silent for this long", at_least=1)
    default_replication_factor: int = option(1, "replicas of a topic that does not say how many", at_least=1)
    delete_topic_enable: bool = option(True, "let clients delete topics")
    fetch_max_bytes: int = option(55 * _MIB, "the most that one fetch is answered with", at_least=1024)
    frame_timeout_ms: int = option(
        30_000, "close a connection whose request does not arrive whole in this time", at_least=1
    )
    group_initial_rebalance_delay_ms: int = option(
        0, "how long the first member of an empty group waits for others", at_least=0
    )
    group_max_session_timeout_ms: int = option(
        1_800_000, "the longest session timeout that a member may ask for", at_least=1
    )
    group_max_size: int = option(2**31 - 1, "members of one group", at_least=1)
    group_min_session_timeout_ms: int = option(
        6_000, "the shortest session timeout that a member may ask for", at_least=1
    )
    listeners: str = option("127.0.0.1:9092", "HOST:PORT to listen on; port 0 takes a free one")
    log_cleaner_backoff_ms: int = option(15_000, "how often to look for logs to compact", at_least=1)
    log_dirs: tuple[str, ...] = option(("kafkalite-data",), "data directories, separated by commas")
    log_flush_offset_checkpoint_interval_ms: int = option(60_000, "how often to save recovery points", at_least=1)
    log_retention_check_interval_ms: int = option(300_000, "how often to apply retention", at_least=1)
    max_connections: int = option(2_000, "open connections", at_least=1)
    max_connections_per_ip: int = option(500, "open connections from one address", at_least=1)
    max_groups: int = option(10_000, "consumer groups", at_least=1)
    max_in_flight_bytes_per_connection: int = option(
        128 * _MIB, "bytes of unanswered requests of one connection, before no more of it are read", at_least=1
    )
    max_in_flight_requests_per_connection: int = option(
        100, "unanswered requests of one connection, before no more of it are read", at_least=1
    )
    max_partitions: int = option(10_000, "partitions of all topics", at_least=1)
    max_unsent_bytes_per_connection: int = option(
        _MIB, "bytes of unsent answers of one connection, before no more requests of it are read", at_least=1
    )
    node_id: int = option(0, "the number of this broker", at_least=0, at_most=2**31 - 1)
    num_partitions: int = option(1, "partitions of a topic that does not say how many", at_least=1)
    offset_metadata_max_bytes: int = option(4_096, "the longest note that may come with a committed offset", at_least=0)
    offsets_retention_check_interval_ms: int = option(600_000, "how often to look for expired offsets", at_least=1)
    offsets_retention_minutes: int = option(
        7 * 24 * 60, "forget the offsets of a group that is empty this long", at_least=1
    )
    offsets_topic_num_partitions: int = option(8, "partitions of __consumer_offsets", at_least=1)
    plain_request_max_bytes: int = option(8 * _MIB, "the largest request that carries no records", at_least=1024)
    shutdown_timeout_ms: int = option(10_000, "how long a stop waits for answers to be sent", at_least=0)
    socket_request_max_bytes: int = option(100 * _MIB, "the largest request", at_least=1024, at_most=2**31 - 1)
    topic_defaults: TopicConfig = TopicConfig()

    @classmethod
    def from_strings(cls, values: Mapping[str, str]) -> Self:
        """The options with these values set, those of topics among them, and the rest at their defaults."""
        own = cls.options()
        of_topics = TopicConfig.options()
        of_topics |= {
            found.metadata["broker_name"]: found for found in of_topics.values() if found.metadata["broker_name"]
        }
        topic_values = {name: text for name, text in values.items() if name in of_topics}
        defaults = TopicConfig(**parse(topic_values, of_topics))
        rest = {name: text for name, text in values.items() if name not in of_topics}
        return cls(topic_defaults=defaults, **parse(rest, own, also_known=of_topics))

    @classmethod
    def documentation(cls) -> list[tuple[str, str, str]]:
        return sorted(super(BrokerConfig, cls).documentation() + TopicConfig.documentation())

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The options of a topic that has set these itself."""
        return TopicConfig.from_strings({**self.topic_defaults.as_strings(), **overrides})
