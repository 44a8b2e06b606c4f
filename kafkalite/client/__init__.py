"""Talking to brokers from Python, blocking: connections, the cluster, administration, plain reads and writes."""
