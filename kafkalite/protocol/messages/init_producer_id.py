"""InitProducerId (key 22), versions 0 to 4: an id and epoch for an idempotent or transactional producer (KIP-98).

v2  flexible.
v3  the producer sends the id and epoch that it has, to have its epoch raised (KIP-360).
v4  PRODUCER_FENCED is possible (KIP-588).
"""

from kafkalite.protocol.schema import Int16, Int32, Int64, Message, field


class InitProducerIdRequest(Message, versions=(0, 4), flexible_from=2):
    transactional_id: str | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = field(since=3, default=-1)
    producer_epoch: Int16 = field(since=3, default=-1)


class InitProducerIdResponse(Message, versions=(0, 4), flexible_from=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1
