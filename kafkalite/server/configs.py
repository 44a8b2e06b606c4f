"""Options as clients see them: value, where it comes from, what it would be without that, type and meaning. Pure.

A topic's option has the value that was set for the topic, else the one of the broker's configuration, else the default.
A value in the broker's configuration that equals the default counts as the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kafkalite.config import BrokerConfig, TopicConfig

_INT32_MAX: Final = 2**31 - 1


class ResourceType(IntEnum):
    """What can have options. Kafka has more of them; these are the ones here."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Who has set a value."""

    TOPIC = 1
    BROKER_FILE = 4
    DEFAULT = 5


class ConfigType(IntEnum):
    """What kind of value an option has."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Setting(NamedTuple):
    """One of the places that can set an option, and what it says there."""

    name: str
    value: str
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """An option; the first of `settings` is the one that counts."""

    name: str
    settings: list[Setting]
    type: ConfigType
    meaning: str

    @property
    def value(self) -> str:
        return self.settings[0].value

    @property
    def source(self) -> ConfigSource:
        return self.settings[0].source


def topic_entries(config: BrokerConfig, own: Mapping[str, str]) -> list[ConfigEntry]:
    """Every option of a topic that has set `own`."""
    effective = config.topic_config(own).as_strings()
    of_broker = config.topic_defaults.as_strings()
    defaults = TopicConfig().as_strings()
    entries = []
    for name, option in TopicConfig.options().items():
        settings = _broker_settings(option.metadata["broker_name"] or name, of_broker[name], defaults[name])
        if name in own:
            settings.insert(0, Setting(name, effective[name], ConfigSource.TOPIC))
        entries.append(_entry(name, option, settings))
    return entries


def broker_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Every option of the broker, and the defaults of its topics by the names that brokers have for them."""
    entries = []
    for options, defaults in ((config, BrokerConfig()), (config.topic_defaults, TopicConfig())):
        values, default_values = options.as_strings(), defaults.as_strings()
        for name, option in options.options().items():
            shown = option.metadata["broker_name"] or name
            entries.append(_entry(shown, option, _broker_settings(shown, values[name], default_values[name])))
    return sorted(entries)


def is_list(topic_option: str) -> bool:
    """Whether this is an option of topics that takes several values."""
    option = TopicConfig.options().get(topic_option)
    return option is not None and _type_of(option) is ConfigType.LIST


def _broker_settings(name: str, value: str, default: str) -> list[Setting]:
    settings = [Setting(name, default, ConfigSource.DEFAULT)]
    if value != default:
        settings.insert(0, Setting(name, value, ConfigSource.BROKER_FILE))
    return settings


def _entry(name: str, option: Field[Any], settings: list[Setting]) -> ConfigEntry:
    return ConfigEntry(name, settings, _type_of(option), option.metadata["meaning"])


def _type_of(option: Field[Any]) -> ConfigType:
    match option.default:
        case bool():
            return ConfigType.BOOLEAN
        case int():
            at_most = option.metadata["at_most"]
            return ConfigType.INT if at_most is not None and at_most <= _INT32_MAX else ConfigType.LONG
        case float():
            return ConfigType.DOUBLE
        case tuple():
            return ConfigType.LIST
        case _:
            return ConfigType.STRING
