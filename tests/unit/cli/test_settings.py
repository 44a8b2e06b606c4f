"""Settings from TOML, --set and flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.cli import settings
from kafkalite.cli.serve import _parser, broker_config
from kafkalite.config import BrokerConfig
from kafkalite.options import ConfigError


def config_of(*arguments: str) -> BrokerConfig:
    return broker_config(_parser().parse_args(arguments))


@pytest.mark.parametrize(
    "toml", ["log.segment.bytes = 1000", '"log.segment.bytes" = 1000', "[log.segment]\nbytes = 1000"]
)
def test_a_dotted_name_may_be_quoted_or_a_table(toml: str) -> None:
    assert settings.from_toml(toml.encode(), "f") == {"log.segment.bytes": "1000"}


def test_numbers_booleans_texts_and_lists_are_all_accepted() -> None:
    toml = b'a = 1\nb = true\nc = "x"\nd = 0.5\ne = ["p", "q"]\nf = false'
    expected = {"a": "1", "b": "true", "c": "x", "d": "0.5", "e": "p,q", "f": "false"}
    assert settings.from_toml(toml, "f") == expected


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (b"a = ", "broker.toml is not TOML"),
        (b"\xff = 1", "broker.toml is not TOML"),
        (b"a = 2026-01-01", "broker.toml: a is a date"),
        (b'"a.b" = 1\n[a]\nb = 2', "sets a.b twice"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_setting(toml: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings.from_toml(toml, "broker.toml")


def test_flags_beat_set_and_set_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('node.id = 1\nnum.partitions = 2\nlog.dirs = "a"\nlisteners = "127.0.0.1:1"\n')
    config = config_of("--config", str(file), "--set", "num.partitions=3", "--set", "log.dirs=b", "--data", "c")
    assert (config.node_id, config.num_partitions, config.log_dirs) == (1, 3, ("c",))
    assert config.listeners == "127.0.0.1:1"
    assert config_of("--config", str(file), "--listen", "127.0.0.1:0").listeners == "127.0.0.1:0"


def test_without_options_the_broker_has_its_defaults() -> None:
    assert config_of() == BrokerConfig()


@pytest.mark.parametrize("text", ["retention.ms", "=1", ""])
def test_a_setting_without_a_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write NAME=VALUE"):
        config_of("--set", text)


def test_an_unknown_setting_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"'retention\.mss'.*'retention\.ms'"):
        config_of("--set", "retention.mss=1")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.toml: No such file"):
        config_of("--config", str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen", "0.0.0.0:0"),
        ("--listen", "example.org:9092"),
        ("--metrics", "[::]:1"),
        ("--set", "listeners=10.0.0.1:1"),
    ],
)
def test_an_address_that_others_reach_needs_insecure(arguments: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="--insecure"):
        config_of(*arguments)
    config_of(*arguments, "--insecure")


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:0", "[::1]:0", "127.1.2.3:9", "PLAINTEXT://127.0.0.1:0"])
def test_loopback_needs_no_permission(listen: str) -> None:
    assert config_of("--listen", listen).listeners == listen


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="listeners: '9092' is not HOST:PORT"):
        config_of("--listen", "9092")
