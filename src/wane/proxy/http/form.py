"""The form of a provider's reply: streamed or whole, which is not always what was asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from wane.proxy.http import headers

# White space, and the marks of byte order that may stand ahead of either form.
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
# What server-sent events begin with.
_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")


async def from_first(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, the first of them with something in it that tells its form, if any has."""
    blank, begun = b"", False
    async for piece in pieces:
        if begun:
            yield piece
            continue
        blank += piece
        begun = bool(blank.strip(_BLANK))
        if begun:
            yield blank
    if blank and not begun:
        yield blank


def streams(beginning: bytes, given: headers.Headers) -> bool | None:
    """Whether a reply is a stream of events; None if it is neither that nor JSON.

    Args:
        beginning: the first piece of its body, as `from_first` yields it.
        given: its headers: some gateways give one form and name the other, so the body counts first.
    """
    text = beginning.lstrip(_BLANK)
    if text.startswith(b"{"):
        return False
    if any(text.startswith(field) or field.startswith(text) for field in _FIELDS):
        return True
    kind = (headers.first(given, b"content-type") or b"").partition(b";")[0].strip().lower()
    return True if kind == b"text/event-stream" and not text.startswith(b"<") else None
