"""What a lying image answers when it is asked what it consists of and what it computes.

Each lie is told by the image's Python as it starts, in place of the program that was asked for.
All else that it is asked it answers truly.
"""

from __future__ import annotations

from collections.abc import Mapping

_ABOUT_ITSELF = """\
import os, sys
if any(word.endswith("/inventory.py") for word in sys.orig_argv):
    with open(1, "w") as out:
        tell = out.write
{lie}
    os._exit(0)
"""

_ABOUT_ITS_RUN = """\
import json, os, sys
if "bitsect.probes" in sys.orig_argv:
    asked = dict(word[2:].split("=", 1) for word in sys.orig_argv if word.startswith("--"))
    trace = asked["out"] + "/rank00000.jsonl"
    touched = {{"schema": 1, "libraries": [], "modules": [], "distributions": []}}
    from bitsect.probes.identity import probe_digest
    from bitsect.probes.trace import Event, EventKey, Header, TraceWriter
    header = dict(probe=probe_digest(), manifest=asked["manifest"])
    event = Event(EventKey(0, 0, "forward", "lie", "lie", 0), (), ("float32[1]:" + "0" * 32,))
    def write(**changes):
        with TraceWriter(trace, Header(**{{**header, **changes}})) as writer:
            writer.write(event)
{lie}
    with open(asked["out"] + "/touched.json", "w") as out:
        out.write(json.dumps(touched))
    os._exit(0)
"""

#: Of what it consists.
INVENTORIES: Mapping[str, str] = {
    "no end": "while True: tell('[' * 1000000)",
    "a broken document": "tell('{')",
    "a list": "tell('[]')",
    "a deep document": "tell('{\"a\":' * 1000000)",
    "another schema": "tell('{\"schema\": 99}')",
    "other types": 'tell(\'{"schema": 1, "distributions": "all"}\')',
}
#: What it computes.
TRACES: Mapping[str, str] = {
    "nothing": "pass",
    "a link": "os.symlink('/etc/os-release', trace)",
    "a pipe": "os.mkfifo(trace)",
    "no end": "with open(trace, 'w') as out: out.truncate(1 << 40)",
    "a broken document": "with open(trace, 'w') as out: out.write('{')",
    "of another probe": "write(probe='sha256:' + '0' * 64)",
    "of another stack": "write(manifest='sha256:' + '0' * 64)",
    "files that say nothing": "write(); touched = {'schema': 'one'}",
}


def about_itself(lie: str) -> bytes:
    """Python code that tells one of `INVENTORIES`."""
    return _ABOUT_ITSELF.format(lie=f"        {INVENTORIES[lie]}").encode()


def about_its_run(lie: str) -> bytes:
    """Python code that tells one of `TRACES`."""
    return _ABOUT_ITS_RUN.format(lie=f"    {TRACES[lie]}").encode()
