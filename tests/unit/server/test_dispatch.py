"""Every API that is advertised is served, and nothing else is."""

from __future__ import annotations

import typing

import pytest

from kafkalite.protocol.api import APIS
from kafkalite.server.dispatch import HANDLERS


def test_every_api_of_the_registry_has_a_handler() -> None:
    assert list(HANDLERS) == list(APIS)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_handler_takes_the_request_of_its_api(api: typing.Any) -> None:
    *_, request = [
        hint for name, hint in typing.get_type_hints(HANDLERS[api.key]).items() if name.strip("_") == "request"
    ]
    assert request is api.request
