"""The command `kafkalite`: one file per group of commands.

Modules here import at their top only what parsing a command line needs; a command imports what it does when it runs, so
that `kafkalite serve` does not wait for tables and clients, nor a client for the broker.
"""
