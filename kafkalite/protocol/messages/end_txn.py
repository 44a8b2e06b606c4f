"""EndTxn (key 26), versions 0 to 3: commits or aborts a transaction (KIP-98).

v2  PRODUCER_FENCED is possible (KIP-588).
v3  flexible.
"""

from kafkalite.protocol.schema import Int16, Int32, Int64, Message


class EndTxnRequest(Message, versions=(0, 3), flexible_from=3):
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


class EndTxnResponse(Message, versions=(0, 3), flexible_from=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
