"""The handlers of options: where a value comes from, and what may be changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.config import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.protocol.messages import alter_configs as replacing
from kafkalite.protocol.messages import incremental_alter_configs as changing
from kafkalite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from kafkalite.server.configs import ConfigSource, ConfigType, ResourceType
from kafkalite.server.handlers import alter_configs, describe_configs, incremental_alter_configs
from kafkalite.server.handlers.incremental_alter_configs import Operation
from tests.unit.cluster.broker_rig import CALL, NODE_ID, BrokerRig

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = Operation


def describe(rig: BrokerRig, kind: int, name: str, keys: list[str] | None = None) -> DescribeConfigsResult:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)],
        include_synonyms=True,
        include_documentation=True,
    )
    [result] = describe_configs.handle(rig.services, CALL, request).results
    return result


def change(
    rig: BrokerRig, *options: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t", dry: bool = False
) -> tuple[int, str]:
    resource = changing.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[changing.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in options],
    )
    request = changing.IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry)
    [result] = rig.run(incremental_alter_configs.handle(rig.services, CALL, request)).responses
    return result.error_code, result.error_message or ""


def replace(
    rig: BrokerRig, *options: tuple[str, str | None], kind: int = TOPIC, name: str = "t", dry: bool = False
) -> tuple[int, str]:
    resource = replacing.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[replacing.AlterableConfig(name=key, value=value) for key, value in options],
    )
    request = replacing.AlterConfigsRequest(resources=[resource], validate_only=dry)
    [result] = rig.run(alter_configs.handle(rig.services, CALL, request)).responses
    return result.error_code, result.error_message or ""


def own(rig: BrokerRig) -> dict[str, str]:
    return dict(rig.topics.get("t").config)


def test_every_option_of_a_topic_is_described_with_its_source_and_what_is_behind_it(tmp_path: Path) -> None:
    with BrokerRig(tmp_path, {"log.retention.ms": "77", "segment.bytes": "1000"}) as rig:
        rig.run(rig.topics.create("t", config={"retention.ms": "5"}))
        result = describe(rig, TOPIC, "t")
        found = {entry.name: entry for entry in result.configs}
        assert (result.error_code, sorted(found)) == (0, sorted(TopicConfig.options()))
        retention = found["retention.ms"]
        assert (retention.value, retention.config_source, retention.read_only) == ("5", ConfigSource.TOPIC, False)
        assert [(synonym.name, synonym.value, synonym.source) for synonym in retention.synonyms] == [
            ("retention.ms", "5", 1),
            ("log.retention.ms", "77", 4),
            ("log.retention.ms", "604800000", 5),
        ]
        assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == ("1000", 4)
        assert found["cleanup.policy"].config_source == 5
        assert retention.documentation == TopicConfig.options()["retention.ms"].metadata["meaning"]
        types = {name: found[name].config_type for name in ("retention.ms", "max.message.bytes", "cleanup.policy")}
        assert list(types.values()) == [ConfigType.LONG, ConfigType.INT, ConfigType.LIST]
        assert found["min.cleanable.dirty.ratio"].config_type == ConfigType.DOUBLE
        assert found["compression.type"].config_type == ConfigType.STRING


def test_only_the_options_asked_for_are_described(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t"))
        names = [entry.name for entry in describe(rig, TOPIC, "t", ["retention.ms", "no.such"]).configs]
        assert names == ["retention.ms"]


@pytest.mark.parametrize("name", ["", str(NODE_ID)])
def test_a_brokers_options_are_read_only_and_named_as_brokers_name_them(tmp_path: Path, name: str) -> None:
    with BrokerRig(tmp_path, {"retention.ms": "77"}) as rig:
        found = {entry.name: entry for entry in describe(rig, BROKER, name).configs}
        assert all(entry.read_only for entry in found.values())
        assert (found["node.id"].value, found["node.id"].config_source) == (str(NODE_ID), 4)
        assert (found["log.retention.ms"].value, found["log.retention.ms"].config_source) == ("77", 4)
        assert (found["num.partitions"].value, found["num.partitions"].config_source) == ("1", 5)
        assert found["auto.create.topics.enable"].config_type == ConfigType.BOOLEAN


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "99", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (8, str(NODE_ID), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_options_here_is_answered_with_an_error(
    tmp_path: Path, kind: int, name: str, code: ErrorCode
) -> None:
    with BrokerRig(tmp_path) as rig:
        result = describe(rig, kind, name)
        assert (result.error_code, list(result.configs)) == (code, [])
        assert result.error_message


def test_replacing_sets_what_is_named_and_unsets_the_rest(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t", config={"retention.ms": "5", "segment.bytes": "100"}))
        assert replace(rig, ("retention.ms", "6")) == (0, "")
        assert own(rig) == {"retention.ms": "6"}
        assert replace(rig) == (0, "")
        assert own(rig) == {}


def test_incremental_changes_leave_the_rest_alone(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t", config={"retention.ms": "5", "segment.bytes": "100"}))
        assert change(rig, ("retention.ms", DELETE, None), ("flush.ms", SET, "1")) == (0, "")
        assert own(rig) == {"segment.bytes": "100", "flush.ms": "1"}
        assert change(rig, ("retention.ms", DELETE, None)) == (0, ""), "it is unset already"


def test_lists_grow_and_shrink_from_the_value_that_holds(tmp_path: Path) -> None:
    with BrokerRig(tmp_path, {"cleanup.policy": "compact"}) as rig:
        rig.run(rig.topics.create("t"))
        assert change(rig, ("cleanup.policy", APPEND, "delete,compact")) == (0, "")
        assert own(rig) == {"cleanup.policy": "compact,delete"}
        assert change(rig, ("cleanup.policy", SUBTRACT, "compact")) == (0, "")
        assert own(rig) == {"cleanup.policy": "delete"}
        assert change(rig, ("cleanup.policy", SUBTRACT, "delete"))[0] == ErrorCode.INVALID_CONFIG, (
            "nothing would remain"
        )
        assert change(rig, ("retention.ms", APPEND, "1"))[0] == ErrorCode.INVALID_CONFIG
        assert own(rig) == {"cleanup.policy": "delete"}


@pytest.mark.parametrize("dry", [True, False])
def test_a_bad_change_is_refused_whole(tmp_path: Path, dry: bool) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t", config={"retention.ms": "5"}))
        good = ("segment.bytes", SET, "100")
        for bad, code in [
            (("retention.mss", SET, "1"), ErrorCode.INVALID_CONFIG),
            (("retention.ms", SET, "-2"), ErrorCode.INVALID_CONFIG),
            (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
            (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
            (("segment.bytes", DELETE, None), ErrorCode.INVALID_REQUEST),
        ]:
            assert change(rig, good, bad, dry=dry)[0] == code, bad
            if bad[1] == SET:
                assert replace(rig, ("segment.bytes", "100"), (bad[0], bad[2]), dry=dry)[0] == code, bad
        assert replace(rig, ("retention.ms", "1"), ("retention.ms", "2"), dry=dry)[0] == ErrorCode.INVALID_REQUEST
        assert own(rig) == {"retention.ms": "5"}


def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        rig.run(rig.topics.create("t"))
        assert change(rig, ("retention.ms", SET, "1"), dry=True) == (0, "")
        assert replace(rig, ("retention.ms", "1"), dry=True) == (0, "")
        assert own(rig) == {}


def test_options_of_a_running_broker_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        for code, message in (
            change(rig, ("num.partitions", SET, "2"), kind=BROKER, name=str(NODE_ID)),
            replace(rig, ("num.partitions", "2"), kind=BROKER, name=str(NODE_ID)),
        ):
            assert code == ErrorCode.INVALID_REQUEST
            assert "in the broker's configuration and restart" in message
        assert change(rig, kind=8, name="x")[0] == ErrorCode.INVALID_REQUEST
        assert change(rig, name="no")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_resource_that_is_named_twice_is_not_changed_and_others_are(tmp_path: Path) -> None:
    with BrokerRig(tmp_path) as rig:
        for name in ("t", "u"):
            rig.run(rig.topics.create(name))
        setting = [replacing.AlterableConfig(name="retention.ms", value="1")]
        resources = [
            replacing.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=setting)
            for name in ("t", "u", "t")
        ]
        request = replacing.AlterConfigsRequest(resources=resources)
        results = rig.run(alter_configs.handle(rig.services, CALL, request)).responses
        assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
        assert (own(rig), dict(rig.topics.get("u").config)) == ({}, {"retention.ms": "1"})
