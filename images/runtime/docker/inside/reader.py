"""Prints one file of a container, so that bitsect can take it out.

One line of JSON on standard input names it. It must be a plain file, not a link, of no more
bytes than asked for; else nothing is printed and the status is 1. Works on Python 3.6 and later.
"""

import json
import os
import stat
import sys

PIECE = 1 << 20


def main() -> int:
    line = sys.stdin.buffer.readline()
    if not line:
        # Whoever asked is gone.
        return 1
    order = json.loads(line.decode())
    try:
        # Opening a pipe must not wait for a writer.
        descriptor = os.open(order["path"], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):
        return 1
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size > order["limit"]:
        return 1
    piece = os.read(descriptor, PIECE)
    while piece:
        sys.stdout.buffer.write(piece)
        piece = os.read(descriptor, PIECE)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
