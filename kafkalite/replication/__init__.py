"""The partitions of this broker: who may append, what may be read, who waits for what."""
