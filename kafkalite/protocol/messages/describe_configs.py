"""DescribeConfigs (key 32), versions 1 to 4: the options of topics (resource type 2) and brokers (4).

v1  synonyms, and where a value comes from (KIP-226).
v3  type and documentation of options (KIP-569).
v4  flexible.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int8, Int16, Int32, Message, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: Int8
    resource_name: str
    configuration_keys: Sequence[str] | None = None


class DescribeConfigsRequest(Message, versions=(1, 4), flexible_from=4):
    resources: Sequence[DescribeConfigsResource]
    include_synonyms: bool = False
    include_documentation: bool = field(since=3, default=False)


class DescribeConfigsSynonym(Struct):
    name: str
    value: str | None
    source: Int8


class DescribeConfigsResourceResult(Struct):
    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool
    synonyms: Sequence[DescribeConfigsSynonym] = ()
    config_type: Int8 = field(since=3, default=0)
    documentation: str | None = field(since=3, default=None)


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8
    resource_name: str
    configs: Sequence[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Message, versions=(1, 4), flexible_from=4):
    throttle_time_ms: Int32 = 0
    results: Sequence[DescribeConfigsResult]
