"""Preserved reasoning: newer models take back reasoning only if the conversation before it is unchanged.

Claude (Fable 5.1 and later, Opus 5.5, Sonnet 5.5, Haiku 5.5) signs a thinking block together with the system prompt,
the tools, the messages and the thinking block before it; newer OpenAI models do the same for reasoning items. An
eviction before a reasoning part therefore breaks its seal. What a provider does then is in its own module; the seal is
here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from wane.testing.wire import canonical

_MARK: Final = "wane"
_NO_PREDECESSOR: Final = "0" * 16
# Fields of cache breakpoints, whose places change from request to request.
_MARKERS: Final = frozenset({"cache_control", "prompt_cache_breakpoint"})


def _bytes(text: str) -> bytes:
    # Surrogates pass, because a model's text may hold lone ones.
    return text.encode("utf-8", "surrogatepass")


def _short(text: str) -> str:
    return hashlib.sha256(_bytes(text)).hexdigest()[:16]


class Prefix:
    """A running digest of a conversation, which seals reasoning and checks its seals.

    Args:
        head: system prompt and tools.
        chained: whether a seal also covers the reasoning before it (Claude): then reasoning may be left out at the
            start of a conversation, but not between other reasoning.
    """

    def __init__(self, head: object, *, chained: bool) -> None:
        self._digest = hashlib.sha256(_bytes(canonical(head)))
        self._chained = chained
        self._last: str | None = None

    def add(self, *content: Mapping[str, Any] | str) -> None:
        """Append content other than reasoning."""
        self._digest.update(_bytes(canonical([_strip_marker(piece) for piece in content])))

    def seal(self, text: str) -> str:
        """Return the signature for reasoning at this place."""
        last = _short(self._last) if self._last else _NO_PREDECESSOR
        return ".".join((_MARK, self._digest.hexdigest()[:32], last, _short(text)))

    def holds(self, signature: str, text: str) -> bool:
        """Check reasoning at this place, and append it if its seal holds.

        Signatures that this server did not make are accepted.
        """
        fields = signature.split(".")
        if len(fields) == 4 and fields[0] == _MARK:
            own = self.seal(text).split(".")
            chained = not self._chained or self._last is None or fields[2] == own[2]
            if fields[1] != own[1] or not chained:
                return False
        self._last = signature
        return True


def is_tampered(signature: str, text: str) -> bool:
    """Return whether a signature of ours was made for another text."""
    fields = signature.split(".")
    return len(fields) == 4 and fields[0] == _MARK and fields[3] != _short(text)


def _strip_marker(piece: Mapping[str, Any] | str) -> Mapping[str, Any] | str:
    if not isinstance(piece, Mapping):
        return piece
    return {key: value for key, value in piece.items() if key not in _MARKERS}
