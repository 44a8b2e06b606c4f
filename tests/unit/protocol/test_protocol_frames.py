"""Frames come out whole, however the bytes came in."""

from __future__ import annotations

import pytest

from kafkalite.errors import MalformedMessage
from kafkalite.protocol.frames import FrameDecoder, FrameTooLarge, split_frames

BODIES = [b"first", b"", b"x" * 1_000, b"last"]
STREAM = b"".join(len(body).to_bytes(4, "big") + body for body in BODIES)


def test_all_whole_frames_of_a_buffer_are_found_without_a_copy() -> None:
    buffer = bytearray(b"??" + STREAM + b"\x00\x00\x00\x09part")
    spans = list(split_frames(buffer, 2, len(buffer), 2_000))

    assert [bytes(buffer[start:end]) for start, end in spans] == BODIES
    assert spans[-1][1] == 2 + len(STREAM)


def test_bytes_beyond_the_end_of_what_was_received_are_not_read() -> None:
    assert list(split_frames(STREAM, 0, 8, 2_000)) == []
    assert list(split_frames(STREAM, 0, 9, 2_000)) == [(4, 9)]


def test_a_stream_that_comes_at_once_gives_all_frames() -> None:
    assert FrameDecoder().feed(STREAM) == BODIES


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 64, 999])
def test_a_stream_that_comes_in_pieces_gives_the_same_frames(step: int) -> None:
    decoder = FrameDecoder()
    frames = [frame for at in range(0, len(STREAM), step) for frame in decoder.feed(STREAM[at : at + step])]
    assert frames == BODIES
    assert decoder.pending_bytes == 0


def test_trailing_bytes_wait_for_the_rest_of_their_frame() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(STREAM + b"\x00\x00\x00\x05he") == BODIES
    assert decoder.pending_bytes == 6
    assert decoder.feed(b"llo") == [b"hello"]


def test_a_frame_stays_untouched_while_later_bytes_arrive() -> None:
    decoder = FrameDecoder()
    (frame,) = decoder.feed(b"\x00\x00\x00\x03abc\x00")
    decoder.feed(b"\x00\x00\x03xyz")
    assert bytes(frame) == b"abc"


def test_frames_can_be_written_to_in_place() -> None:
    (frame,) = FrameDecoder().feed(b"\x00\x00\x00\x03abc")
    assert not frame.readonly


def test_a_frame_of_the_maximum_size_is_accepted() -> None:
    assert FrameDecoder(max_size=3).feed(b"\x00\x00\x00\x03abc") == [b"abc"]


def test_a_frame_over_the_maximum_is_refused_as_soon_as_its_size_is_known() -> None:
    decoder = FrameDecoder(max_size=3)
    assert decoder.feed(b"\x00\x00\x00") == []
    with pytest.raises(FrameTooLarge, match="frame size 4 exceeds the limit of 3 bytes"):
        decoder.feed(b"\x04")


def test_whole_frames_before_a_bad_one_are_found_first() -> None:
    spans = split_frames(b"\x00\x00\x00\x01a\xff\xff\xff\xff", 0, 9, 100)
    assert next(spans) == (4, 5)
    with pytest.raises(MalformedMessage, match="frame size -1 is negative"):
        next(spans)
