"""Options: read from strings, checked, and refused with the name, the value and what would do."""

from __future__ import annotations

import pytest

from kafkalite.config import NEVER, StorageConfig, TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.options import ConfigError


def test_defaults_are_kafkas() -> None:
    config = TopicConfig()
    assert config.retention_ms == 7 * 24 * 3_600_000
    assert config.segment_bytes == 1024**3
    assert config.cleanup_policy == ("delete",)
    assert config.flush_messages == NEVER
    assert not config.shows_only_flushed


def test_options_are_read_by_kafkas_names_and_written_back() -> None:
    config = TopicConfig.from_strings(
        {"segment.bytes": "1000", "cleanup.policy": "compact, delete", "min.cleanable.dirty.ratio": "0.25"}
    )
    assert (config.segment_bytes, config.min_cleanable_dirty_ratio) == (1000, 0.25)
    assert (config.is_compacted, config.deletes_old_segments) == (True, True)
    assert TopicConfig.from_strings(config.as_strings()) == config


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("segment.byte", "1", r"no option 'segment\.byte'; did you mean 'segment\.bytes'\?"),
        ("segment.bytes", "many", r"segment\.bytes='many' is not a whole number; the default is 1073741824"),
        ("segment.bytes", "13", r"segment\.bytes=13 is too small: it must be at least 14"),
        ("min.cleanable.dirty.ratio", "1.5", r"is too large: it must be at most 1"),
        ("cleanup.policy", "keep", r"cleanup\.policy='keep' is not allowed: choose from delete, compact"),
        ("cleanup.policy", "", r"is not allowed"),
        ("message.timestamp.type", "Never", r"choose from CreateTime, LogAppendTime"),
        ("retention.ms", "-2", r"at least -1"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        TopicConfig.from_strings({name: value})
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("options", [TopicConfig, StorageConfig])
def test_every_option_is_documented_with_its_default(options: type[TopicConfig] | type[StorageConfig]) -> None:
    for name, default, meaning in options.documentation():
        assert options.from_strings({name: default}) == options()
        assert len(meaning) > 10
