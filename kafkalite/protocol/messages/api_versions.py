"""ApiVersions (key 18), versions 0 to 3: which APIs and versions the broker serves. The first request of most clients.

v1  throttle time.
v3  flexible; the client's name and version (KIP-511); the broker's features as tagged fields (KIP-584).

Two exceptions that clients depend on are `headers`' and `api`'s affair: the response header is never flexible, and a
version that we do not know is answered in version 0.
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int16, Int32, Int64, Message, Struct, field


class ApiVersionsRequest(Message, versions=(0, 3), flexible_from=3):
    client_software_name: str = field(since=3, default="")
    client_software_version: str = field(since=3, default="")


class ApiVersion(Struct):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    name: str
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    name: str
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Message, versions=(0, 3), flexible_from=3):
    error_code: Int16 = 0
    api_keys: Sequence[ApiVersion]
    throttle_time_ms: Int32 = field(since=1, default=0)
    supported_features: Sequence[SupportedFeatureKey] = field(since=3, tag=0, default=())
    finalized_features_epoch: Int64 = field(since=3, tag=1, default=-1)
    finalized_features: Sequence[FinalizedFeatureKey] = field(since=3, tag=2, default=())
    zk_migration_ready: bool = field(since=3, tag=3, default=False)
