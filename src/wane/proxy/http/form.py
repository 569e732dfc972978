"""Whether a provider's reply is streamed or whole, which is not always what was requested."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from wane.proxy.http import headers

# White space and byte order marks, which may precede either form.
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
# The beginnings of server-sent events.
_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")


async def from_first(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body; leading blank ones are joined to the first that shows its form."""
    blank, started = b"", False
    async for piece in pieces:
        if started:
            yield piece
            continue
        blank += piece
        started = bool(blank.strip(_BLANK))
        if started:
            yield blank
    if blank and not started:
        yield blank


def streams(beginning: bytes, given: headers.Headers) -> bool | None:
    """Whether a reply is a stream of events; None if it is neither that nor JSON.

    Args:
        beginning: the first piece of its body, as `from_first` yields it.
        given: its headers. Some gateways declare the wrong form, so the body takes precedence.
    """
    text = beginning.lstrip(_BLANK)
    if text.startswith(b"{"):
        return False
    if any(text.startswith(field) or field.startswith(text) for field in _FIELDS):
        return True
    kind = (headers.first(given, b"content-type") or b"").partition(b";")[0].strip().lower()
    return True if kind == b"text/event-stream" and not text.startswith(b"<") else None
