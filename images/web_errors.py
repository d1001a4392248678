"""Why a request over the network failed, in a few words."""

from __future__ import annotations

import ssl


def innermost_reason(error: BaseException) -> str:
    """The innermost cause, without the addresses that the outer messages repeat."""
    chain: list[BaseException] = []
    while error not in chain:
        chain.append(error)
        reason = getattr(error, "reason", None)
        inner = reason if isinstance(reason, BaseException) else None
        arguments = [each for each in error.args if isinstance(each, BaseException)]
        following = inner or (arguments[0] if arguments else None)
        error = following or error.__cause__ or error.__context__ or error
    last = chain[-1]
    if isinstance(last, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({last.verify_message})"
    if isinstance(last, OSError) and last.strerror:
        return last.strerror
    return type(last).__name__
