"""The log on disk: files, no network, no event loop.

`log.PartitionLog` is the way in, `manager.LogManager` holds all of a broker's. One thread owns a log; the
slow parts (flush, cleaning, checkpoint) are values with a blocking `run`, made by the owner, run anywhere, and
handed back to the owner.
"""
