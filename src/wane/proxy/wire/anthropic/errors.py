"""Errors in Anthropic's format."""

from __future__ import annotations

from typing import Final

from wane.proxy import jsons

_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_SHOWN: Final = 80  # characters of unknown data in a message


def error_body(status: int, message: str) -> bytes:
    """Return an error body in Anthropic's format."""
    kind = _ERRORS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return jsons.dumps({"type": "error", "error": {"type": kind, "message": message}})


def as_error(status: int, body: bytes) -> bytes:
    """Return a provider's error body as one line of JSON in Anthropic's format, whatever format it has."""
    try:
        said = jsons.loads(body)
    except ValueError:
        said = None
    if isinstance(said, dict) and isinstance(said.get("error"), dict):
        return jsons.dumps(said)
    return error_body(status, body.decode("utf-8", "replace").strip() or f"the provider answered with HTTP {status}")


def clip(value: object) -> str:
    """Return the beginning of unknown data, for a message."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
