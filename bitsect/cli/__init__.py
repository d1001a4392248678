"""The command line. Nothing below it prints for people or decides an exit status."""

from bitsect.cli.app import bisect_main, main

__all__ = ["bisect_main", "main"]
