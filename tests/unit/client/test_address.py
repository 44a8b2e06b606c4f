"""Addresses as people write them."""

import pytest

from kafkalite.client.address import Address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:9092", Address("::1", 9092)),
    ],
)
def test_an_address_is_read_and_written_back(text: str, expected: Address) -> None:
    assert Address.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize("text", ["", "9092", "localhost", ":9092", "::1:9092", "a:b", "a:-1", "a:65536", "a:²"])
def test_what_is_no_address_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|no port"):
        Address.parse(text)


def test_a_list_has_commas_between() -> None:
    assert Address.parse_list("a:1, b:2") == [Address("a", 1), Address("b", 2)]
