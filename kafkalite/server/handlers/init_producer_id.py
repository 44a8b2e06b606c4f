"""InitProducerId (key 22), versions 0 to 4: an id for an idempotent producer.

Without a transactional id everybody gets a new id with epoch 0, as in Kafka, also a producer that sends the one it has
(v3 and above): it may have it from a data folder that is gone, and what it says is not proof that nobody else has it.
Not implemented: transactional ids.
"""

from __future__ import annotations

from kafkalite.errors import KafkaError
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalite.server.handlers.transactions import NOT_BUILT
from kafkalite.server.services import Call, Services


async def handle(services: Services, _call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=NOT_BUILT)
    try:
        producer_id = await services.store.next_producer_id()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
