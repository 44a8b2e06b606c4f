"""Record batches v2: the header (`batch`), whole columns (`columns`), single rows (`rows`), codecs (`compression`)."""
