"""How the texts of options are read."""

from __future__ import annotations

import pytest
import typer

from kafkalite.cli.arguments import only_one, parse_pairs, parse_time


def test_pairs_may_have_empty_values_and_equals_signs_in_them() -> None:
    assert parse_pairs(["a=1", "b=", "c=x=y"], "--config") == [("a", "1"), ("b", ""), ("c", "x=y")]


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_a_pair_without_a_name_or_an_equals_sign_is_a_usage_error(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not NAME=VALUE"):
        parse_pairs([text], "--config")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123", 1_700_000_000_123),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("1970-01-02", 86_400_000),
    ],
)
def test_a_time_is_milliseconds_or_iso_8601_in_utc(text: str, expected: int) -> None:
    assert parse_time(text, "--timestamp") == expected


def test_what_is_no_time_is_a_usage_error() -> None:
    with pytest.raises(typer.BadParameter, match="'yesterday' is neither"):
        parse_time("yesterday", "--timestamp")


def test_options_that_exclude_each_other_are_refused() -> None:
    only_one({"--a": True, "--b": False})
    only_one({"--a": False, "--b": False})
    with pytest.raises(typer.BadParameter, match="--a and --b exclude each other"):
        only_one({"--a": True, "--b": True})
    with pytest.raises(typer.BadParameter, match="choose one of --a, --b"):
        only_one({"--a": False, "--b": False}, required=True)
