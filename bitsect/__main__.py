"""`python -m bitsect` is `bitsect`."""

from bitsect.cli import main

main()
