"""FindCoordinator (key 10), versions 0 to 4: which broker coordinates a group (key type 0) or a transactional id (1).

v1  key type; error message (KIP-98).
v3  flexible.
v4  many keys at once, in `coordinator_keys` and `coordinators`; the fields for one key are gone (KIP-699).
"""

from collections.abc import Sequence

from kafkalite.protocol.schema import Int8, Int16, Int32, Message, Struct, field


class FindCoordinatorRequest(Message, versions=(0, 4), flexible_from=3):
    key: str = field(until=3, default="")
    key_type: Int8 = field(since=1, default=0)
    coordinator_keys: Sequence[str] = field(since=4, default=())


class Coordinator(Struct):
    key: str
    node_id: Int32
    host: str
    port: Int32
    error_code: Int16 = 0
    error_message: str | None = None


class FindCoordinatorResponse(Message, versions=(0, 4), flexible_from=3):
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = field(until=3, default=0)
    error_message: str | None = field(since=1, until=3, default=None)
    node_id: Int32 = field(until=3, default=-1)
    host: str = field(until=3, default="")
    port: Int32 = field(until=3, default=-1)
    coordinators: Sequence[Coordinator] = field(since=4, default=())
