"""Every command once from end to end, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from kafkalite.client.partitioner import partition_for_key
from kafkalite.testing import EmbeddedBroker
from tests.integration.cli_process import Ended, kafkalite, running

Run = Callable[..., Ended]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"auto.create.topics.enable": "true", "num.partitions": "2"}) as broker:
        yield broker


@pytest.fixture
def run(broker: EmbeddedBroker) -> Run:
    def run(*arguments: str, stdin: bytes = b"") -> Ended:
        return kafkalite(*arguments, bootstrap=broker.bootstrap, stdin=stdin)

    return run


def rows_of(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()[1:]]


def fill(run: Run, topic: str, lines: list[bytes], *, partitions: int = 1) -> None:
    assert run("topics", "create", topic, "--partitions", str(partitions)).exit_code == 0
    assert run("produce", topic, stdin=b"".join(line + b"\n" for line in lines)).exit_code == 0


def test_a_topic_is_created_listed_described_altered_and_deleted(run: Run) -> None:
    assert run("topics", "create", "life", "--partitions", "3", "--config", "retention.ms=1000000").exit_code == 0
    assert ["life", "3", "1"] in rows_of(run("topics", "list").text)
    described = run("topics", "describe", "life").text
    assert ["2", "0", "0", "0", "0", "0"] in rows_of(described)
    assert ["retention.ms", "1000000"] in rows_of(described)
    altered = run(
        *("topics", "alter", "life", "--partitions", "4"),
        *("--config", "segment.bytes=1048576", "--delete-config", "retention.ms"),
    )
    assert altered.exit_code == 0
    described = run("topics", "describe", "life").text
    assert ["3", "0", "0", "0", "0", "0"] in rows_of(described)
    assert ["segment.bytes", "1048576"] in rows_of(described)
    assert "retention.ms" not in described
    assert "retention.ms" in run("topics", "describe", "life", "--all-configs").text
    assert run("topics", "delete", "life", "--yes").exit_code == 0
    assert "life" not in run("topics", "list").text


def test_a_topic_that_exists_is_an_error_unless_said_otherwise(run: Run) -> None:
    run("topics", "create", "twice")
    again = run("topics", "create", "twice")
    assert again.exit_code == 1
    assert again.stderr.startswith("error: creating topic 'twice' at 127.0.0.1:")
    assert again.stderr.count("\n") == 1
    assert run("topics", "create", "twice", "--if-not-exists").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "describe", "nope"),
        ("topics", "alter", "nope", "--partitions", "2"),
        ("topics", "delete", "nope", "--yes"),
        ("consume", "nope"),
        ("groups", "reset", "g", "--topic", "nope", "--to-earliest"),
    ],
)
def test_a_topic_that_is_not_there_is_named(run: Run, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert ended.exit_code == 1
    assert "error: there is no topic 'nope' at 127.0.0.1:" in ended.stderr


def test_an_unknown_option_of_a_topic_is_refused_with_the_nearest_one(run: Run) -> None:
    ended = run("topics", "create", "bad-option", "--config", "retention.mss=1")
    assert ended.exit_code == 1
    assert "'retention.mss'" in ended.stderr
    assert "'retention.ms'" in ended.stderr
    assert "bad-option" not in run("topics", "list").text


def test_a_topic_is_not_deleted_without_consent(run: Run) -> None:
    run("topics", "create", "kept")
    assert run("topics", "delete", "kept", stdin=b"n\n").exit_code == 1
    assert "kept" in run("topics", "list").text
    assert run("topics", "delete", "kept", stdin=b"y\n").exit_code == 0


def test_lines_come_back_as_they_went_in(run: Run) -> None:
    lines = [b"first", b"", b"\xff\x00binary", "Zoë".encode(), b"x" * 100_000]
    fill(run, "lines", lines)
    assert run("consume", "lines", "--from-beginning", "--until-end").stdout == b"".join(x + b"\n" for x in lines)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_written_and_read(run: Run, codec: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(2500))
    sent = run("produce", f"codec-{codec}", "--compression", codec, "--partition", "0", stdin=lines)
    assert sent.exit_code == 0
    assert sent.stderr == "sent 2500 records (partition 0: offsets 0–2499)\n"
    assert run("consume", f"codec-{codec}", "--from-beginning", "--max", "2500").stdout == lines


def test_keys_headers_and_partitions_arrive(run: Run) -> None:
    run("topics", "create", "keyed", "--partitions", "5")
    lines = b"".join(b"key%d\tvalue%d\n" % (number, number) for number in range(20))
    assert run("produce", "keyed", "--key-separator", "\\t", "--header", "source=test", stdin=lines).exit_code == 0
    shown = run("consume", "keyed", "--from-beginning", "--until-end", "--format", "json").text
    records = [json.loads(line) for line in shown.splitlines()]
    assert sorted(record["value"] for record in records) == sorted(f"value{number}" for number in range(20))
    for record in records:
        assert record["partition"] == partition_for_key(record["key"].encode(), 5)
        assert record["headers"] == [["source", "test"]]
    assert run("produce", "keyed", "--key", "k", "--partition", "4", stdin=b"v\n").exit_code == 0
    line = run(
        "consume", "keyed", "--partition", "4", "--offset", str(_end(run, "keyed", 4) - 1), "--max", "1", "--keys"
    )
    assert line.stdout == b"k\tv\n"


def _end(run: Run, topic: str, partition: int) -> int:
    return int(rows_of(run("topics", "describe", topic).text)[1 + partition][-1])


def test_a_line_without_separator_is_an_error_after_what_came_before_was_sent(run: Run) -> None:
    run("topics", "create", "bad-line", "--partitions", "1")
    ended = run("produce", "bad-line", "--key-separator", ":", stdin=b"a:1\nb:2\nno key\nc:3\n")
    assert ended.exit_code == 1
    assert "error: line 3 has no key" in ended.stderr
    assert "the 2 lines before it were sent and acknowledged" in ended.stderr
    assert run("consume", "bad-line", "--from-beginning", "--until-end").stdout == b"1\n2\n"


def test_a_line_that_is_too_large_is_an_error_after_what_came_before_was_sent(run: Run) -> None:
    run("topics", "create", "large-line", "--partitions", "1")
    ended = run("produce", "large-line", stdin=b"a\n" + b"x" * 3_000_000 + b"\nb\n")
    assert ended.exit_code == 1
    assert "MESSAGE_TOO_LARGE" in ended.stderr
    assert "1 records before were acknowledged" in ended.stderr
    assert run("consume", "large-line", "--from-beginning", "--until-end").stdout == b"a\n"


def test_reading_begins_at_an_offset_or_a_time(run: Run) -> None:
    fill(run, "starts", [b"a", b"b", b"c"])
    shown = run("consume", "starts", "--partition", "0", "--offset", "1", "--until-end", "--format", "json").text
    records = [json.loads(line) for line in shown.splitlines()]
    assert [record["value"] for record in records] == ["b", "c"]
    first_time = str(records[0]["timestamp"])
    assert b"c\n" in run("consume", "starts", "--timestamp", first_time, "--until-end").stdout
    assert run("consume", "starts", "--timestamp", "2999-01-01", "--until-end").stdout == b""
    assert run("consume", "starts", "--timestamp", "2001-01-01", "--until-end").stdout == b"a\nb\nc\n"
    assert run("consume", "starts", "--until-end").stdout == b""
    beyond = run("consume", "starts", "--partition", "0", "--offset", "99")
    assert beyond.exit_code == 1
    assert "starts-0 at offset 99" in beyond.stderr
    assert "OFFSET_OUT_OF_RANGE" in beyond.stderr


def test_a_follower_prints_what_comes_and_ends_cleanly_by_an_interrupt(broker: EmbeddedBroker, run: Run) -> None:
    fill(run, "follow", [b"old"])
    arguments = ("consume", "follow", "--from-beginning")
    with running(*arguments, bootstrap=broker.bootstrap, stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"old\n"
        run("produce", "follow", stdin=b"new\n")
        assert follower.stdout.readline() == b"new\n"
        follower.send_signal(signal.SIGINT)
        _, stderr = follower.communicate(timeout=30)
    assert (follower.returncode, stderr) == (0, b"")


def test_what_is_typed_is_sent_before_the_input_ends(broker: EmbeddedBroker, run: Run) -> None:
    run("topics", "create", "typed", "--partitions", "1")
    with running("produce", "typed", bootstrap=broker.bootstrap, stdin=subprocess.PIPE) as typist:
        assert typist.stdin is not None
        typist.stdin.write(b"hello\n")
        typist.stdin.flush()
        assert run("consume", "typed", "--from-beginning", "--max", "1").stdout == b"hello\n"
        typist.stdin.write(b"world\n")
        _, stderr = typist.communicate(timeout=30)
    assert (typist.returncode, stderr.decode()) == (0, "sent 2 records (partition 0: offsets 0–1)\n")


def test_a_reader_that_goes_away_ends_consume_without_noise(broker: EmbeddedBroker, run: Run) -> None:
    fill(run, "head", [b"a", b"b", b"c"])
    reading, writing = os.pipe()
    with running("consume", "head", "--from-beginning", bootstrap=broker.bootstrap, stdout=writing) as consumer:
        os.close(writing)
        assert os.read(reading, 2) == b"a\n"
        os.close(reading)
        _, stderr = consumer.communicate(timeout=30)
    assert (consumer.returncode, stderr) == (0, b"")


def test_a_group_is_reset_described_listed_and_deleted(run: Run) -> None:
    fill(run, "grouped", [b"a", b"b", b"c", b"d"])
    dry = run("groups", "reset", "readers", "--topic", "grouped", "--to-offset", "3")
    assert rows_of(dry.text) == [["grouped", "0", "-", "3"]]
    assert "--execute" in dry.stderr
    assert run("groups", "describe", "readers").exit_code == 1
    run("groups", "reset", "readers", "--topic", "grouped", "--to-offset", "3", "--execute")
    assert rows_of(run("groups", "describe", "readers").text)[1:] == [["grouped", "0", "3", "4", "1", "-", "-"]]
    assert "readers" in run("groups", "list").text
    for option, expected in [
        (("--shift-by", "-2"), 1),
        (("--shift-by", "99"), 4),
        (("--to-earliest",), 0),
        (("--to-latest",), 4),
        (("--to-timestamp", "2001-01-01"), 0),
        (("--to-timestamp", "2999-01-01"), 4),
    ]:
        assert run("groups", "reset", "readers", *option, "--execute").exit_code == 0
        assert rows_of(run("groups", "describe", "readers").text)[1][2] == str(expected)
    assert run("groups", "delete", "readers", "--yes").exit_code == 0
    gone = run("groups", "delete", "readers", "--yes")
    assert gone.exit_code == 1
    assert "there is no group 'readers'" in gone.stderr


def test_a_group_with_members_shows_them_and_refuses_to_be_moved(broker: EmbeddedBroker, run: Run) -> None:
    from confluent_kafka import Consumer

    fill(run, "busy", [b"a", b"b", b"c"])
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "busy-group",
            "client.id": "worker",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe(["busy"])
        message = consumer.poll(30)
        assert message is not None
        consumer.commit(message=message, asynchronous=False)
        (row,) = rows_of(run("groups", "describe", "busy-group").text)[1:]
        assert row[:5] == ["busy", "0", "1", "3", "2"]
        assert row[5].startswith("worker")
        assert "127.0.0.1" in row[6]
        refused = run("groups", "reset", "busy-group", "--to-earliest", "--execute")
        assert refused.exit_code == 1
        assert "stop its consumers first" in refused.stderr
        refused = run("groups", "delete", "busy-group", "--yes")
        assert refused.exit_code == 1
        assert "stop its consumers first" in refused.stderr
    finally:
        consumer.close()


def test_the_files_of_a_running_broker_are_verified_and_dumped(broker: EmbeddedBroker, run: Run) -> None:
    fill(run, "files", [b"seen"])
    verified = run("log", "verify", str(broker.data))
    assert verified.exit_code == 0, verified
    assert "bytes are good" in verified.text
    dumped = run("log", "dump", str(broker.data / "files-0"), "--records")
    assert dumped.exit_code == 0
    assert "value 'seen'" in dumped.text


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "list", "--bootstrap", "nonsense"),
        ("topics", "alter", "t"),
        ("topics", "create", "t", "--config", "x"),
        ("consume", "t", "--offset", "1"),
        ("consume", "t", "--from-beginning", "--timestamp", "1"),
        ("consume", "t", "--timestamp", "yesterday"),
        ("produce", "t", "--compression", "brotli"),
        ("produce", "t", "--key", "a", "--key-separator", ":"),
        ("groups", "reset", "g"),
        ("groups", "reset", "g", "--to-earliest", "--to-latest"),
        ("no-such-command",),
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert kafkalite(*arguments).exit_code == 2


@pytest.mark.parametrize("arguments", [("topics", "list"), ("consume", "t"), ("produce", "t"), ("groups", "list")])
def test_no_broker_is_said_at_once_with_what_to_do(arguments: tuple[str, ...]) -> None:
    ended = kafkalite(*arguments, bootstrap="127.0.0.1:1", timeout=10)
    assert ended.exit_code == 1
    expected = "error: 127.0.0.1:1 refuses connections: is a broker running there? Start one with: kafkalite serve\n"
    assert ended.stderr == expected


@pytest.mark.parametrize(
    "command",
    [
        *("serve", "config", "produce", "consume"),
        *("topics create", "topics list", "topics describe", "topics alter", "topics delete"),
        *("groups list", "groups describe", "groups reset", "groups delete", "log dump", "log verify"),
    ],
)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    ended = kafkalite(*command.split(), "--help")
    assert ended.exit_code == 0
    assert f"Example: {'echo ' if command == 'produce' else 'kafkalite ' + command}" in ended.text


def test_every_setting_is_listed_with_its_default() -> None:
    listed = kafkalite("config", "retention").text
    assert any(line.split()[:2] == ["retention.ms", "604800000"] for line in listed.splitlines())
    assert "segment.bytes" not in listed
