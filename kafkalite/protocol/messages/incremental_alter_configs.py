"""IncrementalAlterConfigs (key 44), versions 0 and 1: changes single options of a resource (KIP-339).

Operations: 0 set, 1 delete, 2 append to a list, 3 subtract from a list.

v1  flexible.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int8, Int16, Int32, Message, Struct


class AlterableConfig(Struct):
    name: str
    config_operation: Int8
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: str
    configs: Sequence[AlterableConfig]


class IncrementalAlterConfigsRequest(Message, versions=(0, 1), flexible_from=1):
    resources: Sequence[AlterConfigsResource]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8
    resource_name: str


class IncrementalAlterConfigsResponse(Message, versions=(0, 1), flexible_from=1):
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse]
