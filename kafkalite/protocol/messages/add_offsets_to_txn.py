"""AddOffsetsToTxn (key 25), versions 0 to 3: a transaction is about to commit the positions of a group (KIP-98).

v3  flexible.
"""

from kafkalite.protocol.schema import Int16, Int32, Int64, Message


class AddOffsetsToTxnRequest(Message, versions=(0, 3), flexible_from=3):
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


class AddOffsetsToTxnResponse(Message, versions=(0, 3), flexible_from=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
