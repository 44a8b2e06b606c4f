"""DeleteTopics (key 20), versions 1 to 6.

v4  flexible.
v5  error message in the response (KIP-599).
v6  topics by name or id, in `topics`; the list of names is gone (KIP-516).
"""

import uuid
from collections.abc import Sequence

from kafkalite.protocol.schema import ZERO_UUID, Int16, Int32, Message, Struct, field


class DeleteTopicState(Struct):
    name: str | None = None
    topic_id: uuid.UUID = ZERO_UUID


class DeleteTopicsRequest(Message, versions=(1, 6), flexible_from=4):
    topics: Sequence[DeleteTopicState] = field(since=6, default=())
    topic_names: Sequence[str] = field(until=5, default=())
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    name: str | None = field(nullable_since=6)
    topic_id: uuid.UUID = field(since=6, default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: str | None = field(since=5, default=None)


class DeleteTopicsResponse(Message, versions=(1, 6), flexible_from=4):
    throttle_time_ms: Int32 = 0
    responses: Sequence[DeletableTopicResult]
