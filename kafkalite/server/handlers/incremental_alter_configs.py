"""IncrementalAlterConfigs (key 44), versions 0 and 1: sets and unsets single options of topics.

Appending to a list and subtracting from it begin at the value that the topic has now, set for it or not. Each resource
is changed, or refused, by itself. Not implemented: changing the options of a running broker.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum

from kafkalite.config import BrokerConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.model import TopicState
from kafkalite.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkalite.server.configs import is_list
from kafkalite.server.handlers.alter_configs import alter_topic, check_named_once, check_resource, required_value
from kafkalite.server.services import Call, Services


class Operation(IntEnum):
    """What to do with an option."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(
    services: Services, _call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results = []
    for resource in request.resources:
        result = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        results.append(result)
        try:
            check_resource(resource.resource_type, resource.resource_name, named)
            check_named_once(option.name for option in resource.configs)
            await alter_topic(
                services,
                resource.resource_name,
                lambda topic, resource=resource: changed(topic, resource, services.config),  # type: ignore[misc]
                request.validate_only,
            )
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return IncrementalAlterConfigsResponse(responses=results)


def changed(topic: TopicState, resource: AlterConfigsResource, broker: BrokerConfig) -> dict[str, str]:
    """What is set for the topic after these changes; the values are not checked."""
    config = dict(topic.config)
    effective = broker.topic_config(topic.config).as_strings()
    for option in resource.configs:
        if option.config_operation == Operation.DELETE:
            config.pop(option.name, None)
        else:
            config[option.name] = _new_value(option, effective)
    return config


def _new_value(option: AlterableConfig, effective: dict[str, str]) -> str:
    value = required_value(option.name, option.value)
    match option.config_operation:
        case Operation.SET:
            return value
        case Operation.APPEND | Operation.SUBTRACT if not is_list(option.name):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{option.name} is not a list: set it to its new value")
        case Operation.APPEND:
            has, more = _parts(effective[option.name]), _parts(value)
            return ",".join(has + [part for part in more if part not in has])
        case Operation.SUBTRACT:
            less = _parts(value)
            return ",".join(part for part in _parts(effective[option.name]) if part not in less)
        case unknown:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"operation {unknown} on {option.name}: use 0 (set), 1 (delete), 2 (append) or 3 (subtract)",
            )


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]
