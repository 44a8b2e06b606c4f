"""OffsetDelete, version 0: removes committed positions of a group (KIP-496).

While the group has members, topics that they subscribe to are GROUP_SUBSCRIBED_TO_TOPIC, and a group that is not one of
consumers is NON_EMPTY_GROUP as a whole. A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from kafkalite.errors import ErrorCode
from kafkalite.model import TopicPartition
from kafkalite.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkalite.server.services import Call, Services


def handle(services: Services, _call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Removes what nobody reads."""
    known = services.store.snapshot.topics
    asked = [TopicPartition(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
    existing = {
        partition
        for partition in asked
        if (topic := known.get(partition.topic)) is not None and 0 <= partition.partition < len(topic.partitions)
    }
    error, errors = services.groups.delete_offsets(request.group_id, existing)
    if error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=error, topics=[])
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index,
                        error_code=errors.get(
                            TopicPartition(topic.name, each.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
