"""One file per API, with its request and response; `consumer_protocol` has what group members exchange inside of them.

The field tables follow Kafka's public protocol documentation, in its order and with its names in snake_case. Files hold
declarations only: how they become bytes is `schema`'s affair, and which versions are served is `api`'s.
"""
