"""The root of the product's errors, and those that arise where a probe runs.

An error carries data. The sentence that a person reads is made in one place, the command
line's edge, so that every interface can word it for its readers.
"""

from __future__ import annotations


class BitsectError(Exception):
    """Base of every error that a user's input, stack or machine can cause.

    Anything else that escapes is a defect of bitsect itself.
    """


class ProbeError(BitsectError):
    """The probe cannot run in this stack.

    :param reason: what the stack lacks, in a few words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HostError(BitsectError):
    """The machine, not the stack, kept the probe from its end.

    :param reason: what the machine lacks.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FingerprintError(BitsectError):
    """A tensor has no bytes that could be fingerprinted (sparse, meta, opaque layouts).

    :param dtype: the tensor's dtype, as torch names it.
    :param reason: why its bytes are out of reach.
    """

    def __init__(self, dtype: str, reason: str) -> None:
        super().__init__(dtype, reason)
        self.dtype = dtype
        self.reason = reason


class TraceError(BitsectError):
    """A trace file is not evidence: cut, edited, malformed, or of an unknown schema.

    :param path: the file.
    :param line: 1-based number of the offending line, where one is to blame.
    :param reason: what is wrong with it.
    """

    def __init__(self, path: str, line: int | None, reason: str) -> None:
        super().__init__(path, line, reason)
        self.path = path
        self.line = line
        self.reason = reason


class EventKeyError(BitsectError, ValueError):
    """A text or a set of values is not the key of an event.

    :param text: the key, as it was given or would be spelt.
    :param reason: what is wrong with it.
    """

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason


class SelfCheckError(BitsectError):
    """This stack computes known fingerprints wrongly, so nothing that it reports can be trusted.

    :param device: the device that was checked, as torch names it.
    :param case: which known answer came out differently.
    :param expected: the known answer.
    :param actual: what this stack computed.
    """

    def __init__(self, device: str, case: str, expected: str, actual: str) -> None:
        super().__init__(device, case, expected, actual)
        self.device = device
        self.case = case
        self.expected = expected
        self.actual = actual


class UnknownArmError(BitsectError):
    """An arm was asked for that this probe does not have.

    :param arm: the name that was asked for.
    :param known: the names of the arms that there are.
    """

    def __init__(self, arm: str, known: tuple[str, ...]) -> None:
        super().__init__(arm, known)
        self.arm = arm
        self.known = known


class OutputError(BitsectError):
    """The folder for the results cannot be made or written to.

    :param path: the folder.
    :param reason: the operating system's own words.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason
