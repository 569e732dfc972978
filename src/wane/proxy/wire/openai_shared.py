"""What Chat Completions and Responses share: the rules of their views, errors, and cache markers."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from wane.prices import TokenUsage, tier_in
from wane.proxy import jsons
from wane.proxy.wire.reply import count, error_in, usage_of_iterations
from wane.proxy.wire.wire import Body, Correction, Wire

_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# Errors of OpenAI, and of gateways that speak its protocols, about reasoning that cannot be sent back.
_REASONING: Final = re.compile(
    r"invalid_encrypted_content|encrypted.{0,400}could not be (verified|decrypted)|prefix_?mismatch"
    r"|of type .{0,3}reasoning.{0,3} was provided without|without its required .{0,3}reasoning"
    r"|item with id .{0,3}rs_\w+.{0,3} not found"
    r"|thinking.{0,80}(signature|bound to|cannot be modified)|signature.{0,20} in .{0,3}thinking",
    re.IGNORECASE | re.DOTALL,
)

MARKERS: Final = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Keys by which clients mark how far a provider should cache. They are not content, and move between requests."""


class OpenAIWire(Wire):
    """The part of a protocol that both of OpenAI's share."""

    def correction(
        self,
        status: int,
        error: bytes,
        body: Body,
        sent: Body,  # noqa: ARG002 - the refused body is enough
    ) -> Correction | None:
        """Return the correction that leaves out refused reasoning, which some models check."""
        seals = self._seals(body) if status in (400, 404, 422) else set()
        if not seals or not _REASONING.search(error.decode("utf-8", "replace")):
            return None

        def correct_body(body: Body, sent: Body) -> Body:  # noqa: ARG001 - the signature of corrections
            return body if seals.isdisjoint(self._seals(body)) else self._without(body, seals)

        return correct_body

    def error(self, status: int, message: str) -> bytes:
        return jsons.dumps({"error": _error(status, message)})

    def _seals(self, body: Body) -> set[int]:
        entries = body.get(self.history)
        seals = map(self._seal, entries) if isinstance(entries, list) else ()
        return {seal for seal in seals if seal is not None}

    @abstractmethod
    def _seal(self, entry: object) -> int | None:
        """Return a hash that identifies the signed or encrypted reasoning of a message or an item; None for none."""

    @abstractmethod
    def _without(self, body: Body, seals: set[int]) -> Body:
        """Return a body without some of its reasoning."""


def error_of(status: int, body: bytes) -> dict[str, Any]:
    """Return the error object in a provider's error body, or one made from its text if it has none."""
    error = error_in(status, body)
    return _error(status, error) if isinstance(error, str) else error


def without_markers(entry: dict[str, Any], *, content: str = "content") -> dict[str, Any]:
    """Return a message or an item without cache markers, on itself and on the parts of its content.

    Args:
        entry: the message; the same is returned if it has none.
        content: the key of its content.
    """
    parts: Any = entry.get(content)
    marked = isinstance(parts, list) and any(map(_is_marked, parts))
    if not marked and MARKERS.isdisjoint(entry):
        return entry
    plain = strip_markers(entry)
    if marked:
        plain[content] = [strip_markers(part) if _is_marked(part) else part for part in parts]
    return plain


def strip_markers(value: dict[str, Any]) -> dict[str, Any]:
    """Return a message or a part without cache markers on itself."""
    return {key: field for key, field in value.items() if key not in MARKERS}


def token_usage(reply: Mapping[str, Any], input_word: str, output_word: str) -> TokenUsage | None:
    """Return the usage that a reply reports; None if it reports none.

    Args:
        reply: what has `usage` and `service_tier`, as JSON data.
        input_word: the first word of its keys about the input.
        output_word: likewise about the output.
    """
    usage = reply.get("usage")
    if not isinstance(usage, Mapping):
        return None
    details = f"{input_word}_tokens_details"
    read = count(usage, details, "cached_tokens") or count(usage, "prompt_cache_hit_tokens")
    write = count(usage, details, "cache_write_tokens")
    total, output = count(usage, f"{input_word}_tokens"), count(usage, f"{output_word}_tokens")
    # No price of writes that are kept for half a day is published.
    kept = count(usage, details, "cache_write_tokens_details", "ttl_12h_tokens")
    tier = ", ".join(filter(None, (tier_in(reply), "12h" if kept else "")))
    reported = usage_of_iterations(usage, tier) or TokenUsage(total, output, read, write, tier=tier)
    return replace(reported, charged=charge_in(usage))


def charge_in(usage: Mapping[str, Any]) -> float | None:
    """Return the dollars that OpenRouter says it charges; None if it says none.

    With a key of the user's own for the provider, the provider's bill comes on top of OpenRouter's.
    """
    details = usage.get("cost_details")
    if not isinstance(details, Mapping):
        return None
    amounts = [usage.get("cost")]
    if usage.get("is_byok"):
        amounts.append(details.get("upstream_inference_cost"))
    total = 0.0
    for amount in amounts:
        if not isinstance(amount, int | float) or isinstance(amount, bool) or amount < 0:
            return None
        total += amount
    return total


def _error(status: int, message: str) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"message": message, "type": kind, "param": None, "code": None}


def _is_marked(value: object) -> bool:
    return isinstance(value, dict) and not MARKERS.isdisjoint(value)
