"""The embedded broker of `kafkalite.testing`, and its pytest plugin, as another project's tests would use them."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.testing import BrokerFailed, EmbeddedBroker
from tests.compat.raw_connection import RawConnection
from tests.support.produced import produced

pytest_plugins = ["pytester"]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def test_a_broker_answers_and_is_gone_with_its_folder(broker: EmbeddedBroker) -> None:
    with RawConnection(broker.port) as raw:
        assert [(found.host, found.port) for found in raw.metadata().brokers] == [("127.0.0.1", broker.port)]
    assert broker.bootstrap == f"127.0.0.1:{broker.port}"
    data, pid = broker.data, broker.pid
    assert data.is_dir()
    broker.close()
    assert not data.exists()
    assert not Path("/proc", str(pid)).exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.port))


def test_settings_reach_the_broker() -> None:
    with EmbeddedBroker({"num.partitions": "3"}) as broker, RawConnection(broker.port) as raw:
        raw.metadata("new", create=True)
        assert len(raw.metadata("new").topics[0].partitions) == 3


def test_stopping_gives_the_exit_code_of_a_clean_end(broker: EmbeddedBroker) -> None:
    assert broker.stop() == 0
    with pytest.raises(BrokerFailed, match="not running"):
        broker.stop()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_data_and_port(broker: EmbeddedBroker, end: str) -> None:
    port, pid = broker.port, broker.pid
    with RawConnection(port) as raw:
        raw.create_topic("kept")
        raw.produce("kept", produced(b"value"))
    getattr(broker, end)()
    broker.restart()
    assert (broker.port, broker.pid != pid) == (port, True)
    with RawConnection(port) as raw:
        assert raw.fetch("kept", 0).responses[0].partitions[0].high_watermark == 1


def test_a_running_broker_is_restarted_too_and_not_started_twice(broker: EmbeddedBroker) -> None:
    pid = broker.pid
    with pytest.raises(BrokerFailed, match="running already"):
        broker.start()
    assert broker.restart().pid != pid


def test_a_folder_that_was_given_is_kept(tmp_path: Path) -> None:
    for expected in (0, 1):
        with EmbeddedBroker(data=tmp_path / "data") as broker, RawConnection(broker.port) as raw:
            known = [topic.name for topic in raw.metadata(version=0).topics]
            assert known.count("kept") == expected
            if not expected:
                raw.create_topic("kept")
    assert (tmp_path / "data").is_dir()


def test_a_broker_that_does_not_start_says_why() -> None:
    misspelt = EmbeddedBroker({"num.partitons": "3"})
    with pytest.raises(BrokerFailed, match=r"num\.partitons.*num\.partitions"), misspelt:
        pass
    assert not misspelt.data.parent.exists()


def test_a_port_that_is_taken_is_named(broker: EmbeddedBroker) -> None:
    other = EmbeddedBroker()
    other.port = broker.port
    with pytest.raises(BrokerFailed, match=str(broker.port)), other:
        pass


PARENT = """
import os, signal, sys
from kafkalite.testing import EmbeddedBroker
broker = EmbeddedBroker().start()
print(broker.pid, broker.data.parent, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_broker_ends_with_the_process_that_started_it() -> None:
    parent = subprocess.run([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, check=False)
    assert parent.returncode == -signal.SIGKILL
    pid, folder = parent.stdout.split()
    shutil.rmtree(folder)  # which a killed process leaves behind
    try:
        watched = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return  # already gone
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    ended = poll.poll(20_000)
    os.close(watched)
    assert ended, "the broker outlived its parent"


def test_the_plugin_gives_one_broker_with_the_settings_of_the_project(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafkalite_config():
            return {"num.partitions": "4"}
        """
    )
    pytester.makepyfile(
        """
        import socket

        seen = set()

        def test_first(kafkalite_broker):
            assert kafkalite_broker.config == {"num.partitions": "4"}
            socket.create_connection(("127.0.0.1", kafkalite_broker.port)).close()
            seen.add(kafkalite_broker.pid)

        def test_second(kafkalite_broker):
            assert seen == {kafkalite_broker.pid}
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_the_plugin_loads_nothing_of_the_broker() -> None:
    program = "import sys, kafkalite.testing; print([name for name in sys.modules if name.startswith('kafkalite.')])"
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.strip() == "['kafkalite.testing']"


def test_pytest_is_not_needed_outside_of_tests() -> None:
    program = "import sys, kafkalite.testing; print('pytest' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.strip() == "False"
