"""Kafka's wire protocol: bytes <-> messages, and nothing else.

This room is pure: it knows no socket, no event loop, no clock and no file. `api` is the way in; `messages/`
has one file per API; `schema` explains how a message class is written. What a peer sent and cannot be
understood is always a `MalformedMessage`.
"""
