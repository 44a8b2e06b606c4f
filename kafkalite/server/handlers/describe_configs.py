"""DescribeConfigs (key 32), versions 1 to 4: the options of topics and of this broker.

A broker is named by its node id, or by nothing; its options are read-only, because they are set where it is started.
Not implemented: the other kinds of resources that Kafka has (loggers, groups, client metrics).
"""

from __future__ import annotations

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkalite.server.configs import ConfigEntry, ResourceType, broker_entries, topic_entries
from kafkalite.server.services import Call, Services


def handle(services: Services, _call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    results = []
    for resource in request.resources:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, configs=()
        )
        results.append(result)
        try:
            result.configs = [
                _result(entry, resource, request)
                for entry in _entries(services, resource)
                if not resource.configuration_keys or entry.name in resource.configuration_keys
            ]
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return DescribeConfigsResponse(results=results)


def _entries(services: Services, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    if resource.resource_type == ResourceType.TOPIC:
        return topic_entries(services.config, services.topics.get(resource.resource_name).config)
    if resource.resource_type == ResourceType.BROKER:
        node_id = str(services.config.node_id)
        if resource.resource_name not in ("", node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"this is broker {node_id}; ask broker {resource.resource_name!r} itself"
            )
        return broker_entries(services.config)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"resource type {resource.resource_type} has no options here: use 2 (topic) or 4 (broker)",
    )


def _result(
    entry: ConfigEntry, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    synonyms = [
        DescribeConfigsSynonym(name=setting.name, value=setting.value, source=setting.source)
        for setting in entry.settings
    ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=resource.resource_type == ResourceType.BROKER,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=synonyms if request.include_synonyms else (),
        config_type=entry.type,
        documentation=entry.meaning if request.include_documentation else None,
    )
