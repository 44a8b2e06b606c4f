"""The Spark source and sink of kafkalite, and its warehouse loads."""
