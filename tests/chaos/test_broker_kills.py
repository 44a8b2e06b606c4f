"""kill -9 of a broker that is producing, being read and keeping offsets; and again while it starts.

The clients go on through every kill as real ones do: they connect again and send again what has no answer. Afterwards
two readers, one that has read all along and one that begins then, have read everything, and the history is judged.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.testing import BrokerFailed, EmbeddedBroker
from tests.conftest import Trials
from tests.support.broker_history import BrokerHistory, Outcome
from tests.support.broker_load import (
    Client,
    Committer,
    Follower,
    LibrdkafkaProducer,
    PipeliningProducer,
    RefusedProducer,
)
from tests.support.broker_wire import Wire, has_faults

TOPIC = "under-fire"
PARTITIONS = 3
KILLS = 5
KINDS = {
    "plain": {},
    "small segments": {"segment.bytes": "60000"},
    "flushed": {"flush.messages": "1"},
}


class Campaign:
    """One broker with its clients, killed several times."""

    def __init__(self, folder: Path, topic_config: dict[str, str], seed: int) -> None:
        self._rng = random.Random(f"broker kills {seed}")
        # Checkpoints at short intervals, so that kills hit them too.
        self.broker = EmbeddedBroker({"log.flush.offset.checkpoint.interval.ms": "150"}, data=folder)
        self.broker.start()
        with Wire(self.broker.port) as wire:
            configs = [CreatableTopicConfig(name=name, value=value) for name, value in topic_config.items()]
            topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, configs=configs)
            created = wire.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
            assert created.topics[0].error_code == 0
        self.history = BrokerHistory()
        port = self.broker.port
        self.raw = [
            PipeliningProducer(f"raw-{number}", port, self.history, TOPIC, PARTITIONS, seed) for number in range(2)
        ]
        self.follower = Follower("follower", port, self.history, TOPIC, PARTITIONS)
        self.committers = [Committer(f"group-{number}", port, TOPIC) for number in range(2)]
        self.producers: list[Client] = [
            *self.raw,
            *(LibrdkafkaProducer(f"librdkafka-{number}", port, self.history, TOPIC, PARTITIONS) for number in range(2)),
            RefusedProducer("refused", port, self.history, TOPIC),
        ]
        self.clients: list[Client] = [*self.producers, self.follower, *self.committers]
        self.kills = 0

    def run(self) -> None:
        try:
            for client in self.clients:
                client.start()
            while self.kills < KILLS:
                time.sleep(self._rng.uniform(0.05, 0.6))
                self.broker.kill()
                self.kills += 1
                if self._rng.random() < 0.4:
                    self._die_while_starting()
                self.broker.start()
                self._check_offsets()
            time.sleep(0.1)
            for client in self.clients:
                client.stop()
            self._check_offsets()
            self.follower.read_all()
            Follower("late reader", self.broker.port, self.history, TOPIC, PARTITIONS).read_all()
            faults = has_faults(self.broker.stderr())
            assert not faults, self.broker.stderr()[-5000:]
        finally:
            for client in self.clients:
                client.is_stopping.set()
            self.broker.close()

    def _die_while_starting(self) -> None:
        """Kill it somewhere between its first instruction and its first answers."""
        delay = self._rng.uniform(0.02, 0.5)

        def kill() -> None:
            time.sleep(delay)
            os.kill(self.broker.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            self.broker.start()
        except BrokerFailed:
            killer.join()
        else:
            killer.join()
            self.broker.kill()
        self.kills += 1

    def _check_offsets(self) -> None:
        for group in self.committers:
            acknowledged = group.acknowledged
            committed = group.committed()
            assert acknowledged <= committed <= group.begun, f"{group.name}: {acknowledged} was acknowledged"


@pytest.mark.parametrize("kind", KINDS)
def test_killed_brokers_lose_and_double_nothing(
    tmp_path: Path, trials: Trials, kind: str, record_property: Callable[[str, object], None]
) -> None:
    totals = {"kills": 0, "acknowledged": 0, "unknown": 0, "sent again": 0}

    def trial(seed: int) -> None:
        campaign = Campaign(tmp_path / f"data-{seed}", KINDS[kind], seed)
        campaign.run()
        violations = campaign.history.violations()
        assert not violations, "\n".join(violations[:20])
        assert campaign.history.count(Outcome.FAIL) > 0
        assert sum(producer.sent_again for producer in campaign.raw) > 0, "no batch was ever sent again"
        assert all(group.acknowledged for group in campaign.committers)
        totals["kills"] += campaign.kills
        totals["acknowledged"] += campaign.history.count(Outcome.OK)
        totals["unknown"] += campaign.history.count(Outcome.UNKNOWN)
        totals["sent again"] += sum(producer.sent_again for producer in campaign.raw)

    trials(trial, small=1, large=20)
    for name, value in totals.items():
        record_property(name, value)
