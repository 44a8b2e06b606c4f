"""A failed fsync is final (R2): the kernel may have dropped the pages and report success the next time.

So after one failure the log acknowledges nothing more and shows nothing new, though the disk says that it works again;
and what had been acknowledged before is there after a restart.
"""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkalite.config import TopicConfig
from kafkalite.errors import StorageError
from kafkalite.storage import disk
from kafkalite.storage.log import PartitionLog
from tests.conftest import Trials
from tests.support.child_process import run_child, take_note
from tests.support.content import batch_of
from tests.support.history import History
from tests.support.reading import read_everything
from tests.support.stored_log import NOW_MS, append_next, open_log
from tests.support.writer_child import PARTITION, Task, config_of

pytestmark = pytest.mark.usefixtures("quietly")

FLUSHED = TopicConfig(segment_bytes=900, flush_messages=1)


class FailsOnce:
    """Raises EIO in the nth call that concerns a log, and never again; nothing depends on an index."""

    def __init__(self, nth: int) -> None:
        self._left = nth

    def __call__(self, what: disk.OpenFile | Path) -> None:
        is_of_log = isinstance(what, Path) or what.path.suffix == ".log"
        self._left -= is_of_log
        if is_of_log and self._left == 0:
            raise OSError(errno.EIO, "input/output error")


def check_that_it_is_offline(log: PartitionLog, seed: int) -> None:
    assert log.offline_reason is not None
    high_watermark, recovery_point = log.high_watermark, log.recovery_point
    for use in (
        lambda: log.append_as_leader(batch_of(seed, 50, 0), leader_epoch=0, now_ms=NOW_MS),
        lambda: log.append_as_follower(batch_of(seed, 50, 0), now_ms=NOW_MS),
        lambda: log.flush(NOW_MS),
        lambda: log.read(0, 1000, up_to=log.log_end_offset),
        lambda: log.offset_for_time(0),
        lambda: log.offset_of_max_timestamp(),
        lambda: log.truncate_to(0, NOW_MS),
        lambda: log.delete_records(0),
    ):
        with pytest.raises(StorageError) as refusal:
            use()
        assert refusal.value.code.retriable
    log.advance_high_watermark(log.log_end_offset)
    assert log.high_watermark == high_watermark
    assert log.recovery_point == recovery_point
    log.close(NOW_MS)


def write_until_it_fails(log: PartitionLog, history: History, rng: random.Random) -> None:
    for _ in range(100):
        append_next(log, history, rng.randint(1, 3), is_flushed=True)
        log.advance_high_watermark(log.log_end_offset)
        assert log.high_watermark == log.log_end_offset


@pytest.mark.parametrize("call", ["sync_data", "sync_folder"])
def test_no_acknowledgement_after_a_failed_fsync(
    tmp_path: Path, trials: Trials, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def trial(seed: int) -> None:
        rng = random.Random(f"fsync {seed}")
        history = History(seed)
        folder = tmp_path / f"log-{seed}"
        log = open_log(folder, FLUSHED)
        for _ in range(rng.randint(0, 15)):
            append_next(log, history, rng.randint(1, 3), is_flushed=True)
        log.advance_high_watermark(log.log_end_offset)
        with monkeypatch.context() as patch:
            # The first sync of the folder is for the name of a new segment, the next ones are for indexes.
            patch.setattr(disk, call, FailsOnce(rng.randint(1, 15) if call == "sync_data" else 1))
            with pytest.raises(StorageError) as failure:
                write_until_it_fails(log, history, rng)
            assert failure.value.code.retriable
            acknowledged = history.next_offset
            assert log.high_watermark == acknowledged, "the high watermark has gone past what is flushed"
            check_that_it_is_offline(log, seed)
            assert history.next_offset == acknowledged
        reading = read_everything(open_log(folder, FLUSHED))
        violations = history.violations(reading)
        assert not violations, "\n".join(violations)

    trials(trial, small=10, large=100)


def test_a_checkpoint_of_an_offline_log_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(1)
    log = open_log(tmp_path, FLUSHED)
    append_next(log, history, 1, is_flushed=True)
    append_next(log, history, 1)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_data", FailsOnce(1))
        with pytest.raises(StorageError):
            log.flush(NOW_MS)
    before = (tmp_path / "checkpoint").read_bytes()
    log.close(NOW_MS)
    assert (tmp_path / "checkpoint").read_bytes() == before


def strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    probe = ["strace", "-f", "-e", "inject=fdatasync:error=EIO:when=1", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def test_an_error_of_the_real_system_call_ends_all_acknowledgements(tmp_path: Path, trials: Trials) -> None:
    if not strace_works():
        pytest.skip("strace is missing, or may not trace here (ptrace)")

    def trial(seed: int) -> None:
        folder = tmp_path / f"data-{seed}"
        history = History(seed)
        # Only the first segment counts (-P), as nothing depends on an index; the open takes the first one or two.
        nth = random.Random(f"strace {seed}").randint(3, 8)
        trace = tmp_path / f"trace-{seed}"
        first_segment = folder / f"{PARTITION}" / "00000000000000000000.log"
        prefix = ["strace", "-f", "-y", "-P", str(first_segment), "-o", str(trace), "-e", "trace=fdatasync"]
        prefix += ["-e", "signal=none", "-e", f"inject=fdatasync:error=EIO:when={nth}"]
        task = Task(str(folder), seed, 0, "flushed", None, {"1": 0, "2": 0})
        outcome = run_child(task, tmp_path / "stderr", prefix=prefix, expected_error="fsync failed")
        take_note(history, outcome.lines)
        assert trace.read_text().count("(INJECTED)") == 1, "it must fail once, and would then succeed"
        assert not outcome.was_killed
        assert outcome.lines[-1].startswith("S"), "something was acknowledged after the failure"
        reading = read_everything(open_log(folder / f"{PARTITION}", config_of("flushed")))
        violations = history.violations(reading)
        assert not violations, "\n".join(violations)

    trials(trial, small=1, large=20)
