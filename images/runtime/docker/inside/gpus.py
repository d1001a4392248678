"""Prints, as JSON, the GPUs that programs in a container can use: their UUIDs and how many.

Standard library alone. Works on Python 3.6 and later.
"""

import ctypes
import json
import os
import re
import sys

UUID_BYTES = 96


def main() -> int:
    # Nothing is written before bitsect listens, which it says by a line.
    sys.stdin.buffer.readline()
    devices = [name for name in os.listdir("/dev") if re.match(r"nvidia\d+$", name)]
    uuids, problem = asked_driver()
    count = len(devices) if uuids is None else len(uuids)
    json.dump({"count": count, "uuids": uuids or [], "problem": problem}, sys.stdout)
    return 0


def asked_driver() -> "tuple[list[str] | None, str | None]":
    """(UUIDs, None), or (None, why the driver's library cannot be asked)."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        status = library.nvmlInit_v2()
        if status != 0:
            return [], f"NVML status {status}"
        count = ctypes.c_uint()
        library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        return [uuid_of(library, index) for index in range(count.value)], None
    except (OSError, AttributeError) as error:
        return None, str(error)


def uuid_of(library: "ctypes.CDLL", index: int) -> str:
    device = ctypes.c_void_p()
    library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
    text = ctypes.create_string_buffer(UUID_BYTES)
    library.nvmlDeviceGetUUID(device, text, UUID_BYTES)
    return text.value.decode()


if __name__ == "__main__":
    sys.exit(main())
