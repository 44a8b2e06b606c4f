"""ApiVersions, versions 0 to 3: what the registry advertises, from bytes made once per version.

A version that we do not know never comes here: `protocol.api` answers it, in version 0.
"""

from __future__ import annotations

from kafkalite.protocol.api import api_versions_answer
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.server.services import Call, Services


def handle(_services: Services, call: Call, _request: ApiVersionsRequest) -> bytes:
    return api_versions_answer(call.header)
