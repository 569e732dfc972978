"""Errors in OpenAI's format: writing, reading and recognising them."""

from __future__ import annotations

import re
from typing import Any, Final

from wane.proxy import jsons

_LONGEST: Final = 2_000  # characters of an error body that is not JSON
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# Errors of OpenAI, and of gateways that speak its protocols, about reasoning that cannot be sent back.
_REASONING: Final = re.compile(
    r"invalid_encrypted_content|encrypted.{0,400}could not be (verified|decrypted)|prefix_?mismatch"
    r"|of type .{0,3}reasoning.{0,3} was provided without|without its required .{0,3}reasoning"
    r"|item with id .{0,3}rs_\w+.{0,3} not found"
    r"|thinking.{0,80}(signature|bound to|cannot be modified)|signature.{0,20} in .{0,3}thinking",
    re.IGNORECASE | re.DOTALL,
)


def error_body(status: int, message: str) -> bytes:
    """Return an error body in OpenAI's format.

    Args:
        status: the HTTP status.
        message: what is wrong, and what to do.
    """
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return jsons.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}})


def error_of(status: int, body: bytes) -> dict[str, Any]:
    """Return the error object in a provider's error body, or one made from its text if it has none.

    Args:
        status: the HTTP status.
        body: the body.
    """
    try:
        data = jsons.loads(body)
    except ValueError:
        data = None
    error = data.get("error") if isinstance(data, dict) else None
    if isinstance(error, dict):
        return error
    text = error if isinstance(error, str) else body.decode("utf-8", "replace")[:_LONGEST]
    message = text.strip() or f"the provider answered with HTTP {status}"
    made: dict[str, Any] = jsons.loads(error_body(status, message))["error"]
    return made


def is_about_reasoning(status: int, body: bytes) -> bool:
    """Whether a request was refused because its reasoning does not belong to the conversation before it."""
    return status in (400, 404, 422) and _REASONING.search(body.decode("utf-8", "replace")) is not None
