"""AlterConfigs (key 33), versions 0 to 2: replaces all options that are set for a topic; those left out fall back.

Each resource is changed, or refused, by itself. Not implemented: changing the options of a running broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kafkalite.server.configs import ResourceType
from kafkalite.server.services import Call, Services
from kafkalite.server.topics import ConfigChange


async def handle(services: Services, _call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
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
            await alter_topic(services, resource.resource_name, _replacement(resource), request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return AlterConfigsResponse(responses=results)


def _replacement(resource: AlterConfigsResource) -> ConfigChange:
    config = {option.name: required_value(option.name, option.value) for option in resource.configs}
    return lambda _: config


# What incremental changes need as well.


def check_resource(resource_type: int, name: str, named: Mapping[tuple[int, str], int]) -> None:
    """Raises unless it is a topic, and the only mention of it."""
    if named[resource_type, name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the resource {name!r} is named twice in the request")
    if resource_type == ResourceType.BROKER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "the options of a running broker cannot be changed: set it in the broker's configuration and restart",
        )
    if resource_type != ResourceType.TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {resource_type} has no options here: use 2 (topic)")


def check_named_once(names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is named twice for one resource")


def required_value(name: str, value: str | None) -> str:
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} has no value; set it, or leave it out for its default")
    return value


async def alter_topic(services: Services, name: str, change: ConfigChange, validate_only: bool) -> None:
    if validate_only:
        services.topics.check_config(name, change)
    else:
        await services.topics.change_config(name, change)
