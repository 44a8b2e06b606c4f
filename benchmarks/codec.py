"""Record batches ↔ columns against aiokafka's compiled builder and parser, in records per second.

    python benchmarks/codec.py [--quick]

Both sides do their natural work on the same records, in turns within one run; medians of the processor's time are
compared, so that a busy machine disturbs little. aiokafka starts from and ends at Python objects, kafkalite at Arrow
columns. The goals are the two ratios of the plain case, 10,000 records of 200 bytes: encode ≥ 1.5×, decode ≥ 1.3×; a
miss is the exit status.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from time import thread_time
from typing import Any, NamedTuple

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from rich.console import Console
from rich.table import Table

from kafkalite.records.batch import split_batches
from kafkalite.records.columns import SCHEMA, decode_columns, encode_columns
from kafkalite.records.compression import Codec
from kafkalite.records.rows import Row, encode_rows, iter_rows, iter_spans
from measure import medians_in_turns, seconds_of

ENCODE_GOAL, DECODE_GOAL = 1.5, 1.3
LIMIT_BYTES = 1 << 28
FETCH_BYTES = 1 << 20
START_MS = 1_700_000_000_000


class Case(NamedTuple):
    name: str
    rows: list[Row]
    codec: Codec = Codec.NONE
    goal: bool = False


def make_rows(
    count: int, *, sizes: tuple[int, int] = (200, 200), keys: bool = False, headers: bool = False
) -> list[Row]:
    random_ = random.Random(7)
    words = [random_.randbytes(4).hex().encode() for _ in range(1000)]

    def text(size: int) -> bytes:
        return b" ".join(random_.choices(words, k=size // 9 + 1))[:size]

    return [
        Row(
            index,
            START_MS + index // 20,
            b"user-%d" % random_.randrange(10**6) if keys else None,
            text(random_.randint(*sizes)),
            (("trace", text(16)), ("source", b"web")) if headers else (),
        )
        for index in range(count)
    ]


def aiokafka_encode(records: list[tuple[Any, ...]], codec: Codec) -> bytearray:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    append = builder.append
    for offset, timestamp, key, value, headers in records:
        append(offset, timestamp, key, value, headers)
    built: bytearray = builder.build()
    return built


def aiokafka_decode(buffer: bytes) -> int:
    records = MemoryRecords(buffer)
    count = 0
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            _ = record.key, record.value, record.offset, record.timestamp, record.headers
            count += 1
    return count


def to_columns(rows: list[Row]) -> dict[str, Any]:
    """Arrow columns as a caller holds them; a column that is null throughout is left out, as a caller would."""
    keys = [row.key for row in rows]
    headers = [[{"key": key, "value": value} for key, value in row.headers] or None for row in rows]
    return {
        "value": pa.array([row.value for row in rows], pa.binary()),
        "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
        "key": pa.array(keys, pa.binary()) if any(keys) else None,
        "headers": pa.array(headers, SCHEMA.field("headers").type) if any(headers) else None,
    }


def in_turns(repeats: int, *functions: Callable[[], object]) -> list[float]:
    """The median seconds of the processor that each function takes: both sides are one thread and wait for nothing."""
    return medians_in_turns(repeats, *(seconds_of(function, clock=thread_time) for function in functions))


class Report:
    """Rows of a table; remembers whether a goal was missed."""

    def __init__(self) -> None:
        self.table = Table("case", "what", "kafkalite /s", "aiokafka /s", "ratio", "goal")
        for column in self.table.columns[2:5]:
            column.justify = "right"
        self.missed = False

    def add(self, case: str, what: str, count: int, ours: float, theirs: float, goal: float | None) -> None:
        ratio = theirs / ours
        verdict = ""
        if goal is not None:
            verdict = f"goal ≥{goal}× {'met' if ratio >= goal else 'missed'}"
            self.missed |= ratio < goal
        self.table.add_row(case, what, f"{count / ours:,.0f}", f"{count / theirs:,.0f}", f"{ratio:.2f}×", verdict)


def measure_case(report: Report, case: Case, repeats: int) -> None:
    columns = to_columns(case.rows)
    records: list[tuple[Any, ...]] = [(*row[:4], list(row.headers)) for row in case.rows]
    theirs = bytes(aiokafka_encode(records, case.codec))
    if case.codec is Codec.NONE:
        assert encode_columns(**columns) == theirs, "the two encoders disagree"
    count = len(case.rows)
    ours_s, theirs_s = in_turns(
        repeats,
        lambda: encode_columns(**columns, codec=case.codec),
        lambda: aiokafka_encode(records, case.codec),
    )
    report.add(case.name, "encode", count, ours_s, theirs_s, ENCODE_GOAL if case.goal else None)
    measure_decode(report, case.name, theirs, count, repeats, DECODE_GOAL if case.goal else None)


def measure_decode(report: Report, name: str, buffer: bytes, count: int, repeats: int, goal: float | None) -> None:
    assert len(decode_columns(buffer, limit=LIMIT_BYTES)) == aiokafka_decode(buffer) == count
    ours_s, theirs_s = in_turns(
        repeats, lambda: decode_columns(buffer, limit=LIMIT_BYTES), lambda: aiokafka_decode(buffer)
    )
    report.add(name, "decode", count, ours_s, theirs_s, goal)


def fetch_of_small_batches(batch_size: int, **shape: Any) -> tuple[bytes, int]:
    batch = encode_rows(make_rows(batch_size, **shape))
    copies = FETCH_BYTES // len(batch)
    return bytes(batch) * copies, copies * batch_size


def measure_rows(rows: list[Row], repeats: int) -> Table:
    """The row-wise forms have no peer; their figures are for the log cleaner."""
    (batch,) = split_batches(encode_rows(rows))
    spans_s, rows_s = in_turns(
        repeats,
        lambda: sum(1 for _ in iter_spans(batch.records, batch.count)),
        lambda: sum(1 for _ in iter_rows(batch, limit=LIMIT_BYTES)),
    )
    table = Table("row by row", "records /s")
    table.add_row("iter_spans", f"{len(rows) / spans_s:,.0f}")
    table.add_row("iter_rows", f"{len(rows) / rows_s:,.0f}")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and no codecs, about 5 s")
    quick = parser.parse_args().quick
    repeats = 15 if quick else 51
    many = 10_000

    cases = [
        Case("200 B", make_rows(many), goal=True),
        Case("100–300 B", make_rows(many, sizes=(100, 300))),
        Case("200 B, keys", make_rows(many, keys=True)),
        Case("200 B, keys, 2 headers", make_rows(many, keys=True, headers=True)),
    ]
    if not quick:
        cases += [
            Case(f"200 B, {codec.kafka_name}", cases[0].rows, codec) for codec in Codec if codec is not Codec.NONE
        ]
    report = Report()
    for case in cases:
        measure_case(report, case, repeats if case.codec is Codec.NONE else 7)
    for size in (50, 1):
        for name, shape in (("200 B", {}), ("100–300 B", {"sizes": (100, 300)})):
            buffer, count = fetch_of_small_batches(size, **shape)
            measure_decode(report, f"{name}, 1 MB of batches of {size}", buffer, count, repeats, None)
    console = Console()
    console.print(report.table)
    console.print(measure_rows(make_rows(many, keys=True), repeats))
    console.print("[red]a goal was missed[/red]" if report.missed else "[green]both goals met[/green]")
    return int(report.missed)


if __name__ == "__main__":
    sys.exit(main())
