"""Heartbeat (key 12), versions 0 to 4: a group member is alive; the answer says whether the group is rebalancing.

v3  static membership (KIP-345).
v4  flexible.
"""

from kafkalite.protocol.schema import Int16, Int32, Message, field


class HeartbeatRequest(Message, versions=(0, 4), flexible_from=4):
    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = field(since=3, default=None)


class HeartbeatResponse(Message, versions=(0, 4), flexible_from=4):
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = 0
