"""AlterConfigs (key 33), versions 0 to 2: replaces *all* options of a resource; others become defaults again.

v2  flexible.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int8, Int16, Int32, Message, Struct


class AlterableConfig(Struct):
    name: str
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: str
    configs: Sequence[AlterableConfig]


class AlterConfigsRequest(Message, versions=(0, 2), flexible_from=2):
    resources: Sequence[AlterConfigsResource]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8
    resource_name: str


class AlterConfigsResponse(Message, versions=(0, 2), flexible_from=2):
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse]
