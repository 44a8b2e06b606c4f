"""`python -m kafkalite` is the command `kafkalite`."""

from kafkalite.cli.main import main

main()
