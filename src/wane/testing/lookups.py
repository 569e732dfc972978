"""Answers what clients ask for besides the model: the list of models, whether the server is there, a websocket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wane.testing.openai_chat import openai_error
from wane.testing.wire import CREATED

MODEL: Final = "scripted"
"""The listed model. The server answers to every name."""

_MODELS: Final = "/v1/models"


def look_up(path: str, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """Return status and body of the answer to a GET or HEAD.

    Args:
        path: the path, without a query.
        headers: the headers, names in lower case.
    """
    if "websocket" in headers.get("upgrade", "").lower():
        # Clients then use a plain request at once, and do not try a websocket again.
        return 426, openai_error(426, "the scripted server speaks no websocket; send a POST", None, None)
    anthropic = "anthropic-version" in headers
    if path == _MODELS:
        return 200, _anthropic_models() if anthropic else _openai_models()
    if path == f"{_MODELS}/{MODEL}":
        return 200, (_anthropic_models() if anthropic else _openai_models())["data"][0]
    return 404, openai_error(404, f"the scripted server has no {path} to read; it lists {_MODELS}", None, None)


def _openai_models() -> dict[str, Any]:
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": CREATED, "owned_by": "wane"}]}


def _anthropic_models() -> dict[str, Any]:
    released = {"created_at": "2026-01-01T00:00:00Z", "lifecycle": "active"}
    model = {"type": "model", "id": MODEL, "display_name": "Scripted", **released}
    return {"data": [model], "has_more": False, "first_id": MODEL, "last_id": MODEL}
