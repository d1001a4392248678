"""What a hostile image does as soon as its Python starts.

Each of these goes on without end by its own will. Behind it stands an end after all, far beyond
any limit that a stack is run under, so that a failing test does not take the machine with it.
"""

from __future__ import annotations

from typing import Literal, get_args

Behaviour = Literal["forks", "writes", "sleeps", "connects", "prints"]
BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)

_HEAD = """\
import os, socket, sys, tempfile, time

END = time.monotonic() + 300
MOST = 4 << 30
BLOCK = b"hostile\\n" * (1 << 17)
"""

_FORKS = """
while time.monotonic() < END:
    try:
        os.fork()
    except OSError:
        pass
os._exit(1)
"""

_WRITES = """
written, number = 0, 0
while time.monotonic() < END and written < MOST:
    number += 1
    for folder in (tempfile.gettempdir(), os.getcwd(), "/", "/dev/shm", "/var/tmp"):
        try:
            with open(f"{folder}/hostile-{number}", "wb", buffering=0) as stream:
                while written < MOST:
                    written += stream.write(BLOCK)
        except OSError:
            pass
time.sleep(max(0, END - time.monotonic()))
"""

_SLEEPS = """
time.sleep(300)
"""

# The way out of a container is a route; where it leads is this machine's own end of the bridge.
_CONNECTS = """
with open("/proc/net/route") as table:
    routes = [line.split() for line in table][1:]
gateways = [bytes.fromhex(route[2])[::-1] for route in routes if route[1] == "00000000"]
if not gateways:
    print("hostile: there is no way out", file=sys.stderr)
    os._exit(7)
with socket.socket() as way:
    way.settimeout(5)
    said = os.strerror(way.connect_ex((socket.inet_ntoa(gateways[0]), 9)))
print(f"hostile: there is a way out: {said}", file=sys.stderr)
os._exit(8)
"""

_PRINTS = """
written = 0
while time.monotonic() < END and written < MOST:
    try:
        written += os.write(1, BLOCK) + os.write(2, BLOCK)
    except OSError:
        os._exit(1)
time.sleep(max(0, END - time.monotonic()))
"""

_TAILS: dict[Behaviour, str] = {
    "forks": _FORKS,
    "writes": _WRITES,
    "sleeps": _SLEEPS,
    "connects": _CONNECTS,
    "prints": _PRINTS,
}

#: Python imports it before anything else, whatever it was started for.
PLACE = "etc/python3.13/sitecustomize.py"


def source(behaviour: Behaviour) -> bytes:
    """Python code that behaves so."""
    return (_HEAD + _TAILS[behaviour]).encode()
